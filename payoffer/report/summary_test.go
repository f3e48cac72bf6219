package report

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/accounting"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/source"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// confirmed is one sum of money received on a rail.
func confirmed(rail string, level ledger.EvidenceLevel, cents int64) ledger.Total {
	return ledger.Total{
		BalanceKey: accounting.BalanceKey{Rail: rail, Classification: accounting.Classification{Status: ledger.StatusConfirmed, EvidenceLevel: level}},
		Sum:        accounting.Sum{Count: 1, Amount: cents * 10_000, USDCents: cents},
	}
}

func with(t ledger.Total, change func(*ledger.Total)) ledger.Total {
	change(&t)
	return t
}

func TestOnlyProvenMoneyIsReceived(t *testing.T) {
	in := func(status ledger.Status) ledger.Total {
		return with(confirmed("usdc", ledger.LevelChain, 1_00), func(t *ledger.Total) { t.Status = status })
	}
	for name, tc := range map[string]struct {
		totals             []ledger.Total
		received, external offer.USD
		testnet            offer.USD
		met, partial       bool
	}{
		"nothing":                   {},
		"every counted evidence":    {totals: []ledger.Total{confirmed("card", ledger.LevelSigned, 10_00), confirmed("usdc", ledger.LevelChain, 20_00), confirmed("transfer", ledger.LevelManual, 5_00), confirmed("pack", ledger.LevelProvider, 7_00)}, received: 42_00, external: 42_00, met: true},
		"one cent short":            {totals: []ledger.Total{confirmed("card", ledger.LevelSigned, 41_99)}, received: 41_99, external: 41_99},
		"more than asked":           {totals: []ledger.Total{confirmed("card", ledger.LevelSigned, 100_00)}, received: 100_00, external: 100_00, met: true},
		"test money by card":        {totals: []ledger.Total{with(confirmed("card", ledger.LevelSigned, 42_00), func(t *ledger.Total) { t.Testnet = true })}, testnet: 42_00},
		"seen, claimed, open":       {totals: []ledger.Total{in(ledger.StatusSeen), in(ledger.StatusClaimed), in(ledger.StatusSettling)}},
		"dropped, gone back":        {totals: []ledger.Total{in(ledger.StatusDropped), in(ledger.StatusRefunded), in(ledger.StatusReversed)}},
		"the operator's own":        {totals: []ledger.Total{with(confirmed("usdc", ledger.LevelChain, 42_00), func(t *ledger.Total) { t.Own = true })}, received: 42_00},
		"test money beside real":    {totals: []ledger.Total{with(confirmed("usdc", ledger.LevelChain, 42_00), func(t *ledger.Total) { t.Testnet = true })}, testnet: 42_00},
		"a refund in part":          {totals: []ledger.Total{with(confirmed("card", ledger.LevelSigned, 42_00), func(t *ledger.Total) { t.Refunded, t.RefundedCents = 1000, 10_00 })}, received: 32_00, external: 32_00},
		"a value nobody knows":      {totals: []ledger.Total{with(confirmed("btc", ledger.LevelChain, 0), func(t *ledger.Total) { t.UnknownUSD = 1 })}, partial: true},
		"a refund of unknown worth": {totals: []ledger.Total{confirmed("btc", ledger.LevelChain, 42_00), with(confirmed("btc", ledger.LevelChain, 0), func(t *ledger.Total) { t.UnknownUSD, t.Refunded = 1, 5 })}, received: 42_00, external: 42_00, met: true, partial: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			s := Summarize(w.offer, tc.totals, w.health, at)
			require.Equal(t, tc.received, s.ReceivedUSD)
			require.Equal(t, tc.external, s.ExternalUSD)
			require.Equal(t, tc.testnet, s.TestnetUSD)
			if tc.met || !tc.partial {
				require.Equal(t, &tc.met, s.GoalMet)
			} else {
				require.Nil(t, s.GoalMet, "what has no value yet may reach it")
			}
			require.Equal(t, tc.partial, s.Status == StatusPartial)
			require.Equal(t, max(0, 42_00-tc.external), s.RemainingUSD)
			require.Equal(t, tc.external.Decimal(), s.ExternalDecimal)
			require.False(t, s.TestnetMoneyCounts)
		})
	}
}

func TestTestMoneyCountsIfNoRealMoney(t *testing.T) {
	w, o := newWorld(t), testOffer(t)
	o.Card.TestMode = true
	money := with(confirmed("usdc", ledger.LevelChain, 42_00), func(t *ledger.Total) { t.Testnet = true })
	byCard := with(confirmed("card", ledger.LevelSigned, 1_00), func(t *ledger.Total) { t.Testnet = true })
	s := Summarize(o, []ledger.Total{money, byCard}, w.health, at)
	require.True(t, s.TestnetMoneyCounts)
	require.True(t, *s.GoalMet)
	require.Equal(t, offer.USD(42_00), s.ReceivedUSD)
	require.Equal(t, offer.USD(1_00), s.TestnetUSD, "a processor's test mode never counts")
	require.Len(t, s.Rails, 2)
	require.True(t, row(t, s, "card").Testnet)
	require.Equal(t, StatusObserved, row(t, s, "card").State)
	require.True(t, row(t, s, "usdc").Testnet)
	require.EqualValues(t, 1, row(t, s, "usdc").Confirmed.Count)
}

func TestManualRailIsNotPartial(t *testing.T) {
	w := newWorld(t)
	s := Summarize(w.offer, []ledger.Total{confirmed("transfer", ledger.LevelManual, 5_00)}, w.health, at)
	transfer := row(t, s, "transfer")
	require.Equal(t, StateManual, transfer.State)
	require.Equal(t, "5.00", *transfer.Confirmed.AmountUSDDecimal)
	require.Equal(t, StatusObserved, s.Status)
	require.Contains(t, s.Definition, "manual = ")

	w.healthOf("transfer").Blind = true
	require.Equal(t, StateUnknown, row(t, Summarize(w.offer, nil, w.health, at), "transfer").State)
	w.healthOf("transfer").Blind, w.healthOf("transfer").Partial = false, true
	require.Equal(t, StatusPartial, row(t, Summarize(w.offer, nil, w.health, at), "transfer").State)
}

func TestEachAmountHasOneStatus(t *testing.T) {
	w := newWorld(t)
	in := func(status ledger.Status, paid, refunded int64) ledger.Total {
		return with(confirmed("card", ledger.LevelSigned, paid), func(t *ledger.Total) {
			t.Status, t.Refunded, t.RefundedCents = status, refunded*10_000, refunded
		})
	}
	s := Summarize(w.offer, []ledger.Total{
		in(ledger.StatusConfirmed, 42_00, 10_00), in(ledger.StatusRefunded, 5_00, 5_00), in(ledger.StatusReversed, 20_00, 1_00), in(ledger.StatusSeen, 3_00, 0),
	}, w.health, at)
	card := row(t, s, "card")
	require.Equal(t, "32.00", *card.Confirmed.AmountUSDDecimal, "less what was refunded of it")
	require.Equal(t, "32000000", card.Confirmed.AmountAtomic)
	require.Equal(t, s.ReceivedUSD, *card.Confirmed.AmountUSD, "as in the sum of all rails")
	require.Equal(t, "16.00", *card.Refunded.AmountUSDDecimal)
	require.EqualValues(t, 1, card.Refunded.Count, "one refund in part stands beside")
	require.Equal(t, "19.00", *card.Reversed.AmountUSDDecimal)
	require.EqualValues(t, 42_00+5_00+20_00+3_00, *card.Confirmed.AmountUSD+*card.Refunded.AmountUSD+*card.Reversed.AmountUSD+*card.Seen.AmountUSD)
}

// The first USDC line is the rail usdc whatever its address or chain was.
func TestRailRowIncludesRemovedAccounts(t *testing.T) {
	w := newWorld(t)
	account := func(id string, testnet bool) ledger.Total {
		return with(confirmed("usdc", ledger.LevelChain, 42_00), func(t *ledger.Total) { t.Account, t.Testnet = id, testnet })
	}
	s := Summarize(w.offer, []ledger.Total{
		account("eip155:8453/erc20:0x1/0xnow", false), account("eip155:8453/erc20:0x1/0xformer", false), account("eip155:84532/erc20:0x2/0xformer", true),
	}, w.health, at)
	require.Len(t, s.Rails, len(w.offer.Rails)+1)
	require.Equal(t, "84.00", *row(t, s, "usdc").Confirmed.AmountUSDDecimal)
	require.Equal(t, StatusObserved, row(t, s, "usdc").State)
	test := s.Rails[len(s.Rails)-1]
	require.Equal(t, "usdc", test.Rail)
	require.True(t, test.Testnet)
	require.Equal(t, StateRemoved, test.State)
	require.Equal(t, "42.00", *test.Confirmed.AmountUSDDecimal)
	require.Equal(t, offer.USD(84_00), s.ReceivedUSD)
}

func TestBlindRailIsUnknownNotZero(t *testing.T) {
	w := newWorld(t)
	w.healthOf("usdc").Blind, w.healthOf("usdc").LastError = true, "unreachable"
	claim := with(confirmed("usdc", "", 42_00), func(t *ledger.Total) { t.Status = ledger.StatusClaimed })
	s := Summarize(w.offer, []ledger.Total{claim}, w.health, at)
	require.Equal(t, StatusPartial, s.Status)
	usdc := row(t, s, "usdc")
	require.Equal(t, StateUnknown, usdc.State)
	require.Nil(t, usdc.Confirmed)
	require.Nil(t, usdc.Seen)
	require.Nil(t, usdc.Refunded)
	require.EqualValues(t, 1, usdc.Claimed.Count, "what this service wrote down itself is known")
	require.Equal(t, "42.00", *usdc.Claimed.AmountUSDDecimal)
	require.Equal(t, "unreachable", *usdc.LastError)

	*w.healthOf("usdc") = source.Health{Rail: "usdc", Source: "chain", Partial: true}
	s = Summarize(w.offer, nil, w.health, at)
	require.Equal(t, StatusPartial, s.Status)
	require.Equal(t, StatusPartial, row(t, s, "usdc").State)
	require.NotNil(t, row(t, s, "usdc").Confirmed, "a lower bound is shown")

	s = Summarize(w.offer, nil, nil, at)
	require.Equal(t, StatusPartial, s.Status, "a rail that nobody observes is blind")
	for _, rail := range s.Rails {
		require.Equal(t, StateUnknown, rail.State)
		require.Nil(t, rail.Confirmed)
		require.Nil(t, rail.ReceivedUSD, "unknown is not 0")
		require.Nil(t, rail.ReceivedDecimal)
		require.Nil(t, rail.ExternalUSD)
	}
}

func TestRailObservationStates(t *testing.T) {
	w := newWorld(t)
	money := []ledger.Total{
		confirmed("usdc", ledger.LevelChain, 42_00),
		with(confirmed("usdc", ledger.LevelChain, 3_00), func(t *ledger.Total) { t.Own = true }),
		with(confirmed("usdc", ledger.LevelChain, 7_00), func(t *ledger.Total) { t.Testnet = true }),
		with(confirmed("usdc", ledger.LevelChain, 5_00), func(t *ledger.Total) {
			t.Status, t.Refunded, t.RefundedCents = ledger.StatusRefunded, t.Amount, 5_00
		}),
		confirmed("usdc-10", ledger.LevelChain, 1_00),
	}
	s := Summarize(w.offer, money, w.health, at)
	require.Equal(t, StatusObserved, s.Status)
	require.Len(t, s.Rails, len(w.offer.Rails)+2)

	usdc := row(t, s, "usdc")
	require.Equal(t, StatusObserved, usdc.State)
	require.Equal(t, "block 7", *usdc.ObservedThrough)
	require.EqualValues(t, 9, *usdc.LagSeconds)
	require.Nil(t, usdc.LastError)
	require.Equal(t, "45.00", *usdc.Confirmed.AmountUSDDecimal)
	require.Equal(t, "45000000", usdc.Confirmed.AmountAtomic)
	require.EqualValues(t, 2, usdc.Confirmed.Count)
	require.EqualValues(t, 1, usdc.Refunded.Count)
	require.Equal(t, "5.00", *usdc.Refunded.AmountUSDDecimal)
	require.Nil(t, row(t, s, "transfer").LagSeconds, "an operator's entries have no lag")

	test, removed := s.Rails[len(s.Rails)-2], s.Rails[len(s.Rails)-1]
	require.True(t, test.Testnet)
	require.Equal(t, "7.00", *test.Confirmed.AmountUSDDecimal)
	require.Equal(t, "usdc-10", removed.Rail)
	require.Equal(t, StateRemoved, removed.State)
	require.Equal(t, offer.USD(46_00), s.ReceivedUSD, "a removed rail's money stays")
}

func TestPercentLimits(t *testing.T) {
	for external, want := range map[offer.USD]int{0: 0, 21_00: 50, 42_00: 100, 99_00: 100, -5_00: 0} {
		require.Equal(t, want, Summary{GoalUSD: 42_00, ExternalUSD: external}.Percent())
	}
}

// An entry by hand, or what came before its source was lost, counts: the rail
// shows it as the least that arrived.
func TestBlindRailShowsKnownMoney(t *testing.T) {
	w := newWorld(t)
	w.healthOf("card").Blind = true
	s := Summarize(w.offer, []ledger.Total{
		confirmed("card", ledger.LevelManual, 84_00), confirmed("transfer", ledger.LevelManual, 42_00), confirmed("pack", ledger.LevelManual, 1_00),
		with(confirmed("card", ledger.LevelManual, 3_00), func(t *ledger.Total) { t.Own = true }),
	}, slices.DeleteFunc(slices.Clone(w.health), func(h source.Health) bool { return h.Rail == "pack" }), at)
	require.Equal(t, offer.USD(130_00), s.ReceivedUSD)
	require.EqualValues(t, 4, s.Payments)
	require.EqualValues(t, 3, s.ExternalPayments)
	card, pack := row(t, s, "card"), row(t, s, "pack")
	require.Equal(t, StateUnknown, card.State)
	require.True(t, card.AtLeast)
	require.Equal(t, "87.00", *card.Confirmed.AmountUSDDecimal)
	require.Equal(t, "87.00", *card.ReceivedDecimal)
	require.Equal(t, "84.00", *card.ExternalDecimal)
	require.Nil(t, card.Seen)
	require.Nil(t, card.Refunded)
	require.Equal(t, "1.00", *pack.ReceivedDecimal)
	require.True(t, *s.GoalMet, "what is known is enough")

	s = Summarize(w.offer, []ledger.Total{with(confirmed("card", ledger.LevelManual, 3_00), func(t *ledger.Total) { t.Own = true })}, w.health, at)
	require.Nil(t, row(t, s, "card").ExternalUSD)
	require.Nil(t, s.GoalMet, "nobody can know")
	require.Equal(t, offer.USD(42_00), s.RemainingUSD)
	w.healthOf("card").Blind, w.healthOf("card").Partial = false, true
	require.False(t, *Summarize(w.offer, nil, w.health, at).GoalMet)
}

// Cents and yen are never added up, and a payment of unknown value takes
// nothing from what is known.
func TestSumPerCurrency(t *testing.T) {
	w := newWorld(t)
	in := func(currency string, status ledger.Status, amount, cents, unknown int64) ledger.Total {
		return with(confirmed("card", ledger.LevelSigned, cents), func(t *ledger.Total) {
			t.Currency, t.Status, t.Amount, t.UnknownUSD = currency, status, amount, unknown
		})
	}
	totals := []ledger.Total{
		in("", ledger.StatusConfirmed, 42_00, 42_00, 0), in("JPY", ledger.StatusConfirmed, 6_500, 0, 1),
		in("EUR", ledger.StatusConfirmed, 39_00, 45_00, 0), // as the operator states it
		in("JPY", ledger.StatusSeen, 100, 0, 1),
	}
	s := Summarize(w.offer, totals, w.health, at)
	card := row(t, s, "card")
	require.Equal(t, offer.USD(87_00), s.ReceivedUSD)
	require.Equal(t, StatusPartial, s.Status)
	require.True(t, card.AtLeast)
	require.Equal(t, StatusObserved, card.State)
	held := card.Confirmed
	require.EqualValues(t, 3, held.Count)
	require.Equal(t, "4200", held.AmountAtomic)
	require.Equal(t, "87.00", *held.AmountUSDDecimal)
	require.EqualValues(t, 1, held.UnknownUSD)
	require.Equal(t, []CurrencyTally{
		{"EUR", Money{1, "3900", NewDollars(cents(45_00)), 0}}, {"JPY", Money{1, "6500", Dollars{}, 1}},
	}, held.Currencies)
	require.Equal(t, []CurrencyTally{{"JPY", Money{1, "100", Dollars{}, 1}}}, card.Seen.Currencies)
	require.Nil(t, card.Seen.AmountUSD)

	totals[1] = in("JPY", ledger.StatusConfirmed, 6_500, 43_00, 0)
	s = Summarize(w.offer, totals, w.health, at)
	require.Equal(t, StatusObserved, s.Status, "what is not sure yet may be of unknown value")
	require.Equal(t, "130.00", *row(t, s, "card").Confirmed.AmountUSDDecimal)
}

// A claim of a facilitator is never a payment received. Only a demo, which has no chain, counts it as a test.
func TestTestPaymentsAreSeparateFromReceived(t *testing.T) {
	o := testOffer(t)
	card := with(confirmed("card", ledger.LevelSigned, 42_00), func(t *ledger.Total) { t.Testnet = true })
	claim := with(confirmed("usdc", ledger.EvidenceFacilitator, 42_00), func(t *ledger.Total) { t.Testnet, t.Status = true, ledger.StatusClaimed })
	chain := with(confirmed("usdc", ledger.LevelChain, 42_00), func(t *ledger.Total) { t.Testnet = true })
	real := confirmed("card", ledger.LevelSigned, 42_00)
	for name, tc := range map[string]struct {
		demo     bool
		totals   []ledger.Total
		count    int64
		sum      offer.USD
		received offer.USD
	}{
		"a claim":               {totals: []ledger.Total{card, claim}, count: 1, sum: 42_00},
		"a claim in a demo":     {demo: true, totals: []ledger.Total{card, claim}, count: 2, sum: 84_00},
		"a test network counts": {totals: []ledger.Total{chain}, received: 42_00},
		"beside real money":     {totals: []ledger.Total{chain, card, real}, count: 2, sum: 84_00, received: 42_00},
	} {
		o.Demo = tc.demo
		s := Summarize(o, tc.totals, nil, at)
		require.Equal(t, Test{tc.count, tc.sum, tc.sum.Decimal()}, s.Test, name)
		require.Equal(t, tc.received, s.ReceivedUSD, name)
	}
}

func TestUnmonitoredRails(t *testing.T) {
	w := newWorld(t)
	w.healthOf("usdc").Partial, w.healthOf("btc").Blind = true, true
	s := Summarize(w.offer, []ledger.Total{confirmed("gone", ledger.LevelSigned, 1)}, w.health, at)
	var want []string
	for _, rail := range w.offer.Rails {
		if rail.Name() == "btc" || rail.Source() == offer.SourceSeller {
			want = append(want, rail.Name())
		}
	}
	require.Equal(t, want, s.Unmonitored())
	require.False(t, s.GoalSet)
}
