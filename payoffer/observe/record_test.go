package observe

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

const (
	testOffer   = "shop"
	testAccount = "bank/1"
)

func openLedger(t *testing.T) *ledger.Ledger {
	t.Helper()
	book := ledger.NewSQLite(payoffertest.LedgerFile(t), time.Now)
	require.NoError(t, book.Open(t.Context()))
	t.Cleanup(func() { require.NoError(t, book.Close()) })
	require.NoError(t, book.Register(t.Context(), ledger.Account{Offer: testOffer, ID: testAccount, Rail: "card"}))
	return book
}

func observation(id string, amount int64) ledger.Observation {
	return ledger.Observation{
		Offer: testOffer, Account: testAccount, Rail: "card", ExternalID: id, Asset: "USD", Amount: amount, USDCents: &amount,
		State: ledger.StatusConfirmed, EvidenceLevel: ledger.LevelProvider, OccurredAt: 1_795_250_000, Cause: "provider",
	}
}

func TestWhatIsRefusedDoesNotKeepTheOthersOut(t *testing.T) {
	book := openLedger(t)
	cursor := ledger.Cursor{Offer: testOffer, Account: testAccount, Position: "7", OKAt: 1_795_250_000}
	refused, err := Record(t.Context(), book, &cursor, observation("one", 4200), observation("two", -1), observation("three", 4200))
	require.NoError(t, err)
	require.Len(t, refused, 1)
	require.Equal(t, "two", refused[0].ExternalID)
	rows, err := book.Receipts(t.Context(), testOffer, 0, 10)
	require.NoError(t, err)
	require.Len(t, rows, 2)
	stored, found, err := Cursor(t.Context(), book, testOffer, testAccount)
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, "7", stored.Position, "the cursor covers what was refused too: it will not be read again")

	refused, err = Record(t.Context(), book, nil, observation("four", -1))
	require.NoError(t, err)
	require.Len(t, refused, 1)
	refused, err = Record(t.Context(), book, nil)
	require.NoError(t, err)
	require.Empty(t, refused)
}

func TestTheFirstOriginStays(t *testing.T) {
	book := openLedger(t)
	for _, step := range []struct{ first, want int64 }{{-1, -1}, {7, 7}, {9, 7}, {-1, 7}} {
		origin, err := Origin(t.Context(), book, testOffer, testAccount, step.first)
		require.NoError(t, err)
		require.Equal(t, step.want, origin)
	}
}

// broken is a ledger that fails, after some observations of their own, with its address.
type broken struct {
	Ledger
	origin string
	left   int
}

var errDisk = errors.New("postgres://user:secret@db.example is full")

func (b *broken) Record(_ context.Context, _ *ledger.Cursor, s ...ledger.Observation) ([]ledger.Receipt, error) {
	if b.left--; b.left < 0 {
		return nil, errDisk
	}
	return nil, ledger.ErrObservation
}

func (*broken) Cursor(context.Context, string, string) (ledger.Cursor, bool, error) {
	return ledger.Cursor{}, true, errDisk
}

func (*broken) Account(context.Context, string, string) (ledger.Account, error) {
	return ledger.Account{}, errDisk
}

func (*broken) LowerOrigin(context.Context, string, string, string) (bool, error) {
	return false, errDisk
}

func (b *broken) SetOrigin(context.Context, string, string, string) (string, error) {
	if b.origin == "" {
		return "", errDisk
	}
	return b.origin, nil
}

func TestAFailureOfTheLedgerSaysNoMore(t *testing.T) {
	for left := range 3 {
		refused, err := Record(t.Context(), &broken{left: left}, &ledger.Cursor{}, observation("one", 1), observation("two", 1))
		require.Equal(t, ErrNoLedger, err)
		require.Len(t, refused, max(0, left-1))
	}
	_, found, err := Cursor(t.Context(), new(broken), testOffer, testAccount)
	require.Equal(t, ErrNoLedger, err)
	require.False(t, found)
	for _, origin := range []string{"", "yesterday", "-5"} {
		_, err = Origin(t.Context(), &broken{origin: origin}, testOffer, testAccount, 7)
		require.Equal(t, ErrNoLedger, err)
	}
	require.EqualError(t, err, "ledger_unavailable (ledger)")
}

func TestWhatIsRestatedIsAsItWasButForTheState(t *testing.T) {
	book := openLedger(t)
	before := observation("one", 4200)
	before.Evidence, before.Payer, before.Own, before.Transaction = offer.JSON(map[string]int{"block": 7}), "0xpayer", true, "0x1"
	_, err := Record(t.Context(), book, nil, before)
	require.NoError(t, err)
	row, found, err := book.Receipt(t.Context(), testOffer, testAccount, "one")
	require.NoError(t, err)
	require.True(t, found)
	before.State, before.Cause, before.EvidenceLevel = ledger.StatusSeen, "reorg", ledger.LevelChain
	require.Equal(t, before, *Restated(row, ledger.StatusSeen, "reorg"))
}

// What the operator states of a value is not the chain's word, in no state.
func TestAStatedValueIsNotRestated(t *testing.T) {
	cents := int64(4200)
	row := ledger.Receipt{USDCents: &cents, ValueBasis: ledger.BasisQuote}
	require.Equal(t, &cents, Restated(row, ledger.StatusSeen, "reorg").USDCents)
	require.Equal(t, ledger.BasisQuote, Restated(row, ledger.StatusSeen, "reorg").ValueBasis)
	row.ValueBasis = ledger.BasisStated
	require.Nil(t, Restated(row, ledger.StatusSeen, "reorg").USDCents)
	require.Empty(t, Restated(row, ledger.StatusSeen, "reorg").ValueBasis)
}
