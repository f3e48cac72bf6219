package ledger

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/observations"
)

func requirePayment(t *testing.T, l *Ledger, account, name string) Payment {
	t.Helper()
	p, found := find(l.Payment(t.Context(), testOffer, account, name))(t)
	require.True(t, found)
	require.Equal(t, testOffer, p.Offer)
	return p
}

// TestAPaymentKeepsItsNameThroughItsLife follows an authorization from its intent over two
// transactions, of which the first leaves the chain.
func TestAPaymentKeepsItsNameThroughItsLife(t *testing.T) {
	eachLedger(t, func(t *testing.T, l *Ledger, _ *testClock) {
		network, _, err := offer.ParseUSDCAccount(testAccount)
		require.NoError(t, err)
		nonce := observations.Nonce(15)
		name := AuthorizationName("0xAA", strings.ToUpper(nonce))
		_, found := find(l.Payment(t.Context(), testOffer, testAccount, name))(t)
		require.False(t, found)

		i := testIntent("0xAA", nonce)
		i.IntentKey = IntentKey{Network: network.CAIP2(), Asset: network.USDC, From: "0xAA", Nonce: nonce}
		i.Secret = "5ec4e7"
		require.NoError(t, l.InsertIntent(t.Context(), i))
		requireState := func(status Status, transaction string, state IntentState) Payment {
			t.Helper()
			p := requirePayment(t, l, testAccount, name)
			require.Equal(t, status, p.Status)
			require.Equal(t, transaction, p.Transaction)
			require.NotNil(t, p.Intent)
			require.Equal(t, state, p.Intent.State)
			require.Equal(t, "5ec4e7", p.Intent.Secret)
			require.Equal(t, name, p.Name())
			require.Equal(t, "usdc", p.Rail)
			require.True(t, p.Testnet)
			return p
		}
		p := requireState(StatusSettling, "", IntentSettling)
		require.EqualValues(t, 42_000_000, p.Amount)
		require.Equal(t, "x402", p.Via)
		require.Zero(t, p.ID)
		require.NoError(t, l.SettleIntent(t.Context(), i.IntentKey, "0x1", []byte(`{}`), EvidenceFacilitator))
		p = requireState(StatusClaimed, "0x1", IntentSettled)
		require.EqualValues(t, EvidenceFacilitator, p.EvidenceLevel)

		observe := func(transaction string, state Status) {
			t.Helper()
			s := chainObservation(transaction, state)
			s.Payer, s.Nonce, s.Intent = "0xaa", nonce, &i.IntentKey
			mustRecord(t, l, s)
		}
		observe("0x1", StatusSeen)
		requireState(StatusSeen, "0x1", IntentSettled)
		observe("0x1", StatusDropped)
		requireState(StatusSettling, "", IntentSettling) // the authorization may be paid again
		observe("0x2", StatusConfirmed)
		require.NotZero(t, requireState(StatusConfirmed, "0x2", IntentSettled).ID)
		observe("0x2", StatusDropped)
		require.NoError(t, l.RefuseIntent(t.Context(), i.IntentKey, "expired"))
		require.NotZero(t, requireState(StatusDropped, "0x2", IntentRefused).ID, "the receipt says more than the intent")
	})
}

func TestAPaymentIsFoundByItsNameAndItsOfferAlone(t *testing.T) {
	eachLedger(t, func(t *testing.T, l *Ledger, _ *testClock) {
		former := strings.Replace(testAccount, "0x1", "0x2", 1) // pays another address
		card := mustRecord(t, l, cardObservation("pi_1", StatusConfirmed))
		plain := mustRecord(t, l, chainObservation("0xa", StatusConfirmed))
		elsewhere := chainObservation("0xb", StatusConfirmed) // an authorization that was not sent here
		elsewhere.Payer, elsewhere.Nonce = "0xaa", observations.Nonce(1)
		authorized := mustRecord(t, l, elsewhere)
		refused := testIntent("0xbb", "0x02")
		network, _, err := offer.ParseUSDCAccount(testAccount)
		require.NoError(t, err)
		refused.Network, refused.Asset = network.CAIP2(), network.USDC
		require.NoError(t, l.InsertIntent(t.Context(), refused))
		require.NoError(t, l.RefuseIntent(t.Context(), refused.IntentKey, "expired"))

		for _, want := range []Receipt{card, plain, authorized} {
			p := requirePayment(t, l, want.Account, want.Name())
			require.Equal(t, want, p.Receipt)
			require.Nil(t, p.Intent)
			_, found := find(l.Payment(t.Context(), "other-offer", want.Account, want.Name()))(t)
			require.False(t, found)
		}
		p := requirePayment(t, l, testAccount, AuthorizationName("0xbb", "0x02"))
		require.Equal(t, StatusDropped, p.Status)
		require.Equal(t, IntentRefused, p.Intent.State)

		for _, unknown := range []struct{ offer, account, name string }{
			{testOffer, cardAccount, plain.Name()}, {testOffer, testAccount, card.Name()}, {testOffer, former, authorized.Name()},
			{testOffer, former, AuthorizationName("0xbb", "0x02")}, {"other-offer", testAccount, AuthorizationName("0xbb", "0x02")},
			{testOffer, cardAccount, "x/1"}, {testOffer, cardAccount, "r/"}, {testOffer, testAccount, "a/0xaa"},
			{testOffer, testAccount, "a/0xpayer/"}, {testOffer, testAccount, ""},
		} {
			p, found := find(l.Payment(t.Context(), unknown.offer, unknown.account, unknown.name))(t)
			require.False(t, found, unknown)
			require.Zero(t, p)
		}
	})
}
