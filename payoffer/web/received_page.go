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
		row := say.receipt(r)
		row.Ago = say.since(r.OccurredAt, r.Day, rep.ObservedAt)
		content.Rows = append(content.Rows, row)
	}
	return page.Received.Render(f, f.Language.Text("received.title")+": "+s.Offer.Name, content)
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
func (w formatter) word(group, word string) string {
	if said, known := w.Group("received." + group)[word]; known {
		return said
	}
	return word
}

// heading says how many payments count, or that only tests do not.
func (w formatter) heading(rep receivedReport) string {
	switch {
	case rep.ExternalPayments > 0:
		return w.Text("received.count", "n", rep.ExternalPayments)
	case rep.Test.Count > 0:
		return w.tests(rep.Summary)
	case len(rep.Receipts) > 0:
		return w.Text("received.noneCounts")
	}
	return w.Text("received.none")
}

// tests says what the payments with test money are; empty without one.
func (w formatter) tests(s report.Summary) string {
	if s.Test.Count == 0 {
		return ""
	}
	return w.Text("received.tests", "n", s.Test.Count, "amount", w.price(s.Test.AmountUSDDecimal))
}

// goal says what is missing to the goal.
func (w formatter) goal(s report.Summary) string {
	if s.GoalMet != nil && *s.GoalMet {
		return w.Text("received.goalMet", "goal", s.GoalUSD)
	}
	return w.Text("received.goal", "goal", s.GoalUSD, "amount", w.Number(s.RemainingDecimal))
}

// way is the name of a payment method. A removed rail has only its name in the ledger.
func (w formatter) way(rail string) string {
	if found, offered := w.offer.Rail(rail); offered {
		return w.Say(found.Face().Way)
	}
	return rail
}

func (w formatter) rail(r report.Rail) railRow {
	row := railRow{Name: w.way(r.Rail), Test: r.Testnet, Observed: w.observed(r), Confirmed: w.tally(r.Confirmed)}
	for _, part := range []struct {
		key string
		sum *report.Tally
	}{
		{"seen", r.Seen}, {"claimed", r.Claimed}, {"settling", r.Settling}, {"refunded", r.Refunded}, {"reversed", r.Reversed},
	} {
		if part.sum != nil && !part.sum.Empty() {
			sum := w.tally(part.sum)
			sum.Name = w.Text("received.tally." + part.key)
			row.Apart = append(row.Apart, sum)
		}
	}
	return row
}

// observed says how well a rail is observed.
func (w formatter) observed(r report.Rail) string {
	said := w.Text("received.observed." + r.State)
	if r.LastError != nil {
		said = w.Text("received.observed." + strings.Replace(r.State, report.StateUnknown, "interrupted", 1))
		said = w.Text("received.observed.because", "said", said, "error", w.word("error", *r.LastError))
	}
	if r.ObservedThrough != nil {
		said = w.Text("received.observed.through", "said", said, "through", *r.ObservedThrough)
	}
	if r.LagSeconds != nil {
		said = w.Text("received.observed.ago", "said", said, "ago", w.ago(*r.LagSeconds))
	}
	return said
}

// ago formats a duration.
func (w formatter) ago(seconds int64) string {
	for _, unit := range []struct {
		seconds int64
		name    string
	}{{86_400, "days"}, {3_600, "hours"}, {60, "minutes"}} {
		if seconds >= 2*unit.seconds {
			return w.Text("received.ago."+unit.name, "n", seconds/unit.seconds)
		}
	}
	return w.Text("received.ago.seconds", "n", seconds)
}

// tally is a sum; nil is unknown.
func (w formatter) tally(t *report.Tally) (row sumRow) {
	switch {
	case t == nil:
		return sumRow{Main: "–"}
	case t.Count > 0:
		row.Main, row.Value = w.Number(strconv.FormatInt(t.Count, 10)), w.value(t.Dollars)
	case t.AmountAtomic != "0":
		row.Main = w.Text("received.tally.part", "amount", w.value(t.Dollars))
	default:
		row.Main = "0"
	}
	if t.AmountUSDDecimal != nil && t.UnknownUSD > 0 {
		row.More = append(row.More, w.Text("received.tally.unvalued", "n", t.UnknownUSD))
	}
	for _, c := range t.Currencies {
		row.More = append(row.More, w.Text("received.tally.currency",
			"currency", c.Currency, "n", c.Count, "paid", w.amount(c.Currency, report.Atomic(c.AmountAtomic)), "value", w.value(c.Dollars)))
	}
	return row
}

// value is an amount in US dollars.
func (w formatter) value(d report.Dollars) string {
	if d.AmountUSDDecimal == nil {
		return w.Text("received.valueUnknown")
	}
	return w.price(*d.AmountUSDDecimal)
}

// price is a decimal amount of US dollars. Whole dollars have no decimals.
func (w formatter) price(decimal string) string {
	return w.Text("fact.price", "amount", w.Number(strings.TrimSuffix(decimal, ".00")))
}

// amount is an amount of an asset. Currencies with cents are always written with two decimals.
func (w formatter) amount(asset string, atomic int64) string {
	if asset == "USD" {
		return w.price(offer.USD(atomic).Decimal())
	}
	unit := offer.UnitOf(asset)
	decimal := unit.Decimal(atomic)
	if unit.Digits == 2 {
		decimal = offer.USD(atomic).Decimal()
	}
	return w.Number(decimal) + " " + unit.Symbol
}

// since is how long before a time the money moved. Later than a month, or if the seller
// entered a day, it is the day.
func (w formatter) since(timestamp, day, now string) string {
	if day != "" {
		return w.when(timestamp, day)
	}
	moved, _ := time.Parse(time.RFC3339, timestamp) // the report wrote both
	at, _ := time.Parse(time.RFC3339, now)
	if ago := at.Sub(moved); ago >= 0 && ago < 30*24*time.Hour {
		return w.ago(int64(ago.Seconds()))
	}
	return w.Date(moved)
}

// when formats a time, or the day that the operator entered.
func (w formatter) when(timestamp, day string) string {
	if at, err := time.Parse(time.DateOnly, day); err == nil {
		return w.Date(at)
	}
	return w.moment(timestamp)
}

// moment is a timestamp of a report.
func (w formatter) moment(timestamp string) string {
	at, _ := time.Parse(time.RFC3339, timestamp) // this package wrote it
	return w.Moment(at)
}

func (w formatter) receipt(r report.Receipt) receiptRow {
	row := receiptRow{
		Receipt: r, Moved: w.when(r.OccurredAt, r.Day), Way: w.way(r.Rail), Paid: w.amount(r.Asset, report.Atomic(r.AmountAtomic)),
		State: w.state(r), Proof: w.word("proof", r.Evidence),
	}
	if r.Asset != "USD" {
		row.Value = w.value(r.Dollars)
	}
	if r.ValueBasis != "" && ledger.ValueBasis(r.ValueBasis) != ledger.BasisFace {
		row.Basis = w.word("basis", r.ValueBasis)
	}
	if recorded := w.moment(r.RecordedAt); recorded != row.Moved {
		row.Recorded = recorded
	}
	if ledger.Status(r.Status) != ledger.StatusMoved && !r.Own {
		row.Say = w.Text("received.say", "paid", row.Paid, "way", row.Way, "at", row.Moved, "state", row.State)
	}
	return row
}

// state is the receipt's status.
func (w formatter) state(r report.Receipt) string {
	said := w.word("status", r.Classification().Word())
	switch {
	case ledger.Status(r.Status) == ledger.StatusMoved:
		return said
	case r.Classification().Held() && r.RefundedAtomic != "0":
		said = w.Text("received.status.partly", "amount", w.amount(r.Asset, report.Atomic(r.RefundedAtomic)))
	}
	if r.Testnet {
		said = w.Text("received.status.test", "said", said)
	}
	if r.Own {
		said = w.Text("received.status.own", "said", said)
	}
	return said
}
