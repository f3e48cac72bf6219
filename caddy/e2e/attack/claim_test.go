package attack

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// Where no chain is read, a facilitator names as proof of a settlement that never was whatever comes to its mind. Nobody gets a
// signed receipt for it, and it stands in no sum: it is not known, and the operator decides.
func TestAClaimThatCannotBeTrueIsNone(t *testing.T) {
	t.Parallel()
	m := openMarket(t, chain.BaseSepolia, 6)
	facilitator := payoffertest.NewFacilitator(t)
	facilitator.OnBroadcast(m.settle)
	s := openShop(m, m.payee(), unlimited, rail{"base-sepolia", "off", []string{facilitator.URL()}})
	honest := s.pay(s.sign(s.buyer()))
	require.Equal(t, http.StatusOK, honest.status, honest.text)
	require.Contains(t, honest.text, "offer-receipt")
	s.requireClaimed(1)

	real := honest.transaction.Hex()
	for name, lie := range map[string]reply{
		"another payment's transaction":             {Idle: true, Transaction: real},
		"another payment's transaction in capitals": {Idle: true, Transaction: "0x" + strings.ToUpper(real[2:])},
		"the transaction zero":                      {Idle: true, Transaction: common.Hash{}.Hex()},
		"another payer": {Idle: true, Body: string(s.encode(object{
			"success": true, "transaction": common.HexToHash("0xdead").Hex(), "network": caip2(m.chain.Network), "payer": s.payee.Hex(),
		}))},
	} {
		facilitator.Script(payoffertest.CallSettle, lie)
		p := s.sign(s.buyer())
		for range 2 {
			a := s.pay(p)
			s.requireNoReceipt(name, a)
			require.Equal(t, p.nonce(), a.intent, name)
		}
		require.Empty(t, s.charges(s.payee, p.buyer))
		s.requireClaimed(1)
	}
}

// requireNoReceipt requires an answer by which nobody can say that they paid.
func (s *shop) requireNoReceipt(name string, a answer) {
	s.Helper()
	require.NoError(s, a.err)
	require.Equal(s, http.StatusServiceUnavailable, a.status, "%s: %s", name, a.text)
	require.Equal(s, common.Hash{}, a.transaction, "%s: %s", name, a.text)
	require.NotContains(s, a.text, "offer-receipt", name)
}

// requireClaimed requires the sum of what facilitators say that they have settled: so many payments.
func (s *shop) requireClaimed(count int64) {
	s.Helper()
	report, err := s.received()
	require.NoError(s, err)
	for _, r := range report.Rails {
		if r.Rail == "usdc" {
			require.Equal(s, count, r.Claimed.Count)
			require.Equal(s, strconv.FormatInt(count*price, 10), r.Claimed.AmountAtomic)
			return
		}
	}
	require.Fail(s, "the report has no such rail")
}
