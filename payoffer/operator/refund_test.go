package operator

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
)

const btcAccount = "bip122:000000000019d6689c085ae165831e93/bc1q"

// withBitcoin gives the office a bitcoin rail.
func (o *office) withBitcoin() {
	account := ledger.Account{Offer: testOffer, ID: btcAccount, Rail: "btc"}
	require.NoError(o.t, o.book.Register(o.t.Context(), account))
	o.Accounts = append(o.Accounts, account)
}

// paid is a payment of 42 US dollars over a rail, as its source tells of it.
type paid struct {
	rail, reference string
	asset           string
	amount          int64
	level           ledger.EvidenceLevel
	transaction     string // by which it goes back on its chain, in capitals
	part, rest      string // of the amount, in the unit of the rail
}

var paidOverEachRail = []paid{
	{"usdc", "eip155:8453:0x1:0", "0x833589fcd6edb6e08f4c7c32d4f71b54bda02913", 42_000_000, ledger.LevelChain, "0x" + strings.Repeat("AB", 32), "10", "32"},
	{"btc", "ab:0", "BTC", 70_000, ledger.LevelChain, strings.Repeat("AB", 32), "0.0002", "0.0005"},
	{"card", "pi_1", "USD", 4200, ledger.LevelSigned, "", "10", "32"},
	{"card", "pi_2", "JPY", 6300, ledger.LevelProvider, "", "1300", "5000"},
	{"pack", "sale", "USD", 4200, ledger.LevelProvider, "", "10", "32"},
	{"transfer", "INV-7", "USD", 4200, ledger.LevelManual, "", "10", "32"},
}

// receives records a payment. Nobody tells of its refunds.
func (o *office) receives(p paid) {
	o.t.Helper()
	o.health = observe.Health{}
	cents := int64(4200)
	_, err := o.book.Record(o.t.Context(), nil, ledger.Sighting{
		Offer: testOffer, Account: o.account(p.rail).ID, Rail: p.rail, ExternalID: p.reference, Transaction: "0xpaid",
		Asset: p.asset, Amount: p.amount, USDCents: &cents, State: ledger.StatusConfirmed, EvidenceLevel: p.level,
		Payer: testPayer, OccurredAt: o.unix - 3600, Cause: "test",
	})
	require.NoError(o.t, err)
}

func (p paid) refund(amount, reason string) ReceiptEntry {
	return ReceiptEntry{
		Action: "refund", Rail: p.rail, Reference: p.reference, Amount: json.Number(amount), Transaction: p.transaction, Reason: reason,
	}
}

func eachRail(t *testing.T, test func(t *testing.T, o *office, p paid)) {
	inEachOffice(t, func(t *testing.T, o *office) {
		o.withBitcoin()
		for _, p := range paidOverEachRail {
			t.Run(p.rail+" "+p.asset, func(t *testing.T) {
				o.t = t
				o.receives(p)
				test(t, o, p)
			})
		}
	})
}

// Gross stays gross: what went back is a fact of its own.
func TestARefundIsAFactOfItsOwnOnEveryRail(t *testing.T) {
	eachRail(t, func(t *testing.T, o *office, p paid) {
		before := o.received()
		entry := p.refund(p.part, "half of the order")
		row, err := o.Enter(t.Context(), entry)
		require.NoError(t, err)
		require.Equal(t, "confirmed", row.Status)
		require.Equal(t, p.amount, row.Amount, "what was paid stays")
		require.Equal(t, p.part, row.Returned)
		require.Equal(t, p.rest, row.Left)
		require.Equal(t, string(p.level), row.Evidence)
		require.Len(t, row.Returns, 1)
		require.Equal(t, p.part, row.Returns[0].Amount)
		require.Less(t, o.received(), before)
		if p.transaction != "" {
			require.Equal(t, ledger.RefundedBy(strings.ToLower(p.transaction)), row.Returns[0].ID)
		}

		o.unix += 60
		again, err := o.Enter(t.Context(), entry)
		require.NoError(t, err)
		require.Equal(t, row.Version, again.Version, "the same again changes nothing")
		require.Contains(t, again.Said[0], "stands already")
		require.Contains(t, again.Said[0], "another reason or a date")

		over := p.refund(p.rest+"1", "too much")
		over.Transaction = ""
		_, err = o.Enter(t.Context(), over)
		requireRefusal(t, err, Conflict, "no more than "+p.rest)

		rest := p.refund(p.rest, "the rest")
		rest.Transaction = ""
		row, err = o.Enter(t.Context(), rest)
		require.NoError(t, err)
		require.Equal(t, "refunded", row.Status)
		require.Equal(t, "0", row.Left)
		require.Len(t, row.Returns, 2)
		more := rest
		more.Reason = "once more"
		_, err = o.Enter(t.Context(), more)
		requireRefusal(t, err, Conflict, "refunded already")

		restored, err := o.Enter(t.Context(), ReceiptEntry{Action: "restore", Rail: p.rail, Reference: p.reference, Reason: "both were slips"})
		require.NoError(t, err)
		require.Equal(t, "confirmed", restored.Status)
		require.Zero(t, restored.Refunded)
		require.Equal(t, before, o.received())

		row, err = o.Enter(t.Context(), entry)
		require.NoError(t, err)
		require.Equal(t, p.part, row.Returned, "what was taken back can be entered again")
		_, err = o.Enter(t.Context(), ReceiptEntry{Action: "restore", Rail: p.rail, Reference: p.reference, Reason: "so that the next one starts anew"})
		require.NoError(t, err)
	})
}

func TestARefundIsDated(t *testing.T) {
	o := newOffice(t)
	o.must(o.enter(t.Context(), inv7(4200, "")))
	entry := ReceiptEntry{Action: "refund", Rail: "transfer", Reference: "INV-7", Amount: "10", Reason: "x", Date: "2026-11-22T01:00:00+01:00"}
	row, err := o.Enter(t.Context(), entry)
	require.NoError(t, err)
	require.Equal(t, "2026-11-22T00:00:00Z", row.Returns[0].At)
	require.Empty(t, row.Said)

	entry.Date = "2026-11-22"
	row, err = o.Enter(t.Context(), entry)
	require.NoError(t, err)
	require.Equal(t, "10", row.Returned, "the same moment in other words")
	require.Contains(t, row.Said, "2026-11-22 is taken as its beginning in UTC, 2026-11-22T00:00:00Z")

	entry.Date = "2026-11-21T13:00:00Z"
	row, err = o.Enter(t.Context(), entry)
	require.NoError(t, err)
	require.Equal(t, "20", row.Returned, "another date is another refund")

	entry.Date = "2026-11-01"
	_, err = o.Enter(t.Context(), entry)
	requireRefusal(t, err, Invalid, "before the payment")
	entry.Date = "2026-12-01"
	_, err = o.Enter(t.Context(), entry)
	requireRefusal(t, err, Invalid, "in the future")
}

func TestRefundsThatCannotBeAreRefused(t *testing.T) {
	o := newOffice(t)
	o.withBitcoin()
	hash := "0x" + strings.Repeat("ab", 32)
	card := observe.Health{Rail: "card", Source: "webhook"}
	shop := observe.Health{Rail: "pack", Source: "provider"}
	o.sees("card", "pi_1", ledger.LevelSigned, ledger.StatusConfirmed)
	o.sees("card", "pi_2", ledger.LevelProvider, ledger.StatusConfirmed)
	o.sees("card", "pi_3", ledger.LevelSigned, ledger.StatusDropped)
	o.sees("pack", "read", ledger.LevelProvider, ledger.StatusConfirmed)
	o.sees("usdc", "seen", ledger.LevelChain, ledger.StatusSeen)
	o.sees("transfer", "INV-1", ledger.LevelManual, ledger.StatusConfirmed)
	o.sees("transfer", "INV-2", ledger.LevelManual, ledger.StatusConfirmed)
	o.must(o.reverse(t.Context(), inv("INV-2")))
	before := o.history()
	for name, c := range map[string]struct {
		health                 observe.Health
		rail, reference        string
		amount, hash, at, want string
		kind                   Kind
	}{
		"a card's by webhook":       {card, "card", "pi_1", "10", "", "", "read from the provider", Conflict},
		"a card's that was read":    {card, "card", "pi_2", "10", "", "", "read from the provider", Conflict},
		"a shop's":                  {shop, "pack", "read", "10", "", "", "read from the provider", Conflict},
		"of what never came":        {observe.Health{}, "card", "pi_3", "10", "", "", "is dropped; nothing of it", Conflict},
		"of what is not sure":       {observe.Health{}, "usdc", "seen", "10", "", "", "not confirmed yet", Conflict},
		"of what was taken back":    {observe.Health{}, "transfer", "INV-2", "10", "", "", "is reversed; nothing of it", Conflict},
		"of nothing known":          {observe.Health{}, "transfer", "INV-9", "10", "", "", "no receipt of the rail", Unknown},
		"without an amount":         {observe.Health{}, "transfer", "INV-1", "", "", "", "in USD, the unit of this payment", Invalid},
		"of nothing":                {observe.Health{}, "transfer", "INV-1", "0", "", "", "more than 0", Invalid},
		"of half a cent":            {observe.Health{}, "transfer", "INV-1", "0.005", "", "", "2 digits", Invalid},
		"by a chain, of a transfer": {observe.Health{}, "transfer", "INV-1", "10", hash, "", "belongs to a payment on a chain", Invalid},
	} {
		t.Run(name, func(t *testing.T) {
			o.health = c.health
			_, err := o.Enter(t.Context(), ReceiptEntry{
				Action: "refund", Rail: c.rail, Reference: c.reference, Amount: json.Number(c.amount), Transaction: c.hash, Date: c.at, Reason: "x",
			})
			requireRefusal(t, err, c.kind, c.want)
		})
	}
	_, err := o.Enter(t.Context(), ReceiptEntry{Action: "refund", Rail: "transfer", Reference: "INV-1", Amount: "10"})
	requireRefusal(t, err, Invalid, "reason is missing")
	require.Equal(t, before, o.history())
}

// A refund by hand of a shop's sale stands where nobody tells of refunds: its
// notices are of sales alone, and a former account's are not read.
func TestTheRefundOfAPaymentThatNobodyObservesIsEntered(t *testing.T) {
	for name, c := range map[string]struct {
		p       paid
		prepare func(o *office)
	}{
		"a shop without a token":    {paidOverEachRail[4], func(o *office) { o.health = observe.Health{Rail: "pack", Source: "webhook"} }},
		"a card's former account":   {paidOverEachRail[2], func(o *office) { o.Accounts, o.health = nil, observe.Health{Rail: "card", Source: "webhook"} }},
		"an entry on a card's rail": {paid{"card", "INV-1", "USD", 4200, ledger.LevelManual, "", "10", "32"}, func(o *office) { o.health = observe.Health{Rail: "card", Source: "provider"} }},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOffice(t)
			o.receives(c.p)
			c.prepare(o)
			row, err := o.Enter(t.Context(), c.p.refund("10", "x"))
			require.NoError(t, err)
			require.Equal(t, "32", row.Left)
			require.Equal(t, c.p.level != ledger.LevelManual, len(row.Said) == 1, "it may be told later")
		})
	}
}

func TestARefundThatMayBeTheSameMoneyIsPointedOut(t *testing.T) {
	for _, first := range []bool{true, false} { // the one with the transaction
		o := newOffice(t)
		o.receives(paidOverEachRail[0])
		for _, named := range []bool{first, !first} {
			entry := paidOverEachRail[0].refund("10", "x")
			if !named {
				entry.Transaction = ""
			}
			row, err := o.Enter(t.Context(), entry)
			require.NoError(t, err)
			require.Equal(t, named != first, len(row.Said) == 1)
		}
	}
}

func TestATransactionIsBookedOnceAndTakenBackAlone(t *testing.T) {
	o := newOffice(t)
	p := paidOverEachRail[0]
	o.receives(p)
	other := p.refund("5", "by hand")
	other.Transaction = ""
	_, err := o.Enter(t.Context(), other)
	require.NoError(t, err)
	_, err = o.Enter(t.Context(), p.refund("10", "x"))
	require.NoError(t, err)
	_, err = o.Enter(t.Context(), p.refund("11", "x"))
	requireRefusal(t, err, Conflict, "recorded already, as a refund of 10 USDC")
	paidBy := p.refund("1", "x")
	paidBy.Transaction = "0x" + strings.Repeat("cd", 32)
	_, err = o.book.Record(t.Context(), nil, ledger.Sighting{
		Offer: testOffer, Account: o.account("usdc").ID, Rail: "usdc", ExternalID: "eip155:8453:0x2:0", Transaction: paidBy.Transaction,
		Asset: p.asset, Amount: 42_000_000, State: ledger.StatusConfirmed, EvidenceLevel: ledger.LevelChain, OccurredAt: o.unix, Cause: "test",
	})
	require.NoError(t, err)
	paidBy.Reference = "eip155:8453:0x2:0"
	_, err = o.Enter(t.Context(), paidBy)
	requireRefusal(t, err, Conflict, "by which \"eip155:8453:0x2:0\" was paid")

	restore := ReceiptEntry{Action: "restore", Rail: p.rail, Reference: p.reference, Transaction: p.transaction, Reason: "it was another one"}
	row, err := o.Enter(t.Context(), restore)
	require.NoError(t, err)
	require.Equal(t, "5", row.Returned)
	_, err = o.Enter(t.Context(), restore)
	requireRefusal(t, err, Conflict, "no such refund of yours stands")
}

// Who did not see the answer to a restore says the same again.
func TestARestoreThatIsSaidAgainTakesNoRefundBack(t *testing.T) {
	o := newOffice(t)
	enter := func(e ReceiptEntry) Receipt {
		e.Rail, e.Reference = "transfer", "RST-1"
		row, err := o.Enter(t.Context(), e)
		require.NoError(t, err)
		return row
	}
	enter(ReceiptEntry{Action: "enter", Amount: "42"})
	enter(ReceiptEntry{Action: "refund", Amount: "10", Reason: "half"})
	enter(ReceiptEntry{Action: "reverse", Reason: "entered twice"})
	restored := enter(ReceiptEntry{Action: "restore", Reason: "it was another one"})
	require.Equal(t, "10", restored.Returned)
	again := enter(ReceiptEntry{Action: "restore", Reason: "it was another one"})
	require.Equal(t, restored.Version, again.Version)
	require.Equal(t, "10", again.Returned)
	other := enter(ReceiptEntry{Action: "restore", Reason: "the refund never left"})
	require.Greater(t, other.Version, again.Version)
	require.NotEqual(t, "10", other.Returned)
}

func TestACorrectionStaysAboveWhatWentBack(t *testing.T) {
	o := newOffice(t)
	o.must(o.enter(t.Context(), inv7(4200, "")))
	_, err := o.Enter(t.Context(), ReceiptEntry{Action: "refund", Rail: "transfer", Reference: "INV-7", Amount: "10", Reason: "x"})
	require.NoError(t, err)
	_, err = o.correct(t.Context(), inv7(900, "x"))
	requireRefusal(t, err, Conflict, "less than the 10 USD that went back")
	corrected := o.must(o.correct(t.Context(), inv7(4100, "a fee")))
	require.Equal(t, int64(1000), corrected.Refunded)
	require.Equal(t, int64(3100), o.received())
}

func TestOneOfTwoRefundsAtOneMomentIsToldOfTheOther(t *testing.T) {
	o := newOffice(t)
	o.must(o.enter(t.Context(), inv7(4200, "")))
	elsewhere := &Desk{Offer: o.Offer, Accounts: o.Accounts, Ledger: o.book, Page: page, Now: o.Now, Health: o.Health}
	entry := ReceiptEntry{Action: "refund", Rail: "transfer", Reference: "INV-7", Amount: "30", Reason: "here"}
	o.meanwhile(func() {
		there := entry
		there.Reason = "there"
		_, err := elsewhere.Enter(t.Context(), there)
		require.NoError(t, err)
	})
	_, err := o.Enter(t.Context(), entry)
	requireRefusal(t, err, Conflict, "at the same moment")
}

func TestEntriesWithoutAZoneAreInUTCAndSaySo(t *testing.T) {
	o := newOffice(t)
	row, err := o.Enter(t.Context(), ReceiptEntry{Action: "enter", Rail: "transfer", Reference: "INV-7", Amount: "42", Date: "2026-11-20"})
	require.NoError(t, err)
	require.Equal(t, []string{"2026-11-20 is taken as its beginning in UTC, 2026-11-20T00:00:00Z"}, row.Said)
	row, err = o.Enter(t.Context(), ReceiptEntry{Action: "enter", Rail: "transfer", Reference: "INV-8", Amount: "42", Date: "2026-11-20T00:00:00+01:00"})
	require.NoError(t, err)
	require.Equal(t, "2026-11-19T23:00:00Z", row.OccurredAt)
	require.Empty(t, row.Said)
	row, err = o.Enter(t.Context(), ReceiptEntry{Action: "enter", Rail: "transfer", Reference: "INV-9", Amount: "42"})
	require.NoError(t, err)
	require.Equal(t, time.Unix(o.unix, 0).UTC().Format(time.RFC3339), row.OccurredAt, "without a date it is now")
}
