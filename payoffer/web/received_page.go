package web

import (
	"fmt"
	"net/http"
	"strconv"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/book"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/page"
)

// receivedPage is the report for people.
func (s *Server) receivedPage(f page.Frame, rep report, at place) *response {
	return s.page(http.StatusOK, cacheNever, page.Received.Render(f, f.Language.Text("received.title")+": "+s.Offer.Name, struct {
		Report  report
		Percent int
		// Later says that there are newer receipts than these.
		Later bool
	}{rep, rep.percent(), at.before > 0}))
}

// part is money that a rail tells of and that is not received.
type part struct {
	Name  string
	Money *tally
}

// Apart are the parts of a rail's money that are not received, those that are
// not known or nothing left out.
func (r railSummary) Apart() []part {
	var parts []part
	for _, p := range []part{
		{"seen, not sure yet", r.Seen}, {"of that, by unsigned messages alone", r.Asserted}, {"claimed by a facilitator", r.Claimed},
		{"outcome not known yet", r.Settling}, {"refunded", r.Refunded}, {"taken back", r.Reversed},
	} {
		if p.Money != nil && !p.Money.empty() {
			parts = append(parts, p)
		}
	}
	return parts
}

// errorWords say in plain words why a rail is not observed as it should be.
var errorWords = map[string]string{
	observe.ErrUnreachable:  "its source does not answer",
	observe.ErrWrongChain:   "its source is on another chain",
	observe.ErrBadAnswer:    "its source cannot be understood",
	observe.ErrLagging:      "its source is behind",
	observe.ErrLedger:       "the ledger cannot be written",
	observe.ErrDisagree:     "its sources disagree",
	observe.ErrUnauthorized: "the provider refuses the key",
	observe.ErrLimited:      "the provider asks for fewer calls",
	observe.ErrUnverified:   "deliveries come that are not signed with the secret",
	observe.ErrMalformed:    "a delivery could not be read",
	observe.ErrHistory:      "what was final has changed",
}

// Observed says in plain words how well the rail is observed.
func (r railSummary) Observed() string {
	words := map[string]string{
		statusObserved: "watched", statusPartial: "watched in part, more may have arrived", stateManual: "by hand, as the operator enters it",
		stateUnknown: "not watched, money may have arrived", stateRemoved: "no longer offered",
	}[r.State]
	if r.LastError != nil {
		words += ": " + errorWords[*r.LastError]
	}
	if r.ObservedThrough != nil {
		words += "; seen up to " + *r.ObservedThrough
	}
	if r.LagSeconds != nil {
		words += ", " + ago(*r.LagSeconds)
	}
	return words
}

// ago is a span of time for people.
func ago(seconds int64) string {
	for _, unit := range []struct {
		seconds int64
		name    string
	}{{86_400, "days"}, {3_600, "hours"}, {60, "minutes"}} {
		if seconds >= 2*unit.seconds {
			return fmt.Sprintf("%d %s ago", seconds/unit.seconds, unit.name)
		}
	}
	return fmt.Sprintf("%d seconds ago", seconds)
}

// Beyond says that more was paid than the goal: an offer that sells again and
// again is told of by count and sum.
func (s summary) Beyond() bool { return s.ExternalUSD > s.GoalUSD }

// Met says that the goal is reached, by what is known.
func (s summary) Met() bool { return s.GoalMet != nil && *s.GoalMet }

// AtLeast says that the sums are the least that arrived.
func (s summary) AtLeast() bool { return s.Status == statusPartial }

// Value is what the money is worth, for people.
func (m money) Value() string {
	if m.AmountUSDDecimal == nil {
		return "value unknown"
	}
	return *m.AmountUSDDecimal + " USD"
}

// Paid is the money in its own currency, for people.
func (c currencyTally) Paid() string { return inUnit(c.Currency, c.AmountAtomic) }

// Paid is the money in its own asset, for people.
func (r receipt) Paid() string { return inUnit(r.Asset, r.AmountAtomic) }

// inUnit is an amount of an asset for people, as dollars are: hundredths always
// stand there.
func inUnit(asset, atomic string) string {
	unit := offer.UnitOf(asset)
	n, _ := strconv.ParseInt(atomic, 10, 64) // it is one of ours
	if unit.Digits == 2 {
		return offer.USD(n).Decimal() + " " + unit.Symbol
	}
	return unit.Format(n)
}

// Basis says in plain words how the value in dollars was fixed, where they are
// not what was paid.
func (r receipt) Basis() string {
	return map[ledger.ValueBasis]string{
		ledger.BasisQuote: "value as quoted", ledger.BasisRate: "value by the rate of that time", ledger.BasisStated: "value as the operator states it",
	}[ledger.ValueBasis(r.ValueBasis)]
}

// Words are the receipt's status in plain words.
func (r receipt) Words() string {
	at := book.Standing{Status: ledger.Status(r.Status), EvidenceLevel: ledger.EvidenceLevel(r.Evidence)}
	words := r.Status
	switch {
	case at.Held() && r.RefundedUSDDecimal != nil && r.RefundedAtomic != "0":
		words = "confirmed, " + *r.RefundedUSDDecimal + " refunded"
	case at.Held() && r.RefundedAtomic != "0":
		words = "confirmed, refunded in part"
	case at.Status == ledger.StatusMoved:
		return "moved within the account; nobody paid it"
	case at.Status == ledger.StatusDropped:
		words = "never became money"
	case at.Status == ledger.StatusReversed:
		words = "taken back"
	case at.Seen():
		words = "seen, not sure yet"
	}
	if r.Own {
		words += "; the operator's own"
	}
	return words
}

// Proof is the receipt's evidence in plain words.
func (r receipt) Proof() string {
	return map[ledger.EvidenceLevel]string{
		ledger.LevelAsserted: "an unsigned message", ledger.LevelSigned: "a signed message", ledger.LevelProvider: "read from the provider",
		ledger.LevelChain: "read from the chain", ledger.LevelManual: "entered by the operator",
	}[ledger.EvidenceLevel(r.Evidence)]
}
