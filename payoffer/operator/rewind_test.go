package operator

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// stands stores how far a rail was read.
func (o *fixture) stands(rail, origin, position string) {
	o.t.Helper()
	account := o.account(rail).ID
	_, err := o.book.SetOrigin(o.t.Context(), testOffer, account, origin)
	require.NoError(o.t, err)
	_, err = o.book.Record(o.t.Context(), &ledger.Cursor{Offer: testOffer, Account: account, Position: position})
	require.NoError(o.t, err)
}

func (o *fixture) read(rail string) bool {
	o.t.Helper()
	_, found, err := o.book.Cursor(o.t.Context(), testOffer, o.account(rail).ID)
	require.NoError(o.t, err)
	return found
}

func TestARailIsRewoundToItsOrigin(t *testing.T) {
	onEachLedger(t, func(t *testing.T, o *fixture) {
		o.sees("card", "pi_1", ledger.LevelProvider, ledger.StatusConfirmed)
		for _, test := range []struct{ rail, source, origin, from string }{
			{"usdc", "chain", "43000000", "block 43000001"},
			{"card", "provider", "1795200000", "2026-11-20T18:40:00Z"},
			{"pack", "provider", "", ""},
		} {
			o.health = observe.Health{Rail: test.rail, Source: test.source}
			o.stands(test.rail, test.origin, "44000000")
			done, err := o.Rewind(t.Context(), Rewind{Rail: test.rail})
			require.NoError(t, err)
			require.Equal(t, Rewound{Offer: testOffer, Rail: test.rail, From: test.from}, done)
			require.False(t, o.read(test.rail))
			require.Contains(t, o.log.String(), "rail="+test.rail)
			_, err = o.Rewind(t.Context(), Rewind{Rail: test.rail})
			requireRefusal(t, err, Conflict, "nothing of the rail "+test.rail+" was read yet")
		}
		require.EqualValues(t, 4200, o.received(), "what is known stays")
	})
}

func TestOnlyARailThatIsReadBackIsRewound(t *testing.T) {
	o := newFixture(t)
	for _, source := range []string{"operator", "facilitator", "webhook", ""} {
		o.health = observe.Health{Rail: "card", Source: source}
		o.stands("card", "1", "2")
		_, err := o.Rewind(t.Context(), Rewind{Rail: "card"})
		requireRefusal(t, err, Conflict, "nothing reads the rail card back")
		require.True(t, o.read("card"))
	}
	_, err := o.Rewind(t.Context(), Rewind{Rail: "btc"})
	requireRefusal(t, err, Unknown, `no rail is named "btc"; there are: card, usdc, transfer, pack`)
	_, err = o.Rewind(t.Context(), Rewind{})
	requireRefusal(t, err, Unknown, `no rail is named ""`)

	o.health = observe.Health{Rail: "usdc", Source: "chain"}
	require.NoError(t, o.book.Close())
	_, err = o.Rewind(t.Context(), Rewind{Rail: "usdc"})
	requireRefusal(t, err, Unavailable, "the ledger cannot be used now")
}

// The address that a key published last is an account from then on, which is read
// whatever address the search of the chain ends at.
func TestARewoundKeyKeepsTheAddressThatItPublished(t *testing.T) {
	const zpub = "zpub6rFR7y4Q2AijBEqTUquhVz398htDFrtymD9xYYfG1m4wAcvPhXNfE3EfH1r1ADqtfSdVCToUG868RvUUkgDKf31mGDtKsAYz2oz2AGutZYs"
	const single = "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4"
	for account, kept := range map[string]string{zpub: "bc1qnjg0jd8228aq7egyzacy8cys3knf9xvrerkf9g", single: ""} {
		o := newFixture(t)
		rail, err := offer.NewBitcoin(account, "", 4200)
		require.NoError(t, err)
		o.Offer, err = offer.New(offer.Terms{ID: testOffer, BaseURL: "https://pay.example", Amount: 4200}, o.Offer.Card, rail)
		require.NoError(t, err)
		o.Accounts = append(o.Accounts, ledger.Account{Offer: testOffer, ID: rail.Account(), Rail: "btc"})
		require.NoError(t, o.book.Register(t.Context(), ledger.Account{Offer: testOffer, ID: rail.Account(), Rail: "btc", Since: 700}))
		followed := 0
		o.Address, o.Follow = func() string { return kept }, func() { followed++ }
		o.health = observe.Health{Rail: "btc", Source: "chain"}
		o.stands("btc", "900", `{"height":1000,"index":60}`)

		done, err := o.Rewind(t.Context(), Rewind{Offer: testOffer, Rail: "btc"})
		require.NoError(t, err)
		require.Equal(t, Rewound{Offer: testOffer, Rail: "btc", From: "block 901", Kept: kept}, done)
		if kept == "" {
			require.Zero(t, followed)
			continue
		}
		require.Equal(t, 1, followed)
		added, err := o.book.Account(t.Context(), testOffer, rail.CAIP2()+"/"+kept)
		require.NoError(t, err)
		require.Equal(t, []any{"btc", "900", int64(700)}, []any{added.Rail, added.Origin, added.Since})
	}
}
