package manual

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

const (
	testOffer = "pay.example"
	payTo     = "0x52908400098527886E0F7030069857D2E4169EE7"
)

// office is a desk over a ledger in SQLite, with a clock that tests set.
type office struct {
	*Desk
	t    *testing.T
	book *ledger.Ledger
	unix int64
}

func newOffice(t *testing.T) *office {
	t.Helper()
	o := &office{t: t, unix: 1_795_262_400}
	now := func() time.Time { return time.Unix(o.unix, 0) }
	o.book = ledger.NewSQLite(filepath.Join(t.TempDir(), "ledger.db"), now)
	require.NoError(t, o.book.Open(t.Context()))
	t.Cleanup(func() { require.NoError(t, o.book.Close()) })

	network, err := offer.LookupNetwork("base")
	require.NoError(t, err)
	card, err := offer.NewCard("https://checkout.example/pay", nil, 4200)
	require.NoError(t, err)
	usdc, err := offer.NewUSDC("usdc", network, payTo, 4200)
	require.NoError(t, err)
	transfer, err := offer.NewTransfer("transfer", "pay@example.org", "memo", "Example", 4200)
	require.NoError(t, err)
	shop, err := offer.NewStorefront("pack", "https://shop.example/pack", 4200)
	require.NoError(t, err)
	terms := offer.Terms{ID: testOffer, BaseURL: "https://pay.example", Amount: 4200}
	offered, err := offer.New(terms, card, usdc, transfer, shop)
	require.NoError(t, err)

	accounts := map[string]string{
		"card": "stripe/plink_1", "usdc": usdc.Account(), "transfer": "operator/pay.example/transfer", "pack": "gumroad/p1",
	}
	for rail, id := range accounts {
		require.NoError(t, o.book.Register(t.Context(), ledger.Account{Offer: testOffer, ID: id, Rail: rail}))
	}
	o.Desk = &Desk{Offer: offered, Ledger: o.book, Now: now, Account: func(rail string) (ledger.Account, bool) {
		id, ok := accounts[rail]
		return ledger.Account{Offer: testOffer, ID: id, Rail: rail}, ok
	}}
	return o
}

// sees records what another source tells of 42 USD.
func (o *office) sees(rail, id string, level ledger.EvidenceLevel, state ledger.Status, returns ...ledger.Return) {
	o.t.Helper()
	account, _ := o.Account(rail)
	cents := int64(4200)
	_, err := o.book.Record(o.t.Context(), nil, ledger.Sighting{
		Offer: testOffer, Account: account.ID, Rail: rail, ExternalID: id, Transaction: "0x1", Asset: "USD", Amount: 4200,
		USDCents: &cents, State: state, EvidenceLevel: level, OccurredAt: o.unix - 60, Cause: "webhook", Returns: returns,
	})
	require.NoError(o.t, err)
}

// received is the money that counts, in US cents.
func (o *office) received() (cents int64) {
	o.t.Helper()
	totals, err := o.book.Totals(o.t.Context(), testOffer)
	require.NoError(o.t, err)
	for _, total := range totals {
		if total.Status == ledger.StatusConfirmed && total.EvidenceLevel.Counted() {
			cents += total.USDCents - total.RefundedCents
		}
	}
	return cents
}

// history are the causes and reasons of everything that happened.
func (o *office) history() (lines []string) {
	o.t.Helper()
	transitions, err := o.book.Transitions(o.t.Context(), testOffer, 0, 100)
	require.NoError(o.t, err)
	for _, tr := range transitions {
		lines = append(lines, string(tr.To)+" "+tr.Cause+": "+tr.Note)
	}
	return lines
}

func (o *office) must(receipt ledger.Receipt, err error) ledger.Receipt {
	o.t.Helper()
	require.NoError(o.t, err)
	return receipt
}

func inv7(amount offer.USD, reason string) Entry {
	return Entry{Rail: "transfer", Reference: "INV-7", Amount: amount, Reason: reason}
}

func TestEnteredMoneyCounts(t *testing.T) {
	o := newOffice(t)
	e := inv7(4200, "statement of November")
	e.OccurredAt = time.Unix(o.unix-86_400, 0)

	receipt := o.must(o.Enter(t.Context(), e))

	require.Equal(t, "operator/pay.example/transfer", receipt.Account)
	require.Equal(t, ledger.StatusConfirmed, receipt.Status)
	require.Equal(t, ledger.LevelManual, receipt.EvidenceLevel)
	require.Equal(t, o.unix-86_400, receipt.OccurredAt)
	require.Equal(t, int64(4200), o.received())
	require.Equal(t, []string{"confirmed entered: statement of November"}, o.history())
	require.NotContains(t, string(receipt.Evidence), "statement", "the reason is published nowhere")

	e.Reference, e.OccurredAt = "INV-8", time.Time{}
	require.Equal(t, o.unix, o.must(o.Enter(t.Context(), e)).OccurredAt, "now by default")
}

func TestEnteringTheSameAgainChangesNothing(t *testing.T) {
	o := newOffice(t)
	e := inv7(4200, "")
	first := o.must(o.Enter(t.Context(), e))
	o.unix += 3600
	require.Equal(t, first, o.must(o.Enter(t.Context(), e)))
	e.OccurredAt = time.Unix(first.OccurredAt, 0)
	require.Equal(t, first, o.must(o.Enter(t.Context(), e)))
	require.Len(t, o.history(), 1)
}

func TestEnteringOtherFactsUnderAReferenceIsRefused(t *testing.T) {
	o := newOffice(t)
	first := o.must(o.Enter(t.Context(), inv7(4200, "")))
	other := inv7(4200, "")
	other.OccurredAt = time.Unix(first.OccurredAt-86_400, 0)
	for _, e := range []Entry{inv7(4300, ""), other} {
		_, err := o.Enter(t.Context(), e)
		requireRefusal(t, err, Conflict, "entered already, with 42.00 USD")
		requireRefusal(t, err, Conflict, "correct it")
	}
	require.Equal(t, int64(4200), o.received())
}

func TestAnEntryNeedsAnAmountAndAKnownRail(t *testing.T) {
	o := newOffice(t)
	_, err := o.Enter(t.Context(), inv7(0, ""))
	requireRefusal(t, err, Invalid, "amount is missing")
	_, err = o.Enter(t.Context(), Entry{Rail: "cash", Reference: "1", Amount: 4200})
	requireRefusal(t, err, Unknown, "there are: card, usdc, transfer, pack")
	_, err = o.Reverse(t.Context(), Entry{Rail: "cash", Reference: "1", Reason: "x"})
	requireRefusal(t, err, Unknown, "there are: card, usdc, transfer, pack")
	_, err = o.Enter(t.Context(), Entry{Rail: "transfer", Reference: "a\nb", Amount: 4200})
	requireRefusal(t, err, Invalid, "cannot be printed")
	require.Empty(t, o.history())
}

func TestAnAssertedSaleIsConfirmedByEnteringIt(t *testing.T) {
	o := newOffice(t)
	o.sees("pack", "sale-1", ledger.LevelAsserted, ledger.StatusSeen)
	require.Zero(t, o.received())

	receipt := o.must(o.Enter(t.Context(), Entry{Rail: "pack", Reference: "sale-1", Amount: 4100}))

	require.Equal(t, ledger.LevelManual, receipt.EvidenceLevel)
	require.Equal(t, ledger.StatusConfirmed, receipt.Status)
	require.Equal(t, "gumroad/p1", receipt.Account)
	require.Equal(t, o.unix-60, receipt.OccurredAt, "the sale's own time")
	require.Equal(t, int64(4100), o.received())
	require.Equal(t, receipt, o.must(o.Enter(t.Context(), Entry{Rail: "pack", Reference: "sale-1", Amount: 4100})))
}

func TestBetterEvidenceIsNeitherEnteredNorCorrected(t *testing.T) {
	o := newOffice(t)
	o.sees("card", "pi_1", ledger.LevelSigned, ledger.StatusConfirmed)
	o.sees("pack", "sale-1", ledger.LevelProvider, ledger.StatusConfirmed)
	o.sees("pack", "sale-2", ledger.LevelAsserted, ledger.StatusSeen)
	o.sees("usdc", "eip155:8453:0x1:0", ledger.LevelChain, ledger.StatusConfirmed)
	before := o.history()
	for _, c := range []struct{ rail, reference, enter, correct string }{
		{"card", "pi_1", `evidence "signed"`, "refund it at the provider"},
		{"pack", "sale-1", `evidence "provider"`, "refund it at the provider"},
		{"usdc", "eip155:8453:0x1:0", "read from its chain", "decides"},
	} {
		e := Entry{Rail: c.rail, Reference: c.reference, Amount: 4200, Reason: "x"}
		_, err := o.Enter(t.Context(), e)
		requireRefusal(t, err, Conflict, c.enter)
		_, err = o.Correct(t.Context(), e)
		requireRefusal(t, err, Conflict, c.correct)
	}
	_, err := o.Correct(t.Context(), Entry{Rail: "pack", Reference: "sale-2", Amount: 4200, Reason: "x"})
	requireRefusal(t, err, Conflict, "enter it")
	require.Equal(t, before, o.history())
}
