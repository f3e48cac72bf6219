package transfers

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
)

// The buyer signs another payment when an authorization is called dead: one liar must not bring that about.
func TestOneEndpointAloneKillsNoAuthorization(t *testing.T) {
	t.Parallel()
	s := openTill(t, 2)
	a := chain.NewAuthorization(t, chain.Address(s.chain.Buyers[0]), s.payee, price)
	require.NoError(t, s.round())
	s.rpc[0].on("eth_getBlockByNumber", func(c call, pass func(call) json.RawMessage) (json.RawMessage, error) {
		var b map[string]any
		_ = json.Unmarshal(pass(c), &b)
		b["timestamp"] = hexutil.EncodeUint64(uint64(a.ValidBefore) + 1)
		return encode(b), nil
	})
	reason, err := s.observer.Dead(t.Context(), s.key(a), a.ValidBefore)
	require.NoError(t, err)
	require.Empty(t, reason)

	s.rpc[0].honest()
	s.chain.Elapse(t, 10*time.Minute)
	s.chain.Finalize(t)
	reason, err = s.observer.Dead(t.Context(), s.key(a), a.ValidBefore)
	require.NoError(t, err)
	require.Equal(t, "authorization_expired", reason)
}

// An authorization that one endpoint shows to have paid is not dead, whatever the others say.
func TestAnAuthorizationThatAnEndpointShowsPaidIsNotDead(t *testing.T) {
	t.Parallel()
	s := openTill(t, 3)
	a := chain.NewAuthorization(t, chain.Address(s.chain.Buyers[0]), s.payee, price)
	hash, err := s.chain.Send(s.chain.USDC, a.Call(t, a.Sign(t, s.chain.Buyers[0])))
	require.NoError(t, err)
	s.chain.Mine(t, 1)
	s.chain.Elapse(t, 10*time.Minute)
	s.chain.Finalize(t)
	require.NoError(t, s.round())
	for _, p := range s.rpc[:2] {
		p.hide(hash)
		p.on("eth_call", answer(common.Hash{}.Hex()))
	}
	reason, err := s.observer.Dead(t.Context(), s.key(a), a.ValidBefore)
	require.NoError(t, err)
	require.Empty(t, reason)

	s.rpc[0].honest()
	observation, found, err := s.observer.Find(t.Context(), s.key(a), time.Now().Unix())
	require.NoError(t, err)
	require.True(t, found, "two of three prove it")
	require.Equal(t, hash.Hex(), observation.Transaction)
	require.True(t, observation.Final)
}
