package diagnose

import (
	"io"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/service"
)

// The wallet says whether it gives invoices and whether it reports payments. Without a Bitcoin rail the price is checked, too.
func TestWalletIssues(t *testing.T) {
	for name, c := range map[string]struct {
		kind   payoffertest.WalletKind
		script payoffertest.WalletScript
		want   string
	}{
		"it reports payments": {payoffertest.WalletBTCPay, payoffertest.WalletScript{}, ""},
		"it is silent":        {payoffertest.WalletLNbits, payoffertest.WalletScript{}, "wallet-silent"},
		"it gives no invoice": {payoffertest.WalletAlby, payoffertest.WalletScript{Status: http.StatusNotFound}, "wallet-failing"},
	} {
		t.Run(name, func(t *testing.T) {
			s := around(t)
			wallet := payoffertest.NewWallet(t, c.kind, func() time.Time { return noon })
			wallet.Set(c.script)
			s.hosts[wallet.Host()] = func(w http.ResponseWriter, r *http.Request) {
				r.RequestURI = ""
				answer, err := wallet.Transport().RoundTrip(r)
				require.NoError(t, err)
				defer answer.Body.Close()
				w.WriteHeader(answer.StatusCode)
				_, _ = io.Copy(w, answer.Body)
			}
			rail, err := offer.NewLightning(wallet.Address(), 42_00)
			require.NoError(t, err)
			s.offer.Settings.Rails = append(s.offer.Settings.Rails, service.Lightning{Lightning: rail})
			issues := Run(t.Context(), s.World, []Offer{s.offer}).Issues
			prices := slices.DeleteFunc(slices.Clone(issues), func(i Issue) bool { return i.Code != PriceSource.Name || i.Subject != "lightning" })
			require.Len(t, prices, 4, "no price source answers here")
			found := slices.DeleteFunc(issues, func(i Issue) bool { return i.Code == PriceSource.Name })
			if c.want == "" {
				require.Empty(t, found)
				return
			}
			require.Len(t, found, 1)
			require.Equal(t, c.want, found[0].Code)
			require.NotContains(t, found[0].What, "as scripted")
		})
	}
}
