package x402

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/crypto"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// What a buyer signs here is what is checked here, on the one network alone.
func TestAnAuthorizationIsThatOfItsNetwork(t *testing.T) {
	key, err := crypto.GenerateKey()
	require.NoError(t, err)
	until := time.Unix(1_800_000_000, 0)
	nonces := map[string]bool{}
	for _, name := range []string{"base", "base-sepolia", "ethereum", "celo"} {
		network, err := offer.LookupNetwork(name)
		require.NoError(t, err)
		rail, err := offer.NewUSDC("usdc", network, "0x52908400098527886E0F7030069857D2E4169EE7", 4200)
		require.NoError(t, err)
		authorized := Authorize(key, network, rail.PayTo, rail.Atomic(), until)
		payload, err := json.Marshal(map[string]any{
			"x402Version": 2, "accepted": requirements(rail), "payload": authorized,
		})
		require.NoError(t, err)
		p, err := decodePayment(payload)
		require.NoError(t, err)
		require.Equal(t, "1800000000", p.authorization.ValidBefore)
		require.Equal(t, crypto.PubkeyToAddress(key.PublicKey).Hex(), p.authorization.From)
		for _, other := range []string{"base", "base-sepolia", "ethereum", "celo"} {
			elsewhere, err := offer.LookupNetwork(other)
			require.NoError(t, err)
			require.Equal(t, other == name, authorized.Signs(elsewhere), "%s on %s", name, other)
		}
		require.False(t, nonces[strings.ToLower(p.authorization.Nonce)])
		nonces[strings.ToLower(p.authorization.Nonce)] = true
	}
}
