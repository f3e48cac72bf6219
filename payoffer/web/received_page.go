package web

import (
	"strconv"
	"strings"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/page"
	"github.com/payoffer/caddy-pay-offer/payoffer/report"
	"github.com/payoffer/caddy-pay-offer/payoffer/text"
)

// receivedPage is the page of the report.
func (s *Server) receivedPage(f page.Frame, rep receivedReport, at position) page.Page {
	say := formatter{f.Language, s.Offer}
	content := struct {
		Report receivedReport
		Heading, Sum,
		ReadAt, Tests, Unmonitored, InAll string // empty if there are none
		Goal    string // what is missing to the goal; empty without a goal
		Percent int
		Rails   []railRow
		Rows    []receiptRow
		Later   bool // there are newer receipts than these
		Live    bool // the page updates itself
	}{
		Report: rep, Heading: say.heading(rep), ReadAt: say.moment(rep.ObservedAt), Tests: say.tests(rep.Summary),
		Later: at.before > 0, Live: at == newest,
	}
	if rep.ReceivedUSD != rep.ExternalUSD {
		content.InAll = say.Text("received.inAll", "amount", say.price(rep.ReceivedDecimal))
	}
	if content.Heading != content.Tests {
		content.Sum = say.price(rep.ExternalDecimal)
	}
	if rep.GoalSet {
		content.Goal, content.Percent = say.goal(rep.Summary), rep.Percent()
	}
	var unmonitored []string
	for _, rail := range rep.Unmonitored() {
		unmonitored = append(unmonitored, say.way(rail))
	}
	if len(unmonitored) > 0 {
		content.Unmonitored = say.Text("received.unmonitored", "methods", strings.Join(unmonitored, ", "))
	}
	for _, rail := range rep.Rails {
		content.Rails = append(content.Rails, say.rail(rail))
	}
	for _, r := range rep.Receipts {
		if ledger.Status(r.Status) == ledger.StatusMoved {
			continue // not a payment
		}
		row := say.receipt(r)
		if row.State == say.plain() {
			row.State = ""
		}
		row.Ago = say.since(r.OccurredAt, r.Day, rep.ObservedAt)
		content.Rows = append(content.Rows, row)
	}
	return page.Received.Render(f, f.Language.Text("received.title")+": "+f.Offer.Name, content)
}

// railRow is a rail of the report in words.
type railRow struct {
	Name, Observed string
	Test           bool
	Confirmed      sumRow
	Apart          []sumRow // its money that is not received, without sums that are unknown or empty
}

// sumRow is a sum in words: the number of payments, their value, and what the value does not include.
type sumRow struct {
	Name, Main, Value string
	More              []string
}

// receiptRow is a receipt in words.
type receiptRow struct {
	report.Receipt
	Moved, Ago, Recorded                  string // when the money moved, also as the time since; when that was recorded, if at another time
	Way, Paid, Value, State, Proof, Basis string
	Say                                   string // asks on a payment page whose payment this is; empty if nobody paid it
}

// formatter writes a report in a language.
type formatter struct {
	*text.Language
	offer *offer.Offer
}

// word translates a word of the report. It returns an unknown word unchanged.
func (f formatter) word(group, word string) string {
	if said, known := f.Group("received." + group)[word]; known {
		return said
	}
	return word
}

// heading says how many payments count, or that only tests do not.
func (f formatter) heading(rep receivedReport) string {
	switch {
	case rep.ExternalPayments > 0:
		return f.Text("received.count", "n", rep.ExternalPayments)
	case rep.Test.Count > 0:
		return f.tests(rep.Summary)
	case len(rep.Receipts) > 0:
		return f.Text("received.noneCounts")
	}
	return f.Text("received.none")
}

// tests says what the payments with test money are; empty without one.
func (f formatter) tests(s report.Summary) string {
	if s.Test.Count == 0 {
		return ""
	}
	return f.Text("received.tests", "n", s.Test.Count, "amount", f.price(s.Test.AmountUSDDecimal))
}

// goal says what is missing to the goal.
func (f formatter) goal(s report.Summary) string {
	if s.GoalMet != nil && *s.GoalMet {
		return f.Text("received.goalMet", "goal", s.GoalUSD)
	}
	return f.Text("received.goal", "goal", s.GoalUSD, "amount", f.Number(s.RemainingDecimal))
}

// way is the name of a payment method. A removed rail has only its name in the ledger.
func (f formatter) way(rail string) string {
	if found, offered := f.offer.Rail(rail); offered {
		return f.Say(found.Face().Way)
	}
	return rail
}

func (f formatter) rail(r report.Rail) railRow {
	row := railRow{Name: f.way(r.Rail), Test: r.Testnet, Observed: f.observed(r), Confirmed: f.tally(r.Confirmed)}
	for _, part := range []struct {
		key string
		sum *report.Tally
	}{
		{"seen", r.Seen}, {"claimed", r.Claimed}, {"settling", r.Settling}, {"refunded", r.Refunded}, {"reversed", r.Reversed},
	} {
		if part.sum != nil && !part.sum.Empty() {
			sum := f.tally(part.sum)
			sum.Name = f.Text("received.tally." + part.key)
			row.Apart = append(row.Apart, sum)
		}
	}
	return row
}

// observed says how well a rail is observed.
func (f formatter) observed(r report.Rail) string {
	said := f.Text("received.observed." + r.State)
	if r.LastError != nil {
		said = f.Text("received.observed." + strings.Replace(r.State, report.StateUnknown, "interrupted", 1))
		said = f.Text("received.observed.because", "said", said, "error", f.word("error", *r.LastError))
	}
	if r.ObservedThrough != nil {
		said = f.Text("received.observed.through", "said", said, "through", *r.ObservedThrough)
	}
	if r.LagSeconds != nil {
		said = f.Text("received.observed.ago", "said", said, "ago", f.ago(*r.LagSeconds))
	}
	return said
}

// ago formats a duration.
func (f formatter) ago(seconds int64) string {
	if seconds < 10 {
		return f.Text("received.ago.now")
	}
	for _, unit := range []struct {
		seconds int64
		name    string
	}{{86_400, "days"}, {3_600, "hours"}, {60, "minutes"}} {
		if seconds >= 2*unit.seconds {
			return f.Text("received.ago."+unit.name, "n", seconds/unit.seconds)
		}
	}
	return f.Text("received.ago.seconds", "n", seconds)
}

// tally is a sum; nil is unknown.
func (f formatter) tally(t *report.Tally) (row sumRow) {
	switch {
	case t == nil:
		return sumRow{Main: "–"}
	case t.Count > 0:
		row.Main, row.Value = f.Number(strconv.FormatInt(t.Count, 10)), f.value(t.Dollars)
	case t.AmountAtomic != "0":
		row.Main = f.Text("received.tally.part", "amount", f.value(t.Dollars))
	default:
		row.Main = "0"
	}
	if t.AmountUSDDecimal != nil && t.UnknownUSD > 0 {
		row.More = append(row.More, f.Text("received.tally.unvalued", "n", t.UnknownUSD))
	}
	for _, c := range t.Currencies {
		row.More = append(row.More, f.Text("received.tally.currency",
			"currency", c.Currency, "n", c.Count, "paid", f.amount(c.Currency, report.Atomic(c.AmountAtomic)), "value", f.value(c.Dollars)))
	}
	return row
}

// value is an amount in US dollars.
func (f formatter) value(d report.Dollars) string {
	if d.AmountUSDDecimal == nil {
		return f.Text("received.valueUnknown")
	}
	return f.price(*d.AmountUSDDecimal)
}

// price is a decimal amount of US dollars. Whole dollars have no decimals.
func (f formatter) price(decimal string) string {
	return f.Text("fact.price", "amount", f.Number(strings.TrimSuffix(decimal, ".00")))
}

// amount is an amount of an asset. Currencies with cents are always written with two decimals.
func (f formatter) amount(asset string, atomic int64) string {
	if asset == "USD" {
		return f.price(offer.USD(atomic).Decimal())
	}
	unit := offer.UnitOf(asset)
	decimal := unit.Decimal(atomic)
	if unit.Digits == 2 {
		decimal = offer.USD(atomic).Decimal()
	}
	return f.Number(decimal) + " " + unit.Symbol
}

// since is how long before a time the money moved. Later than a month, or if the seller
// entered a day, it is the day.
func (f formatter) since(timestamp, day, now string) string {
	if day != "" {
		return f.when(timestamp, day)
	}
	moved, _ := time.Parse(time.RFC3339, timestamp) // the report wrote both
	at, _ := time.Parse(time.RFC3339, now)
	if ago := at.Sub(moved); ago >= 0 && ago < 30*24*time.Hour {
		return f.ago(int64(ago.Seconds()))
	}
	return f.Date(moved)
}

// when formats a time, or the day that the operator entered.
func (f formatter) when(timestamp, day string) string {
	if at, err := time.Parse(time.DateOnly, day); err == nil {
		return f.Date(at)
	}
	return f.moment(timestamp)
}

// moment is a timestamp of a report.
func (f formatter) moment(timestamp string) string {
	at, _ := time.Parse(time.RFC3339, timestamp) // this package wrote it
	return f.Moment(at)
}

func (f formatter) receipt(r report.Receipt) receiptRow {
	row := receiptRow{
		Receipt: r, Moved: f.when(r.OccurredAt, r.Day), Way: f.way(r.Rail), Paid: f.amount(r.Asset, report.Atomic(r.AmountAtomic)),
		State: f.state(r), Proof: f.word("proof", r.Evidence),
	}
	if r.Asset != "USD" && r.AmountUSDDecimal != nil {
		row.Value = f.value(r.Dollars)
	}
	if r.ValueBasis != "" && ledger.ValueBasis(r.ValueBasis) != ledger.BasisFace {
		row.Basis = f.word("basis", r.ValueBasis)
	}
	if recorded := f.moment(r.RecordedAt); recorded != row.Moved {
		row.Recorded = recorded
	}
	if !r.Own {
		row.Say = f.Text("received.say", "paid", row.Paid, "way", row.Way, "at", row.Moved, "state", row.State)
	}
	return row
}

// plain is the state of a payment without anything special, which a list leaves out.
func (f formatter) plain() string { return f.word("status", string(ledger.StatusConfirmed)) }

// state is the receipt's status.
func (f formatter) state(r report.Receipt) string {
	said := f.word("status", r.Classification().Word())
	if r.Classification().Held() && r.RefundedAtomic != "0" {
		said = f.Text("received.status.partly", "amount", f.amount(r.Asset, report.Atomic(r.RefundedAtomic)))
	}
	if r.Testnet {
		said = f.Text("received.status.test", "said", said)
	}
	switch {
	case r.Own && said == f.plain():
		said = f.Text("received.status.mine")
	case r.Own:
		said = f.Text("received.status.own", "said", said)
	}
	return said
}
