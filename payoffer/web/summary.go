package web

import (
	"slices"
	"strconv"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/book"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// Values of summary.Status and railSummary.State.
const (
	statusObserved = "observed"
	statusPartial  = "partial"
	stateManual    = "manual"
	stateUnknown   = "unknown"
	stateRemoved   = "removed"
)

// sourceOperator is the Health.Source of a rail that the operator tells of.
const sourceOperator = "operator"

// definition says what the words of a summary mean.
const definition = "received = confirmed money with evidence signed, provider, chain or manual, less refunds, not on test networks; " +
	"external = received without the operator's own payments; confirmed, seen, refunded and reversed are apart from each other, " +
	"with the operator's own payments in them; seen is announced and not sure yet; asserted = the part of seen that rests on unsigned messages alone; " +
	"claimed = a facilitator's word, settling = an outcome that is not known yet; only confirmed is received; " +
	"partial = some money may be unseen or of unknown value; manual = only what the operator entered; null = unknown, not zero"

// summary is the report of received money. A name that ends in Usd is a number
// of dollars, one that ends in UsdDecimal the same as a string with two
// decimals.
type summary struct {
	Offer              string        `json:"offer"`
	Status             string        `json:"status" jsonschema:"partial: some money may be unseen or of unknown value."`
	ObservedAt         string        `json:"observedAt"`
	ClockOffsetSeconds int64         `json:"clockOffsetSeconds" jsonschema:"How far the clock of this server is proven to be ahead of others; negative is behind, 0 while nothing proves that it is wrong."`
	Definition         string        `json:"definition" jsonschema:"What the words of the report mean."`
	GoalUSD            offer.USD     `json:"goalUsd" jsonschema:"US dollars. The price."`
	GoalUSDDecimal     string        `json:"goalUsdDecimal"`
	GoalMet            bool          `json:"goalMet"`
	ReceivedUSD        offer.USD     `json:"receivedUsd" jsonschema:"US dollars. Confirmed money, less refunds."`
	ReceivedDecimal    string        `json:"receivedUsdDecimal"`
	ExternalUSD        offer.USD     `json:"externalUsd" jsonschema:"US dollars. received without the operator's own payments."`
	ExternalDecimal    string        `json:"externalUsdDecimal"`
	RemainingUSD       offer.USD     `json:"remainingUsd" jsonschema:"US dollars. What is missing to the goal."`
	RemainingDecimal   string        `json:"remainingUsdDecimal"`
	TestnetUSD         offer.USD     `json:"testnetUsd" jsonschema:"US dollars. Money of test networks that counts nowhere."`
	TestnetUSDDecimal  string        `json:"testnetUsdDecimal"`
	TestnetMoneyCounts bool          `json:"testnetMoneyCounts" jsonschema:"Whether the offer runs on test networks alone."`
	Rails              []railSummary `json:"rails"`
}

// railSummary is one rail. Its state is "observed", "partial" where the sums
// are a lower bound, "manual" where the operator enters receipts, "unknown", or
// "removed" from the configuration. A blind rail is unknown and its sums are
// null, but for what this service wrote down itself: claims and open
// settlements.
type railSummary struct {
	Rail    string  `json:"rail"`
	State   string  `json:"state" jsonschema:"How well the rail is observed. partial: the sums are a lower bound. manual: the operator enters receipts. unknown: money may have arrived unseen. removed: the rail is no longer offered."`
	Source  *string `json:"source" jsonschema:"What the rail is observed by."`
	Testnet bool    `json:"testnet"`
	// Confirmed, Seen and Reversed are less what was refunded of them, so that
	// they and Refunded add up. Asserted is the part of Seen that rests on
	// unsigned messages.
	Confirmed       *tally  `json:"confirmed" jsonschema:"Received, less what was refunded of it."`
	Seen            *tally  `json:"seen" jsonschema:"Announced and not sure yet, less refunds."`
	Asserted        *tally  `json:"asserted" jsonschema:"The part of seen that rests on unsigned messages alone."`
	Claimed         *tally  `json:"claimed" jsonschema:"A facilitator's word alone."`
	Settling        *tally  `json:"settling" jsonschema:"Payments whose outcome is not known yet."`
	Refunded        *tally  `json:"refunded" jsonschema:"What went back; payments that did so in part are not counted."`
	Reversed        *tally  `json:"reversed" jsonschema:"What was taken back by a dispute or the operator, less refunds."`
	ObservedThrough *string `json:"observedThrough" jsonschema:"How far the source has been read."`
	LagSeconds      *int64  `json:"lagSeconds"`
	LastError       *string `json:"lastError" jsonschema:"Why the rail is not observed as it should be."`
}

// tally is a sum in atomic units of the rail's asset and in dollars; the
// dollars are null while the value of a part is unknown.
type tally struct {
	Count        int64  `json:"count"`
	AmountAtomic string `json:"amountAtomic"`
	dollars
}

// summarize makes the report at now from the ledger's sums and from how well
// each rail is observed. It is a pure function.
func summarize(o *offer.Offer, totals []ledger.Total, health []observe.Health, now time.Time) summary {
	testCounts := o.Test()
	counted := book.Count(totals, testCounts)
	s := summary{
		Offer: o.ID, Status: statusObserved, ObservedAt: now.UTC().Format(time.RFC3339), Definition: definition,
		GoalUSD: o.Amount, ReceivedUSD: offer.USD(counted.Received), ExternalUSD: offer.USD(counted.External),
		TestnetUSD: offer.USD(counted.Test), TestnetMoneyCounts: testCounts, Rails: []railSummary{},
	}
	if counted.Partial {
		s.Status = statusPartial
	}
	for _, key := range railKeys(o, totals) {
		rail := summarizeRail(o, key, totals, health, now)
		if rail.State == stateUnknown || rail.State == statusPartial {
			s.Status = statusPartial
		}
		s.Rails = append(s.Rails, rail)
	}
	s.GoalMet, s.RemainingUSD = s.ExternalUSD >= s.GoalUSD, max(0, s.GoalUSD-s.ExternalUSD)
	s.GoalUSDDecimal, s.TestnetUSDDecimal = s.GoalUSD.Decimal(), s.TestnetUSD.Decimal()
	s.ReceivedDecimal, s.ExternalDecimal, s.RemainingDecimal = s.ReceivedUSD.Decimal(), s.ExternalUSD.Decimal(), s.RemainingUSD.Decimal()
	return s
}

// railKey tells a rail's test money from its real money: a rail may have had
// both in the course of time.
type railKey struct {
	rail    string
	testnet bool
}

// railKeys are the configured rails in their order, then those that only the
// ledger remembers.
func railKeys(o *offer.Offer, totals []ledger.Total) []railKey {
	var keys []railKey
	for _, rail := range o.Rails {
		keys = append(keys, railKey{rail.Name(), rail.Test()})
	}
	for _, t := range totals {
		if key := (railKey{t.Rail, t.Testnet}); !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	return keys
}

func summarizeRail(o *offer.Offer, key railKey, totals []ledger.Total, health []observe.Health, now time.Time) railSummary {
	out := railSummary{Rail: key.rail, Testnet: key.testnet, State: stateRemoved}
	if rail, configured := o.Rail(key.rail); configured && rail.Test() == key.testnet {
		out.observe(health, now)
	}
	sum := func(part func(ledger.Total) book.Money, which func(ledger.Total) bool) *tally {
		var m book.Money
		for _, t := range totals {
			if t.Rail == key.rail && t.Testnet == key.testnet && which(t) {
				m = m.Plus(part(t))
			}
		}
		return newTally(m)
	}
	net := func(which func(ledger.Total) bool) *tally { return sum(ledger.Total.Net, which) }
	is := func(status ledger.Status) func(ledger.Total) bool {
		return func(t ledger.Total) bool { return t.Status == status }
	}
	out.Claimed, out.Settling = net(is(ledger.StatusClaimed)), net(is(ledger.StatusSettling))
	if out.State == stateUnknown {
		return out
	}
	out.Confirmed, out.Seen, out.Asserted = net(ledger.Total.Held), net(ledger.Total.Seen), net(ledger.Total.Asserted)
	out.Reversed = net(is(ledger.StatusReversed))
	out.Refunded = sum(ledger.Total.Returned, func(ledger.Total) bool { return true })
	return out
}

// observe fills in how well the rail is observed. One that nobody observes is
// unknown.
func (r *railSummary) observe(health []observe.Health, now time.Time) {
	r.State = stateUnknown
	i := slices.IndexFunc(health, func(h observe.Health) bool { return h.Rail == r.Rail })
	if i < 0 {
		return
	}
	h := health[i]
	switch {
	case h.Blind:
	case h.Partial:
		r.State = statusPartial
	case h.Source == sourceOperator:
		r.State = stateManual
	default:
		r.State = statusObserved
	}
	r.Source, r.ObservedThrough, r.LastError = known(h.Source), known(h.ObservedThrough), known(h.LastError)
	if h.At > 0 {
		lag := max(0, now.Unix()-h.At)
		r.LagSeconds = &lag
	}
}

// known is nil for the empty string.
func known(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func newTally(m book.Money) *tally {
	t := &tally{Count: m.Count, AmountAtomic: strconv.FormatInt(m.Amount, 10)}
	if !m.Partial {
		t.dollars = newDollars(&m.USDCents)
	}
	return t
}

// percent is how much of the goal is reached, 0 to 100.
func (s summary) percent() int {
	return int(min(100, max(0, s.ExternalUSD)*100/s.GoalUSD))
}
