package web

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/accounting"
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

// sourceOperator is the Health.Source of a rail that the operator tells of, and
// sourceFacilitator of one whose chain nobody reads.
const (
	sourceOperator    = "operator"
	sourceFacilitator = "facilitator"
)

// definition says what the words of a summary mean.
const definition = "received = confirmed money with evidence signed, provider, chain or manual, less refunds; money of test networks only while there is no other; " +
	"external = received without the operator's own payments; payments = how many payments received is of; " +
	"confirmed, seen, refunded and reversed are apart from each other, with the operator's own payments in them; seen is announced and not sure yet; " +
	"claimed = a facilitator's word, settling = an outcome that is not known yet; " +
	"only confirmed is received; dropped never became money, moved was moved within the account; " +
	"partial, atLeast = some money may be unseen or of unknown value; manual = only what the operator entered; null = unknown, not zero"

// summary is the report of received money. A name that ends in Usd is a number
// of dollars, one that ends in UsdDecimal the same as a string with two
// decimals.
type summary struct {
	Offer              string        `json:"offer"`
	Status             string        `json:"status" jsonschema:"partial: some money may be unseen or of unknown value, and the sums are the least that arrived."`
	ObservedAt         string        `json:"observedAt"`
	ClockOffsetSeconds int64         `json:"clockOffsetSeconds" jsonschema:"How far the clock of this server is proven to be ahead of others; negative is behind, 0 while nothing proves that it is wrong."`
	Definition         string        `json:"definition" jsonschema:"What the words of the report mean."`
	GoalUSD            offer.USD     `json:"goalUsd" jsonschema:"US dollars. What is to be received in all: the price where the operator has no other goal."`
	GoalUSDDecimal     string        `json:"goalUsdDecimal"`
	GoalMet            *bool         `json:"goalMet" jsonschema:"Whether externalUsd has reached goalUsd; null where it has not and a rail is unknown, or the value of some money."`
	ReceivedUSD        offer.USD     `json:"receivedUsd" jsonschema:"US dollars. Confirmed money, less refunds: the sum of the rails."`
	ReceivedDecimal    string        `json:"receivedUsdDecimal"`
	Payments           int64         `json:"payments" jsonschema:"How many payments receivedUsd is of."`
	ExternalUSD        offer.USD     `json:"externalUsd" jsonschema:"US dollars. received without the operator's own payments."`
	ExternalDecimal    string        `json:"externalUsdDecimal"`
	ExternalPayments   int64         `json:"externalPayments" jsonschema:"How many payments externalUsd is of."`
	RemainingUSD       offer.USD     `json:"remainingUsd" jsonschema:"US dollars. What is missing to the goal, by what is known."`
	RemainingDecimal   string        `json:"remainingUsdDecimal"`
	TestnetUSD         offer.USD     `json:"testnetUsd" jsonschema:"US dollars. Money of test networks that counts nowhere."`
	TestnetUSDDecimal  string        `json:"testnetUsdDecimal"`
	TestnetMoneyCounts bool          `json:"testnetMoneyCounts" jsonschema:"Whether money of test networks counts: the offer has no other chain and no real money was received."`
	Rails              []railSummary `json:"rails"`
}

// railSummary is one rail. Its state is "observed", "partial", "manual" where
// the operator enters receipts, "unknown", or "removed" from the configuration.
// A blind rail is unknown: of its sums those are null of which nothing is known,
// and the others are the least that arrived. What this service wrote down
// itself, claims and open settlements, is always known.
type railSummary struct {
	Rail            string     `json:"rail"`
	State           string     `json:"state" jsonschema:"How well the rail is observed. partial: more may have arrived. manual: the operator enters receipts. unknown: money may have arrived unseen. removed: the rail is no longer offered."`
	AtLeast         bool       `json:"atLeast" jsonschema:"Whether the sums are the least that arrived: more may be unseen or of unknown value."`
	Source          *string    `json:"source" jsonschema:"What the rail is observed by."`
	Testnet         bool       `json:"testnet"`
	ReceivedUSD     *offer.USD `json:"receivedUsd" jsonschema:"US dollars. The part of the report's sum that the rail has."`
	ReceivedDecimal *string    `json:"receivedUsdDecimal"`
	ExternalUSD     *offer.USD `json:"externalUsd" jsonschema:"US dollars. received without the operator's own payments."`
	ExternalDecimal *string    `json:"externalUsdDecimal"`
	// Confirmed, Seen and Reversed are less what was refunded of them, so that
	// they and Refunded add up.
	Confirmed       *tally  `json:"confirmed" jsonschema:"Received, less what was refunded of it."`
	Seen            *tally  `json:"seen" jsonschema:"Announced and not sure yet, less refunds."`
	Claimed         *tally  `json:"claimed" jsonschema:"A facilitator's word alone."`
	Settling        *tally  `json:"settling" jsonschema:"Payments whose outcome is not known yet."`
	Refunded        *tally  `json:"refunded" jsonschema:"What went back; payments that did so in part are not counted."`
	Reversed        *tally  `json:"reversed" jsonschema:"What was taken back by a dispute or the operator, less refunds."`
	ObservedThrough *string `json:"observedThrough" jsonschema:"How far the source has been read."`
	LagSeconds      *int64  `json:"lagSeconds"`
	LastError       *string `json:"lastError" jsonschema:"Why the rail is not observed as it should be."`
}

// tally is a sum: how many payments it is of and their value, whatever the
// currency, and what they amount to in the rail's own asset. Other currencies
// stand apart, for no number holds two.
type tally struct {
	money
	Currencies []currencyTally `json:"currencies,omitempty" jsonschema:"The part that is in other currencies than the rail's own, of which amountAtomic holds nothing."`
}

// currencyTally is the part of a sum that is in one currency.
type currencyTally struct {
	Currency string `json:"currency"`
	money
}

// money is a number of payments, their amount, and their value as far as it is
// known.
type money struct {
	Count        int64  `json:"count"`
	AmountAtomic string `json:"amountAtomic"`
	dollars
	UnknownUSD int64 `json:"unknownUsd" jsonschema:"How many payments amountUsd leaves out because their value is not known; it is null where it leaves out all."`
}

// summarize makes the report at now from the ledger's sums and from how well
// each rail is observed. It is a pure function.
func summarize(o *offer.Offer, totals []ledger.Total, health []observe.Health, now time.Time) summary {
	testCounts := accounting.TestCounts(totals, o.Test())
	counted := accounting.Count(totals, testCounts)
	s := summary{
		Offer: o.ID, Status: statusObserved, ObservedAt: now.UTC().Format(time.RFC3339), Definition: definition, GoalUSD: cmp.Or(o.Goal, o.Amount),
		ReceivedUSD: offer.USD(counted.Received), Payments: counted.Payments,
		ExternalUSD: offer.USD(counted.External), ExternalPayments: counted.ExternalPayments,
		TestnetUSD: offer.USD(counted.Test), TestnetMoneyCounts: testCounts, Rails: []railSummary{},
	}
	met := s.ExternalUSD >= s.GoalUSD
	if s.GoalMet = &met; !met && counted.Partial {
		s.GoalMet = nil // what is of unknown value may reach it
	}
	for _, key := range railKeys(o, totals) {
		rail := summarizeRail(o, key, totals, testCounts, health, now)
		if rail.AtLeast {
			s.Status = statusPartial
		}
		if rail.State == stateUnknown && !met {
			s.GoalMet = nil
		}
		s.Rails = append(s.Rails, rail)
	}
	s.RemainingUSD = max(0, s.GoalUSD-s.ExternalUSD)
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

func summarizeRail(o *offer.Offer, key railKey, totals []ledger.Total, testCounts bool, health []observe.Health, now time.Time) railSummary {
	out := railSummary{Rail: key.rail, Testnet: key.testnet, State: stateRemoved}
	if rail, configured := o.Rail(key.rail); configured && rail.Test() == key.testnet {
		out.observe(health, now)
	}
	totals = slices.DeleteFunc(slices.Clone(totals), func(t ledger.Total) bool { return t.Rail != key.rail || t.Testnet != key.testnet })
	counted, blind := accounting.Count(totals, testCounts), out.State == stateUnknown
	out.AtLeast = blind || out.State == statusPartial || counted.Partial
	if !blind || counted.Payments > 0 {
		out.ReceivedUSD, out.ReceivedDecimal = inDollars(&counted.Received)
	}
	if !blind || counted.ExternalPayments > 0 {
		out.ExternalUSD, out.ExternalDecimal = inDollars(&counted.External)
	}
	sum := func(part func(ledger.Total) accounting.Money, which func(ledger.Total) bool) *tally {
		by := make(map[string]accounting.Money)
		for _, t := range totals {
			if m := part(t); which(t) && m != (accounting.Money{}) {
				by[t.Currency] = by[t.Currency].Plus(m)
			}
		}
		return newTally(by)
	}
	net := func(which func(ledger.Total) bool) *tally { return sum(ledger.Total.Net, which) }
	is := func(status ledger.Status) func(ledger.Total) bool {
		return func(t ledger.Total) bool { return t.Status == status }
	}
	out.Claimed, out.Settling = net(is(ledger.StatusClaimed)), net(is(ledger.StatusSettling))
	out.Confirmed, out.Seen = net(ledger.Total.Held), net(ledger.Total.Seen)
	out.Reversed = net(is(ledger.StatusReversed))
	out.Refunded = sum(ledger.Total.Returned, func(ledger.Total) bool { return true })
	if blind {
		for _, t := range []**tally{&out.Confirmed, &out.Seen, &out.Refunded, &out.Reversed} {
			if (*t).empty() {
				*t = nil
			}
		}
	}
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

// newTally is a sum by currency, where the empty one is the rail's own.
func newTally(by map[string]accounting.Money) *tally {
	var all accounting.Money
	t := new(tally)
	for _, currency := range slices.Sorted(maps.Keys(by)) {
		m := by[currency]
		if all = all.Plus(m); currency != "" {
			t.Currencies = append(t.Currencies, currencyTally{currency, newMoney(m)})
		}
	}
	all.Amount = by[""].Amount
	t.money = newMoney(all)
	return t
}

func newMoney(m accounting.Money) money {
	out := money{Count: m.Count, AmountAtomic: strconv.FormatInt(m.Amount, 10), UnknownUSD: m.UnknownUSD}
	if m.UnknownUSD == 0 || m.USDCents != 0 {
		out.dollars = newDollars(&m.USDCents)
	}
	return out
}

// empty reports whether there is nothing in the sum.
func (t *tally) empty() bool { return t.Count == 0 && t.AmountAtomic == "0" && len(t.Currencies) == 0 }

// percent is how much of the goal is reached, 0 to 100.
func (s summary) percent() int {
	return int(min(100, max(0, s.ExternalUSD)*100/s.GoalUSD))
}
