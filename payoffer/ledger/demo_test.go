package ledger

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

func TestDemosAndRealOffersHaveLedgersOfTheirOwn(t *testing.T) {
	eachDialect(t, func(t *testing.T, d testDialect) {
		shop := func(id string) Account { return Account{Offer: "shop", ID: id, Rail: "card"} }
		chain := Account{Offer: "shop", ID: "eip155:84532/any", Rail: "usdc", Testnet: true}
		for name, c := range map[string]struct {
			first, then []Account
			want        error
		}{
			"a demo again":                     {[]Account{shop(offer.DemoAccount), chain}, []Account{chain, shop(offer.DemoAccount)}, nil},
			"a real offer again":               {[]Account{shop("stripe/plink_1"), chain}, []Account{shop("stripe/plink_2")}, nil},
			"a real offer on a demo's":         {[]Account{shop(offer.DemoAccount), chain}, []Account{shop("stripe/plink_1"), chain}, errDemo},
			"a demo's rail alone on a demo's":  {[]Account{shop(offer.DemoAccount), chain}, []Account{chain}, errDemo},
			"a demo on a real offer's":         {[]Account{chain}, []Account{shop(offer.DemoAccount), chain}, errReal},
			"a demo that is alone on a real's": {[]Account{shop("stripe/plink_1")}, []Account{shop(offer.DemoAccount)}, errReal},
		} {
			t.Run(name, func(t *testing.T) {
				l := d.empty(t)
				require.NoError(t, l.Register(t.Context(), c.first...))
				require.ErrorIs(t, l.Register(t.Context(), c.then...), c.want)
				known := must(l.Accounts(t.Context(), "shop"))(t)
				if c.want != nil {
					require.Len(t, known, len(c.first), "nothing is stored")
				}
			})
		}
	})
}

func TestADemosLedgerIsRestoredIntoNone(t *testing.T) {
	eachDialect(t, func(t *testing.T, d testDialect) {
		demo, target := d.empty(t), d.empty(t)
		require.NoError(t, demo.Register(t.Context(), Account{Offer: "demo", ID: offer.DemoAccount, Rail: "card"}))
		path := filepath.Join(t.TempDir(), "copy.db")
		must(demo.Backup(t.Context(), path))(t)
		_, err := target.Restore(t.Context(), path)
		require.ErrorIs(t, err, errDemo)
		known := must(target.Accounts(t.Context(), "demo"))(t)
		require.Empty(t, known)
	})
}
