package operator

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/manual"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/report"
)

const btcAccount = "bip122:000000000019d6689c085ae165831e93/bc1q"

// withBitcoin gives the office a bitcoin rail.
func (f *fixture) withBitcoin() {
	account := ledger.Account{Offer: testOffer, ID: btcAccount, Rail: "btc"}
	require.NoError(f.t, f.book.Register(f.t.Context(), account))
	f.Accounts = append(f.Accounts, account)
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
func (f *fixture) receives(p paid) {
	f.t.Helper()
	f.health = observe.Health{}
	cents := int64(4200)
	must(f.book.Record(f.t.Context(), nil, ledger.Observation{
		Offer: testOffer, Account: f.account(p.rail).ID, Rail: p.rail, ExternalID: p.reference, Transaction: "0xpaid",
		Asset: p.asset, Amount: p.amount, USDCents: &cents, State: ledger.StatusConfirmed, EvidenceLevel: p.level,
		Payer: testPayer, OccurredAt: f.unix - 3600, Cause: "test",
	}))(f.t)
}

func (p paid) refund(amount, reason string) manual.Entry {
	return manual.Entry{
		Action: "refund", Rail: p.rail, Reference: p.reference, Amount: json.Number(amount), Transaction: p.transaction, Reason: reason,
	}
}

func eachRail(t *testing.T, test func(t *testing.T, o *fixture, p paid)) {
	onEachLedger(t, func(t *testing.T, o *fixture) {
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

func TestRefundOnEveryRail(t *testing.T) {
	eachRail(t, func(t *testing.T, o *fixture, p paid) {
		before, unit := o.received(), offer.UnitOf(p.asset).Symbol
		entry := p.refund(p.part, "half of the order")
		row := must(o.Enter(t.Context(), entry))(t)
		require.Equal(t, "confirmed", row.Status)
		require.Equal(t, p.amount, report.Atomic(row.AmountAtomic), "the paid amount stays")
		require.Equal(t, p.part+" "+unit, row.Refunded())
		require.Equal(t, string(p.level), row.Evidence)
		require.Len(t, row.Returns, 1)
		require.Equal(t, p.part+" "+unit, row.Returns[0].Amount)
		require.Less(t, o.received(), before)
		if p.transaction != "" {
			require.Equal(t, ledger.RefundTransactionID(strings.ToLower(p.transaction)), row.Returns[0].ID)
		}

		o.unix += 60
		again := must(o.Enter(t.Context(), entry))(t)
		require.Equal(t, row.Version, again.Version, "the same again changes nothing")
		require.Contains(t, again.Hints[0], "is recorded already")

		rest := p.refund(p.rest+"1", "too much")
		rest.Transaction = ""
		requireRefusal(t, errorOf(o.Enter(t.Context(), rest)), Conflict, "only "+p.rest)
		rest.Amount, rest.Reason = json.Number(p.rest), "the rest"
		row = must(o.Enter(t.Context(), rest))(t)
		require.Equal(t, "refunded", row.Status)
		require.Len(t, row.Returns, 2)
		rest.Reason = "once more"
		requireRefusal(t, errorOf(o.Enter(t.Context(), rest)), Conflict, "already refunded")

		restored := o.must("restore", manual.Entry{Rail: p.rail, Reference: p.reference, Reason: "both were typos"})
		require.Equal(t, "confirmed 0", restored.Status+" "+restored.RefundedAtomic)
		require.Equal(t, before, o.received())
		row = must(o.Enter(t.Context(), entry))(t)
		require.Equal(t, p.part+" "+unit, row.Refunded(), "a restored refund can be entered again")
		o.must("restore", manual.Entry{Rail: p.rail, Reference: p.reference, Reason: "for the next test"})
	})
}

func TestRefundDate(t *testing.T) {
	o := newFixture(t)
	o.must("enter", inv7("42", ""))
	e := inv7("10", "x")
	e.Date = "2026-11-22T01:00:00+01:00"
	row := o.must("refund", e)
	require.Equal(t, "2026-11-22T00:00:00Z", row.Returns[0].At)
	e.Date = "2026-11-22"
	require.Equal(t, "10 USD", o.must("refund", e).Refunded(), "the same moment in other words")
	e.Date = "2026-11-21T13:00:00Z"
	require.Equal(t, "20 USD", o.must("refund", e).Refunded(), "another date is another refund")
	e.Date = "2026-11-01"
	o.refuses("refund", e, Invalid, "before the payment")
	e.Date = "2026-12-01"
	o.refuses("refund", e, Invalid, "in the future")
}

func TestRefundErrors(t *testing.T) {
	o := newFixture(t)
	o.withBitcoin()
	hash := "0x" + strings.Repeat("ab", 32)
	card := observe.Health{Rail: "card", Source: "webhook", Refunds: true}
	shop := observe.Health{Rail: "pack", Source: "provider", Refunds: true}
	o.sees("card", "pi_1", ledger.LevelSigned, ledger.StatusConfirmed)
	o.sees("card", "pi_2", ledger.LevelProvider, ledger.StatusConfirmed)
	o.sees("card", "pi_3", ledger.LevelSigned, ledger.StatusDropped)
	o.sees("pack", "read", ledger.LevelProvider, ledger.StatusConfirmed)
	o.sees("usdc", "seen", ledger.LevelChain, ledger.StatusSeen)
	o.sees("transfer", "INV-1", ledger.LevelManual, ledger.StatusConfirmed)
	o.sees("transfer", "INV-2", ledger.LevelManual, ledger.StatusConfirmed)
	o.must("void", manual.Entry{Rail: "transfer", Reference: "INV-2", Reason: "x"})
	before := o.history()
	for name, c := range map[string]struct {
		health                 observe.Health
		rail, reference        string
		amount, hash, at, want string
		kind                   Kind
	}{
		"a card's by webhook":       {card, "card", "pi_1", "10", "", "", "read from its provider", Conflict},
		"a card's that was read":    {card, "card", "pi_2", "10", "", "", "read from its provider", Conflict},
		"a shop's":                  {shop, "pack", "read", "10", "", "", "read from its provider", Conflict},
		"of what never came":        {observe.Health{}, "card", "pi_3", "10", "", "", "is dropped, and only a confirmed payment", Conflict},
		"of what is not sure":       {observe.Health{}, "usdc", "seen", "10", "", "", "not confirmed yet", Conflict},
		"of a reversed payment":     {observe.Health{}, "transfer", "INV-2", "10", "", "", "is reversed, and only a confirmed payment", Conflict},
		"of nothing known":          {observe.Health{}, "transfer", "INV-9", "10", "", "", "no receipt of the rail", Unknown},
		"without an amount":         {observe.Health{}, "transfer", "INV-1", "", "", "", "in USD, the unit of this payment", Invalid},
		"of nothing":                {observe.Health{}, "transfer", "INV-1", "0", "", "", "more than 0", Invalid},
		"of half a cent":            {observe.Health{}, "transfer", "INV-1", "0.005", "", "", "2 decimals", Invalid},
		"by a chain, of a transfer": {observe.Health{}, "transfer", "INV-1", "10", hash, "", "only a payment on a chain", Invalid},
	} {
		t.Run(name, func(t *testing.T) {
			o.health = c.health
			_, err := o.Enter(t.Context(), manual.Entry{
				Action: "refund", Rail: c.rail, Reference: c.reference, Amount: json.Number(c.amount), Transaction: c.hash, Date: c.at, Reason: "x",
			})
			requireRefusal(t, err, c.kind, c.want)
		})
	}
	require.Equal(t, before, o.history())
}

// A refund by hand of a shop's sale stands where nobody tells of refunds: its
// notices are of sales alone, and a former account's are not read.
func TestRefundOfUnobservedPayment(t *testing.T) {
	for name, c := range map[string]struct {
		p       paid
		prepare func(o *fixture)
	}{
		"a shop without a token":    {paidOverEachRail[4], func(o *fixture) { o.health = observe.Health{Rail: "pack", Source: "webhook"} }},
		"a card's former account":   {paidOverEachRail[2], func(o *fixture) { o.Accounts, o.health = nil, observe.Health{Rail: "card", Source: "webhook"} }},
		"an entry on a card's rail": {paid{"card", "INV-1", "USD", 4200, ledger.LevelManual, "", "10", "32"}, func(o *fixture) { o.health = observe.Health{Rail: "card", Source: "provider"} }},
	} {
		t.Run(name, func(t *testing.T) {
			o := newFixture(t)
			o.receives(c.p)
			c.prepare(o)
			row := must(o.Enter(t.Context(), c.p.refund("10", "x")))(t)
			require.Equal(t, "10 USD", row.Refunded())
			require.Equal(t, c.p.level != ledger.LevelManual, len(row.Hints) == 1, "it may be told later")
		})
	}
}

func TestDuplicateRefundHint(t *testing.T) {
	for _, first := range []bool{true, false} { // the one with the transaction
		o := newFixture(t)
		o.receives(paidOverEachRail[0])
		for _, named := range []bool{first, !first} {
			entry := paidOverEachRail[0].refund("10", "x")
			if !named {
				entry.Transaction = ""
			}
			row := must(o.Enter(t.Context(), entry))(t)
			require.Equal(t, named != first, len(row.Hints) == 1)
		}
	}
}

func TestRefundTransactionUsedOnce(t *testing.T) {
	o := newFixture(t)
	p := paidOverEachRail[0]
	o.receives(p)
	other := p.refund("5", "by hand")
	other.Transaction = ""
	must(o.Enter(t.Context(), other))(t)
	must(o.Enter(t.Context(), p.refund("10", "x")))(t)
	_, err := o.Enter(t.Context(), p.refund("11", "x"))
	requireRefusal(t, err, Conflict, "recorded already, as a refund of 10 USDC")
	paidBy := p.refund("1", "x")
	paidBy.Transaction = "0x" + strings.Repeat("cd", 32)
	must(o.book.Record(t.Context(), nil, ledger.Observation{
		Offer: testOffer, Account: o.account("usdc").ID, Rail: "usdc", ExternalID: "eip155:8453:0x2:0", Transaction: paidBy.Transaction,
		Asset: p.asset, Amount: 42_000_000, State: ledger.StatusConfirmed, EvidenceLevel: ledger.LevelChain, OccurredAt: o.unix, Cause: "test",
	}))(t)
	paidBy.Reference = "eip155:8453:0x2:0"
	requireRefusal(t, errorOf(o.Enter(t.Context(), paidBy)), Conflict, "was paid by this transaction")

	restore := manual.Entry{Action: "restore", Rail: p.rail, Reference: p.reference, Transaction: p.transaction, Reason: "it was another one"}
	row := must(o.Enter(t.Context(), restore))(t)
	require.Equal(t, "5 USDC", row.Refunded())
	requireRefusal(t, errorOf(o.Enter(t.Context(), restore)), Conflict, "no such refund by you")
}

// An operator who did not see the answer sends the restore again.
func TestRepeatedRestoreKeepsRefunds(t *testing.T) {
	o := newFixture(t)
	o.health = observe.Health{}
	o.sees("card", "pi_1", ledger.LevelSigned, ledger.StatusConfirmed)
	e := func(amount json.Number, reason string) manual.Entry {
		return manual.Entry{Rail: "card", Reference: "pi_1", Amount: amount, Reason: reason}
	}
	o.must("refund", e("10", "half"))
	o.must("void", e("", "entered twice"))
	restored := o.must("restore", e("", "it was another one"))
	require.Equal(t, "10 USD", restored.Refunded())
	require.Equal(t, restored, o.must("restore", e("", "it was another one")))
	require.Empty(t, o.must("restore", e("", "the refund never left")).Refunded())
}

// What the processor reported is listed, also if it is not counted.
func TestRefundInOtherCurrencyHint(t *testing.T) {
	for name, c := range map[string]struct {
		reported ledger.Return
		hint     string
	}{
		"a refund":         {ledger.Return{ID: "re_1", Kind: ledger.ReturnRefund, Amount: 1000, Currency: "EUR", Gone: true}, "the refund re_1 of 10 EUR is in another currency"},
		"a dispute":        {ledger.Return{ID: "dp_1", Kind: ledger.ReturnReversal, Amount: 1000, Currency: "EUR", Gone: true}, "the dispute dp_1 of 10 EUR is in another currency than its payment: its part of the payment is not known"},
		"a failed refund":  {ledger.Return{ID: "re_1", Kind: ledger.ReturnRefund, Amount: 1000, Currency: "EUR"}, ""},
		"the same as paid": {ledger.Return{ID: "re_1", Kind: ledger.ReturnRefund, Amount: 1000, Currency: "USD", Gone: true}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			o := newFixture(t)
			c.reported.At = o.unix
			o.sees("card", "pi_1", ledger.LevelSigned, ledger.StatusConfirmed, c.reported, ledger.Return{ID: "capture", Kind: ledger.ReturnCapture, At: o.unix})
			page := must(o.Receipts(t.Context(), 0, MaxPage))(t)
			require.Len(t, page.Receipts[0].Returns, 1)
			require.Equal(t, c.reported.ID, page.Receipts[0].Returns[0].ID)
			if c.hint == "" {
				require.Empty(t, page.Receipts[0].Hints)
				return
			}
			require.Len(t, page.Receipts[0].Hints, 1)
			require.Contains(t, page.Receipts[0].Hints[0], c.hint)
		})
	}
}

func TestRedactReference(t *testing.T) {
	onEachLedger(t, func(t *testing.T, o *fixture) {
		e := manual.Entry{Rail: "transfer", Reference: "Jane Doe", Amount: "42", Reason: "statement, jane doe"}
		entered := o.must("enter", e)
		e.Amount, e.Reason = "10", "half"
		o.must("refund", e)
		e.Amount, e.Reason = "", "a name"
		row := o.must("redact", e)
		require.Regexp(t, `^redacted-[a-z2-7]{16}$`, row.ID)
		require.Equal(t, entered.Number, row.Number)
		require.Equal(t, entered.OccurredAt, row.OccurredAt)
		require.Len(t, row.Hints, 2)
		require.Equal(t, []string{"confirmed entered: ", "confirmed refunded_by_operator: ", "confirmed redacted: a name"}, o.history(), "reasons could repeat it")
		require.Equal(t, int64(3200), o.received())

		o.refuses("redact", e, Unknown, "no receipt of the rail")
		e.Reference, e.Reason = row.ID, "typo"
		require.Equal(t, "0", o.must("restore", e).RefundedAtomic, "its refunds have the new reference")
	})
}

func TestRedactOnlyOperatorReferences(t *testing.T) {
	for name, c := range map[string]struct {
		rail   string
		level  ledger.EvidenceLevel
		source string
		want   string
	}{
		"a card payment":                   {"card", ledger.LevelSigned, "webhook", "the id that its source assigned"},
		"a sale that was read":             {"pack", ledger.LevelProvider, "provider", "the id that its source assigned"},
		"a transfer on a chain":            {"usdc", ledger.LevelChain, "chain", "the id that its source assigned"},
		"an entry where cards are told of": {"card", ledger.LevelManual, "webhook", "could be counted twice"},
		"an entry where cards are read":    {"card", ledger.LevelManual, "provider", "could be counted twice"},
		"an entry where nobody tells":      {"card", ledger.LevelManual, "", ""},
		"an entry of the operator alone":   {"transfer", ledger.LevelManual, "operator", ""},
	} {
		t.Run(name, func(t *testing.T) {
			o := newFixture(t)
			o.sees(c.rail, "id", c.level, ledger.StatusSeen)
			if c.source != "" {
				o.health = observe.Health{Rail: c.rail, Source: c.source}
			}
			row, err := o.do("redact", manual.Entry{Rail: c.rail, Reference: "id", Reason: "x"})
			if c.want != "" {
				requireRefusal(t, err, Conflict, c.want)
				return
			}
			require.NoError(t, err)
			require.NotEqual(t, "id", row.ID)
		})
	}
}
