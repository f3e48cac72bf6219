package report

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/accounting"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/source"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// Values of Summary.Status and Rail.State.
const (
	StatusObserved = "observed"
	StatusPartial  = "partial"
	StateManual    = "manual"
	StateUnknown   = "unknown"
	StateRemoved   = "removed"
)

// Values of source.Health.Source for a rail whose payments the operator enters, and for one whose chain is not read.
const (
	SourceOperator    = "operator"
	SourceFacilitator = "facilitator"
)

// definition explains the words of a summary.
const definition = "received = confirmed money with evidence signed, provider, chain or manual, less refunds; money of test networks only while there is no other; " +
	"external = received without the operator's own payments; payments = the number of payments in received; " +
	"confirmed, seen, refunded and reversed exclude each other and include the operator's own payments; seen = pending; " +
	"claimed = reported by a facilitator and not verified, settling = outcome unknown; " +
	"only confirmed is received; dropped = failed, moved = moved within the account; " +
	"test = payments with test money that are not counted; partial, atLeast = some money may be unseen or of unknown value; manual = only what the operator entered; null = unknown, not zero"

// Summary is the totals of an offer. A member that ends in Usd is a number of dollars, one that ends in UsdDecimal
// the same as a string with two decimals.
type Summary struct {
	Offer              string    `json:"offer"`
	Status             string    `json:"status" jsonschema:"partial: some money may be unseen or of unknown value, and the sums are the least that arrived."`
	ObservedAt         string    `json:"observedAt"`
	ClockOffsetSeconds int64     `json:"clockOffsetSeconds" jsonschema:"How far the clock of this server is ahead of the newest block, if more than a minute; negative is behind, 0 without a chain."`
	Definition         string    `json:"definition" jsonschema:"What the words of the report mean."`
	GoalUSD            offer.USD `json:"goalUsd" jsonschema:"US dollars. The goal of all payments; the price by default."`
	GoalUSDDecimal     string    `json:"goalUsdDecimal"`
	GoalSet            bool      `json:"goalSet" jsonschema:"Whether the seller set the goal."`
	GoalMet            *bool     `json:"goalMet" jsonschema:"Whether externalUsd has reached goalUsd; null if it has not and a rail or a value is unknown."`
	ReceivedUSD        offer.USD `json:"receivedUsd" jsonschema:"US dollars. Confirmed money, less refunds: the sum of the rails."`
	ReceivedDecimal    string    `json:"receivedUsdDecimal"`
	Payments           int64     `json:"payments" jsonschema:"The number of payments in receivedUsd."`
	ExternalUSD        offer.USD `json:"externalUsd" jsonschema:"US dollars. received without the operator's own payments."`
	ExternalDecimal    string    `json:"externalUsdDecimal"`
	ExternalPayments   int64     `json:"externalPayments" jsonschema:"The number of payments in externalUsd."`
	RemainingUSD       offer.USD `json:"remainingUsd" jsonschema:"US dollars. What is known to be missing to the goal."`
	RemainingDecimal   string    `json:"remainingUsdDecimal"`
	TestnetUSD         offer.USD `json:"testnetUsd" jsonschema:"US dollars. Money of test networks that does not count."`
	TestnetUSDDecimal  string    `json:"testnetUsdDecimal"`
	Test               Test      `json:"test"`
	TestnetMoneyCounts bool      `json:"testnetMoneyCounts" jsonschema:"Whether test money counts: the offer has no other chain and no real money was received."`
	Rails              []Rail    `json:"rails"`
}

// Test is the payments with test money that are not counted. In a demo these include the claims of its facilitator, because a
// demo has no chain that could prove them.
type Test struct {
	Count            int64     `json:"count"`
	AmountUSD        offer.USD `json:"amountUsd" jsonschema:"US dollars. Their value, less refunds."`
	AmountUSDDecimal string    `json:"amountUsdDecimal"`
}

// Rail is the part of a summary on one rail. A sum of which nothing is known is null; claims and open settlements
// are always known, because this service recorded them itself.
type Rail struct {
	Rail            string     `json:"rail"`
	State           string     `json:"state" jsonschema:"How well the rail is observed. partial: more may have arrived. manual: the operator enters receipts. unknown: money may have arrived unseen. removed: the rail is no longer offered."`
	AtLeast         bool       `json:"atLeast" jsonschema:"Whether the sums are the least that arrived: more may be unseen or of unknown value."`
	Source          *string    `json:"source" jsonschema:"What the rail is observed by."`
	Testnet         bool       `json:"testnet"`
	ReceivedUSD     *offer.USD `json:"receivedUsd" jsonschema:"US dollars. The rail's part of receivedUsd."`
	ReceivedDecimal *string    `json:"receivedUsdDecimal"`
	ExternalUSD     *offer.USD `json:"externalUsd" jsonschema:"US dollars. received without the operator's own payments."`
	ExternalDecimal *string    `json:"externalUsdDecimal"`
	Confirmed       *Tally     `json:"confirmed" jsonschema:"Received, less refunds."`
	Seen            *Tally     `json:"seen" jsonschema:"Announced and not sure yet, less refunds."`
	Claimed         *Tally     `json:"claimed" jsonschema:"Reported by a facilitator and not verified."`
	Settling        *Tally     `json:"settling" jsonschema:"Payments of unknown outcome."`
	Refunded        *Tally     `json:"refunded" jsonschema:"What was refunded; payments that were refunded in part are not counted."`
	Reversed        *Tally     `json:"reversed" jsonschema:"Disputed, or voided by the operator, less refunds."`
	ObservedThrough *string    `json:"observedThrough" jsonschema:"How far the source has been read."`
	LagSeconds      *int64     `json:"lagSeconds"`
	LastError       *string    `json:"lastError" jsonschema:"Why the rail is not observed as it should be."`
}

// Tally is a sum of payments. AmountAtomic is in the rail's own asset; other currencies are in Currencies.
type Tally struct {
	Money
	Currencies []CurrencyTally `json:"currencies,omitempty" jsonschema:"The part in other currencies than the rail's own, which amountAtomic does not include."`
}

// CurrencyTally is the part of a sum in one currency.
type CurrencyTally struct {
	Currency string `json:"currency"`
	Money
}

// Money is a number of payments, their amount, and their value as far as it is known.
type Money struct {
	Count        int64  `json:"count"`
	AmountAtomic string `json:"amountAtomic"`
	Dollars
	UnknownUSD int64 `json:"unknownUsd" jsonschema:"How many payments amountUsd does not include because their value is unknown; it is null if it includes none."`
}

// Summarize adds up the totals of an offer as of now.
func Summarize(o *offer.Offer, totals []ledger.Total, health []source.Health, now time.Time) Summary {
	testCounts := accounting.TestCounts(totals, o.Test())
	counted := accounting.Count(totals, testCounts)
	s := Summary{
		Offer: o.ID, Status: StatusObserved, ObservedAt: now.UTC().Format(time.RFC3339), Definition: definition, GoalUSD: cmp.Or(o.Goal, o.Amount), GoalSet: o.Goal > 0,
		ReceivedUSD: offer.USD(counted.Received), Payments: counted.Payments,
		ExternalUSD: offer.USD(counted.External), ExternalPayments: counted.ExternalPayments,
		TestnetUSD: offer.USD(counted.Test), TestnetMoneyCounts: testCounts, Rails: []Rail{},
	}
	var test accounting.Money
	for _, t := range totals {
		if t.Held() && !t.Counts(testCounts) || o.Demo && t.Status == ledger.StatusClaimed {
			test = test.Plus(t.Net())
		}
	}
	s.Test = Test{test.Count, offer.USD(test.USDCents), offer.USD(test.USDCents).Decimal()}
	met := s.ExternalUSD >= s.GoalUSD
	if s.GoalMet = &met; !met && counted.Partial {
		s.GoalMet = nil // money of unknown value may reach it
	}
	for _, rail := range rails(o, totals, health, now) {
		rail.addUp(totals, testCounts)
		if rail.AtLeast {
			s.Status = StatusPartial
		}
		if rail.State == StateUnknown && !met {
			s.GoalMet = nil
		}
		s.Rails = append(s.Rails, rail)
	}
	s.RemainingUSD = max(0, s.GoalUSD-s.ExternalUSD)
	s.GoalUSDDecimal, s.TestnetUSDDecimal = s.GoalUSD.Decimal(), s.TestnetUSD.Decimal()
	s.ReceivedDecimal, s.ExternalDecimal, s.RemainingDecimal = s.ReceivedUSD.Decimal(), s.ExternalUSD.Decimal(), s.RemainingUSD.Decimal()
	return s
}

// Unmonitored are the names of the rails whose payments this service does not see by itself. A source in trouble is monitored.
func (s Summary) Unmonitored() (names []string) {
	for _, r := range s.Rails {
		if r.State == StateManual || r.State == StateUnknown && r.LastError == nil {
			names = append(names, r.Rail)
		}
	}
	return names
}

// Percent is how much of the goal is reached, 0 to 100.
func (s Summary) Percent() int { return int(min(100, max(0, s.ExternalUSD)*100/s.GoalUSD)) }

// rails are the configured rails in their order with their health, then those that only the ledger knows. The test
// money of a rail is apart from its real money: a rail may have had both over time.
func rails(o *offer.Offer, totals []ledger.Total, health []source.Health, now time.Time) (all []Rail) {
	for _, rail := range o.Rails {
		r := Rail{Rail: rail.Name(), Testnet: rail.Test()}
		r.setHealth(health, now)
		all = append(all, r)
	}
	for _, t := range totals {
		if !slices.ContainsFunc(all, func(r Rail) bool { return r.Rail == t.Rail && r.Testnet == t.Testnet }) {
			all = append(all, Rail{Rail: t.Rail, Testnet: t.Testnet, State: StateRemoved})
		}
	}
	return all
}

// addUp sets the sums of the rail.
func (r *Rail) addUp(totals []ledger.Total, testCounts bool) {
	totals = slices.DeleteFunc(slices.Clone(totals), func(t ledger.Total) bool { return t.Rail != r.Rail || t.Testnet != r.Testnet })
	counted, blind := accounting.Count(totals, testCounts), r.State == StateUnknown
	r.AtLeast = blind || r.State == StatusPartial || counted.Partial
	if !blind || counted.Payments > 0 {
		r.ReceivedUSD, r.ReceivedDecimal = new(offer.USD(counted.Received)), new(offer.USD(counted.Received).Decimal())
	}
	if !blind || counted.ExternalPayments > 0 {
		r.ExternalUSD, r.ExternalDecimal = new(offer.USD(counted.External)), new(offer.USD(counted.External).Decimal())
	}
	for status, sum := range map[ledger.Status]**Tally{
		ledger.StatusClaimed: &r.Claimed, ledger.StatusSettling: &r.Settling, ledger.StatusConfirmed: &r.Confirmed,
		ledger.StatusSeen: &r.Seen, ledger.StatusReversed: &r.Reversed,
	} {
		*sum = tally(slices.DeleteFunc(slices.Clone(totals), func(t ledger.Total) bool { return t.Status != status }), ledger.Total.Net)
	}
	r.Refunded = tally(totals, ledger.Total.Returned)
	for _, sum := range []**Tally{&r.Confirmed, &r.Seen, &r.Refunded, &r.Reversed} {
		if blind && (*sum).Empty() {
			*sum = nil
		}
	}
}

// setHealth sets how well the rail is observed. A rail without a health is unknown.
func (r *Rail) setHealth(health []source.Health, now time.Time) {
	r.State = StateUnknown
	i := slices.IndexFunc(health, func(h source.Health) bool { return h.Rail == r.Rail })
	if i < 0 {
		return
	}
	h := health[i]
	switch {
	case h.Blind:
	case h.Partial:
		r.State = StatusPartial
	case h.Source == SourceOperator:
		r.State = StateManual
	default:
		r.State = StatusObserved
	}
	r.Source, r.ObservedThrough, r.LastError = optional(h.Source), optional(h.ObservedThrough), optional(h.LastError)
	if h.At > 0 {
		r.LagSeconds = new(max(0, now.Unix()-h.At))
	}
}

// tally adds up a part of each total by currency. The empty currency is the rail's own.
func tally(totals []ledger.Total, part func(ledger.Total) accounting.Money) *Tally {
	by := make(map[string]accounting.Money)
	for _, t := range totals {
		if m := part(t); m != (accounting.Money{}) {
			by[t.Currency] = by[t.Currency].Plus(m)
		}
	}
	var all accounting.Money
	sum := new(Tally)
	for _, currency := range slices.Sorted(maps.Keys(by)) {
		m := by[currency]
		if all = all.Plus(m); currency != "" {
			sum.Currencies = append(sum.Currencies, CurrencyTally{currency, newMoney(m)})
		}
	}
	all.Amount = by[""].Amount
	sum.Money = newMoney(all)
	return sum
}

func newMoney(m accounting.Money) Money {
	out := Money{Count: m.Count, AmountAtomic: strconv.FormatInt(m.Amount, 10), UnknownUSD: m.UnknownUSD}
	if m.UnknownUSD == 0 || m.USDCents != 0 {
		out.Dollars = NewDollars(&m.USDCents)
	}
	return out
}

// Empty reports whether the sum contains nothing.
func (t *Tally) Empty() bool { return t.Count == 0 && t.AmountAtomic == "0" && len(t.Currencies) == 0 }
