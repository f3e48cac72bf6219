package attack

import (
	"net/http"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/mpp"
)

// What the official facilitator settles for contract wallets is taken here, by x402 and by the Payment scheme.
func TestContractWalletsPayThroughTheOfficialFacilitator(t *testing.T) {
	t.Parallel()
	m := openMarket(t, 1)
	facilitator := m.facilitator()
	s := openShop(m, m.payee(), unlimited, rail{"base-sepolia", m.chain.URL, []string{facilitator}})
	for _, kind := range chain.WalletKinds {
		account := m.chain.OpenWallet(t, kind)
		for _, way := range []string{"x402", "MPP"} {
			p := s.sign(m.chain.Owner, func(a *chain.Authorization) { a.From = account.Address })
			p.signature = account.Sign(t, p.Authorization)
			before := len(s.chargesOf(account.Address))
			var a answer
			if way == "x402" {
				a = s.pay(p)
			} else {
				a = s.authorized(t.Context(), mpp.Authorization(s, p.credential()))
			}
			require.NoError(t, a.err)
			require.Equal(t, http.StatusOK, a.status, "%s by %s: %s", kind, way, a.text)
			require.Len(t, s.chargesOf(account.Address), before+1, "%s by %s", kind, way)
		}
	}
}

// chargesOf are the transfers from an account to the shop.
func (s *shop) chargesOf(account common.Address) (charges []chain.Transfer) {
	s.Helper()
	for _, transfer := range s.chain.TransfersTo(s, s.payee) {
		if transfer.From == account {
			charges = append(charges, transfer)
		}
	}
	return charges
}
