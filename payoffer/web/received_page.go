package web

import (
	"strconv"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/accounting"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/page"
	"github.com/payoffer/caddy-pay-offer/payoffer/text"
)

// receivedPage is the report for people.
func (s *Server) receivedPage(f page.Frame, rep report, at place) page.Page {
	say := teller{f.Language, s.Offer}
	content := struct {
		Report report
		Heading, Sum,
		ReadAt string
		// Goal is empty where there is none, and else what is missing to it.
		Goal    string
		Percent int
		Rails   []railRow
		Rows    []receiptRow
		// Later says that there are newer receipts than these, and Live that the page
		// keeps itself up to date.
		Later, Live bool
	}{
		Report: rep, Heading: say.heading(rep), Sum: say.sum(rep.summary), ReadAt: say.moment(rep.ObservedAt), Later: at.before > 0, Live: at == newestPlace,
	}
	if s.Offer.Goal > 0 {
		content.Goal, content.Percent = say.goal(rep.summary), rep.percent()
	}
	for _, rail := range rep.Rails {
		content.Rails = append(content.Rails, say.rail(rail))
	}
	for _, r := range rep.Receipts {
		content.Rows = append(content.Rows, say.receipt(r))
	}
	return page.Received.Render(f, f.Language.Text("received.title")+": "+s.Offer.Name, content)
}

// railRow is a rail's part of the report in words.
type railRow struct {
	Name, Observed string
	Test           bool
	Confirmed      sumRow
	// Apart are the parts of its money that are not received, those that are not
	// known or nothing left out.
	Apart []sumRow
}

// sumRow is a sum in words: how much, its value, and what that leaves out.
type sumRow struct {
	Name, Main, Value string
	More              []string
}

// receiptRow is a receipt in words.
type receiptRow struct {
	receipt
	// Moved is when the money did, and Recorded, where that is another time, when
	// that was recorded.
	Moved, Recorded, Way, Paid, Value, State, Proof, Basis string
	// Say is the sentence with which a payment page asks whose payment this is; empty for
	// what nobody paid.
	Say string
}

// teller says a report in a language.
type teller struct {
	*text.Language
	offer *offer.Offer
}

// word says a word of the report, and as it stands one that a later version wrote
// into the ledger.
func (w teller) word(group, word string) string {
	if said, known := w.Group("received." + group)[word]; known {
		return said
	}
	return word
}

// heading says how many payments count. Beside receipts that do not, such as tests,
// it does not say that there is none.
func (w teller) heading(rep report) string {
	at := ""
	if rep.AtLeast() {
		at = "AtLeast"
	}
	switch {
	case rep.ExternalPayments > 0:
		return w.Text("received.count"+at, "n", rep.ExternalPayments)
	case len(rep.Receipts) > 0:
		return w.Text("received.noneCounts")
	}
	return w.Text("received.none" + at)
}

// sum is what was received; empty where nothing is known and something may be.
func (w teller) sum(s summary) string {
	key := "fact.dollars"
	if s.AtLeast() {
		key = "received.atLeast"
		if s.ExternalUSD == 0 {
			return ""
		}
	}
	return w.Text(key, "amount", w.Number(s.ExternalDecimal))
}

// goal says what is missing to the goal, by what is known.
func (w teller) goal(s summary) string {
	switch {
	case s.GoalMet != nil && *s.GoalMet:
		return w.Text("received.goalMet", "goal", s.GoalUSD)
	case s.AtLeast():
		return w.Text("received.goalAtMost", "goal", s.GoalUSD, "amount", w.Number(s.RemainingDecimal))
	}
	return w.Text("received.goal", "goal", s.GoalUSD, "amount", w.Number(s.RemainingDecimal))
}

// way is what people call what a payment was made over: rails that are no longer offered go by their
// name in the ledger.
func (w teller) way(rail string) string {
	if found, offered := w.offer.Rail(rail); offered {
		return w.Say(found.Face().Way)
	}
	return rail
}

func (w teller) rail(r railSummary) railRow {
	row := railRow{Name: w.way(r.Rail), Test: r.Testnet, Observed: w.observed(r), Confirmed: w.tally(r.Confirmed)}
	if r.AtLeast && r.Confirmed != nil && r.Confirmed.Count > 0 {
		row.Confirmed.Main = w.Text("received.tally.atLeast", "sum", row.Confirmed.Main)
	}
	for _, part := range []struct {
		key string
		sum *tally
	}{
		{"seen", r.Seen}, {"claimed", r.Claimed}, {"settling", r.Settling}, {"refunded", r.Refunded}, {"reversed", r.Reversed},
	} {
		if part.sum != nil && !part.sum.empty() {
			sum := w.tally(part.sum)
			sum.Name = w.Text("received.tally." + part.key)
			row.Apart = append(row.Apart, sum)
		}
	}
	return row
}

// observed says how well a rail is observed.
func (w teller) observed(r railSummary) string {
	said := w.Text("received.observed." + r.State)
	if r.LastError != nil {
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

// ago is a span of time.
func (w teller) ago(seconds int64) string {
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

// tally is a sum, where nil is one that is not known.
func (w teller) tally(t *tally) (row sumRow) {
	switch {
	case t == nil:
		return sumRow{Main: w.Text("received.tally.unknown")}
	case t.Count > 0:
		row.Main, row.Value = w.Number(strconv.FormatInt(t.Count, 10)), w.value(t.dollars)
	case t.AmountAtomic != "0":
		row.Main = w.Text("received.tally.part", "amount", w.value(t.dollars))
	default:
		row.Main = "0"
	}
	if t.AmountUSDDecimal != nil && t.UnknownUSD > 0 {
		row.More = append(row.More, w.Text("received.tally.unvalued", "n", t.UnknownUSD))
	}
	for _, c := range t.Currencies {
		row.More = append(row.More, w.Text("received.tally.currency",
			"currency", c.Currency, "n", c.Count, "paid", w.paid(c.Currency, c.AmountAtomic), "value", w.value(c.dollars)))
	}
	return row
}

// value is what money is worth.
func (w teller) value(d dollars) string {
	if d.AmountUSDDecimal == nil {
		return w.Text("received.valueUnknown")
	}
	return w.Text("fact.dollars", "amount", w.Number(*d.AmountUSDDecimal))
}

// paid is an amount of an asset, as dollars are: hundredths always stand there.
func (w teller) paid(asset, atomic string) string {
	unit := offer.UnitOf(asset)
	n, _ := strconv.ParseInt(atomic, 10, 64) // it is one of ours
	decimal := unit.Decimal(n)
	if unit.Digits == 2 {
		decimal = offer.USD(n).Decimal()
	}
	return w.Number(decimal) + " " + unit.Symbol
}

// when is a moment, or the day that the operator entered in place of one.
func (w teller) when(timestamp, day string) string {
	if at, err := time.Parse(time.DateOnly, day); err == nil {
		return w.Date(at)
	}
	return w.moment(timestamp)
}

// moment is a time that a report has.
func (w teller) moment(timestamp string) string {
	at, _ := time.Parse(time.RFC3339, timestamp) // it is one of ours
	return w.Moment(at)
}

func (w teller) receipt(r receipt) receiptRow {
	at := r.standing()
	row := receiptRow{
		receipt: r, Moved: w.when(r.OccurredAt, r.Day), Way: w.way(r.Rail), Paid: w.paid(r.Asset, r.AmountAtomic), State: w.state(r),
		Proof: w.word("proof", r.Evidence),
	}
	if r.Asset != "USD" {
		row.Value = w.value(r.dollars)
	}
	if r.ValueBasis != "" && ledger.ValueBasis(r.ValueBasis) != ledger.BasisFace {
		row.Basis = w.word("basis", r.ValueBasis)
	}
	if recorded := w.moment(r.RecordedAt); recorded != row.Moved {
		row.Recorded = recorded
	}
	if at.Status != ledger.StatusMoved && !r.Own {
		row.Say = w.Text("received.say", "paid", row.Paid, "way", row.Way, "at", row.Moved, "state", row.State)
	}
	return row
}

// standing is where the receipt stands, as far as it is published.
func (r receipt) standing() accounting.Standing {
	return accounting.Standing{Status: ledger.Status(r.Status), EvidenceLevel: ledger.EvidenceLevel(r.Evidence), Own: r.Own, Testnet: r.Testnet}
}

// state is the receipt's status.
func (w teller) state(r receipt) string {
	at := r.standing()
	said := w.word("status", r.Status)
	switch {
	case at.Status == ledger.StatusMoved:
		return said
	case at.Held() && r.RefundedAtomic != "0":
		said = w.Text("received.status.partly", "amount", w.paid(r.Asset, r.RefundedAtomic))
	}
	if r.Testnet {
		said = w.Text("received.status.test", "said", said)
	}
	if r.Own {
		said = w.Text("received.status.own", "said", said)
	}
	return said
}

// AtLeast says that the sums are the least that arrived.
func (s summary) AtLeast() bool { return s.Status == statusPartial }
