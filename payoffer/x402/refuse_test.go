package x402

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// A transport refuses only what the chain says was not charged, and never what was
// taken before.
func TestATransportRefusesByTheWordOfTheChainAlone(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(s *shop, chain *payoffertest.Chain, b *buyer)
		want    Status
		asked   bool
	}{
		"unused": {func(*shop, *payoffertest.Chain, *buyer) {}, Refused, true},
		"paid by others": {func(s *shop, chain *payoffertest.Chain, b *buyer) {
			chain.Transfer(b.key(), someTransaction, 42_000_000, false)
			s.observed(chain, b)
		}, Settled, true},
		"unreadable": {func(_ *shop, chain *payoffertest.Chain, _ *buyer) { chain.Down(true) }, Open, true},
		"taken before": {func(s *shop, chain *payoffertest.Chain, b *buyer) {
			require.Equal(s.t, Settled, s.pay(b.v2(s.t)).Status)
		}, Settled, false},
	} {
		bubble(t, name, func(t *testing.T) {
			s, f, chain, b := onChain(t)
			chain.At(7, time.Now().Unix())
			f.OnBroadcast(func(payoffertest.Settlement) (string, error) {
				chain.Transfer(b.key(), someTransaction, 42_000_000, false)
				return someTransaction, nil
			})
			c.prepare(s, chain, b)
			calls, asked := len(f.Calls(settleCall)), false
			got := s.Pay(t.Context(), Attempt{Payload: b.v2(t), Refuse: func() (string, string) {
				asked = true
				return "invalid-challenge", "It answers no challenge."
			}})
			require.Equal(t, c.want, got.Status, got.Detail)
			require.Equal(t, c.asked, asked)
			require.Len(t, f.Calls(settleCall), calls)
			if c.want == Refused {
				require.Equal(t, "invalid-challenge", got.Reason)
				require.Equal(t, "It answers no challenge. Nothing was charged.", got.Detail)
				s.requireState(b, "")
			}
		})
	}
}
