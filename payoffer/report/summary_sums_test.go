package report

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/accounting"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/source"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/cases"
)

// told is a report as its readers get it.
type told struct {
	Status                     string
	Received                   decimal `json:"receivedUsdDecimal"`
	External                   decimal `json:"externalUsdDecimal"`
	Test                       decimal `json:"testnetUsdDecimal"`
	GoalMet                    *bool
	Payments, ExternalPayments int64
	TestnetMoneyCounts         bool
	Rails                      []toldRail
}

type toldRail struct {
	Rail, State        string
	AtLeast, Testnet   bool
	Received           *decimal `json:"receivedUsdDecimal"`
	External           *decimal `json:"externalUsdDecimal"`
	Confirmed, Seen    *toldSum
	Refunded, Reversed *toldSum
}

type toldSum struct {
	Count, UnknownUSD int64
	AmountAtomic      string
	USD               *decimal `json:"amountUsdDecimal"`
	Currencies        []struct {
		Currency     string
		Count        int64
		AmountAtomic string
	}
}

// decimal is an amount of dollars with two decimals.
type decimal string

// cents of nothing known are none.
func (d *decimal) cents(t *testing.T) int64 {
	if d == nil {
		return 0
	}
	n, err := strconv.ParseInt(strings.Replace(string(*d), ".", "", 1), 10, 64)
	require.NoError(t, err)
	return n
}

// railKey separates the test money of a rail from its real money.
type railKey struct {
	rail    string
	testnet bool
}

func encode(t *testing.T, v any) []byte {
	t.Helper()
	text, err := json.Marshal(v)
	require.NoError(t, err)
	return text
}

// randomTotals are sums in any places, with any part of them refunded or of
// unknown value.
func randomTotals(rng *rand.Rand, rails []string) []ledger.Total {
	totals := make([]ledger.Total, rng.IntN(12))
	for i := range totals {
		pick := func(from ...string) string { return from[rng.IntN(len(from))] }
		t := &totals[i]
		t.Rail, t.Account, t.Currency = pick(rails...), pick("one", "two"), pick("", "", "EUR", "JPY")
		t.Own, t.Testnet = rng.IntN(4) == 0, rng.IntN(3) == 0
		t.Status = ledger.Status(pick("seen", "confirmed", "confirmed", "confirmed", "dropped", "refunded", "reversed", "moved", "claimed", "settling"))
		t.EvidenceLevel = ledger.EvidenceLevel(pick("signed", "provider", "chain", "chain", "manual"))
		t.Count = 1 + rng.Int64N(5)
		t.Amount = t.Count + rng.Int64N(100_00)
		if t.UnknownUSD = max(0, rng.Int64N(t.Count+8)-7); t.UnknownUSD < t.Count {
			t.USDCents = rng.Int64N(60_00)
		}
		switch {
		case t.Status == ledger.StatusRefunded:
			t.Refunded, t.RefundedCents = t.Amount, t.USDCents
		case rng.IntN(3) == 0:
			t.Refunded, t.RefundedCents = rng.Int64N(t.Amount), rng.Int64N(t.USDCents+1)
		}
	}
	return totals
}

// randomHealth leaves some rails out.
func randomHealth(rng *rand.Rand, rails []string) (all []source.Health) {
	for _, rail := range rails {
		if rng.IntN(5) > 0 {
			all = append(all, source.Health{
				Rail: rail, Source: []string{"chain", SourceOperator}[rng.IntN(2)], Blind: rng.IntN(4) == 0, Partial: rng.IntN(4) == 0,
			})
		}
	}
	return all
}

// TestRailSumsEqualTotal reads reports of any sums, of
// rails in any health.
func TestRailSumsEqualTotal(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 4))
	offers := []*world{newWorld(t), newWorld(t)}
	offers[1].offer = testOffer(t)
	for range cases.Of(2_000, 20_000, 200_000) {
		o := offers[rng.IntN(2)].offer
		rails := []string{"usdc", "removed"}
		for _, rail := range o.Rails {
			rails = append(rails, rail.Name())
		}
		totals := randomTotals(rng, rails)
		var s told
		require.NoError(t, json.Unmarshal(encode(t, Summarize(o, totals, randomHealth(rng, rails), at)), &s))

		// What counts, by the words of the definition.
		realMoney := slices.ContainsFunc(totals, func(t ledger.Total) bool { return t.Arrived() && !t.Testnet })
		require.Equal(t, o.Test() && !realMoney, s.TestnetMoneyCounts)
		var received, external, test, payments, others int64
		unknown := map[railKey]int64{}
		for _, sum := range totals {
			if sum.Status != ledger.StatusConfirmed {
				continue
			}
			unknown[railKey{sum.Rail, sum.Testnet}] += sum.UnknownUSD
			kept := sum.USDCents - sum.RefundedCents
			if sum.Testnet && (realMoney || !o.Test() || sum.EvidenceLevel != ledger.LevelChain) {
				test += kept
				continue
			}
			received, payments = received+kept, payments+sum.Count
			if !sum.Own {
				external, others = external+kept, others+sum.Count
			}
		}
		require.Equal(t, []int64{received, external, test, payments, others},
			[]int64{s.Received.cents(t), s.External.cents(t), s.Test.cents(t), s.Payments, s.ExternalPayments})

		// The rows say the same.
		blind, atLeast := false, false
		for _, rail := range s.Rails {
			received, external = received-rail.Received.cents(t), external-rail.External.cents(t)
			isBlind := rail.State == StateUnknown
			blind, atLeast = blind || isBlind, atLeast || rail.AtLeast
			require.Equal(t, isBlind || rail.State == StatusPartial || unknown[railKey{rail.Rail, rail.Testnet}] > 0, rail.AtLeast)
			if held := rail.Confirmed; held != nil {
				require.Equal(t, unknown[railKey{rail.Rail, rail.Testnet}], held.UnknownUSD)
				if !rail.Testnet {
					require.Equal(t, held.USD.cents(t), rail.Received.cents(t))
				} else {
					test -= held.USD.cents(t) - rail.Received.cents(t)
				}
			}
			for _, sum := range []*toldSum{rail.Confirmed, rail.Seen, rail.Refunded, rail.Reversed} {
				require.True(t, isBlind || sum != nil, "what is observed is never unknown")
				require.False(t, isBlind && sum != nil && sum.Count == 0 && sum.AmountAtomic == "0" && len(sum.Currencies) == 0, "nor zero where it is not")
			}
			requireOneCurrency(t, totals, rail)
		}
		require.Equal(t, []int64{0, 0, 0}, []int64{received, external, test})
		require.Equal(t, atLeast, s.Status == StatusPartial)
		valued := !slices.ContainsFunc(slices.Collect(maps.Values(unknown)), func(payments int64) bool { return payments > 0 })
		if met := s.External.cents(t) >= int64(o.Amount); met || !blind && valued {
			require.Equal(t, &met, s.GoalMet)
		} else {
			require.Nil(t, s.GoalMet)
		}
	}
}

// requireOneCurrency requires that no amount holds two.
func requireOneCurrency(t *testing.T, totals []ledger.Total, rail toldRail) {
	t.Helper()
	want := map[string]int64{}
	for _, sum := range totals {
		if sum.Rail == rail.Rail && sum.Testnet == rail.Testnet && sum.Held() {
			want[sum.Currency] += sum.Amount - sum.Refunded
		}
	}
	if rail.Confirmed == nil {
		require.Empty(t, want)
		return
	}
	got := map[string]int64{}
	add := func(currency, amount string) {
		n, err := strconv.ParseInt(amount, 10, 64)
		require.NoError(t, err)
		got[currency] = n
	}
	for _, other := range rail.Confirmed.Currencies {
		add(other.Currency, other.AmountAtomic)
	}
	if _, known := want[""]; known || rail.Confirmed.AmountAtomic != "0" {
		add("", rail.Confirmed.AmountAtomic)
	}
	require.Equal(t, want, got)
}

func TestReceiptRow(t *testing.T) {
	row := ledger.Receipt{
		ID: 7, Rail: "btc", ExternalID: "ab:0", Asset: "BTC", Amount: 70_000, Refunded: 20_000, USDCents: cents(42_50), RefundedCents: 12_14,
		ValueBasis: ledger.BasisQuote, Status: ledger.StatusConfirmed, EvidenceLevel: ledger.LevelChain, Final: true, OccurredAt: at.Unix(), ObservedAt: at.Unix(), Payer: "secret",
	}
	text := encode(t, NewReceipt(row, false))
	require.JSONEq(t, `{"id": "ab:0", "number": 7, "rail": "btc", "status": "confirmed", "evidence": "chain", "counted": true, "final": true,
		"own": false, "testnet": false, "asset": "BTC", "amountAtomic": "70000", "refundedAtomic": "20000", "amountUsd": 42.50, "amountUsdDecimal": "42.50",
		"refundedUsd": 12.14, "refundedUsdDecimal": "12.14", "valueBasis": "quote", "occurredAt": "2026-11-21T13:14:15Z", "recordedAt": "2026-11-21T13:14:15Z"}`, string(text))
	var read Receipt
	require.NoError(t, json.Unmarshal(text, &read))
	require.Equal(t, NewReceipt(row, false), read)
	require.Equal(t, "0.0007 BTC, 0.0002 BTC, 42.50 USD", read.Paid()+", "+read.Refunded()+", "+read.Value())

	refund := NewMovement(row, accounting.Movement{
		Kind: accounting.MovementRefund, At: at.Unix(), Amount: -20_000, USDCents: cents(-12_14), Arrived: true,
		Version: 3, Part: 2, RecordedAt: at.Unix() + 60, Reason: "half of it",
	}, "cd", false)
	var movement Movement
	require.NoError(t, json.Unmarshal(encode(t, refund), &movement))
	require.Equal(t, refund, movement)
	require.Equal(t, []string{
		"2026-11-21T13:14:15Z", "2026-11-21", "UTC", "refund", "btc", "ab:0", "7", "BTC", "-0.0002", "-20000",
		"-12.14", "quote", "confirmed", "chain", "no", "no", "yes", "cd",
		"2026-11-21T13:15:15Z", "7v3p2", "half of it",
	}, movement.Row(at, "UTC"))
	require.Len(t, MovementColumns, len(movement.Row(at, "UTC")))
}

func TestDayOfEntry(t *testing.T) {
	midnight := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC).Unix()
	entry := func(level ledger.EvidenceLevel, evidence string) ledger.Receipt {
		return ledger.Receipt{EvidenceLevel: level, Evidence: json.RawMessage(evidence), OccurredAt: midnight}
	}
	require.Equal(t, "2026-11-20", Day(entry(ledger.LevelManual, `{"day":"2026-11-20"}`)))
	for name, r := range map[string]ledger.Receipt{
		"a moment":         entry(ledger.LevelManual, `{"enteredAt":"2026-11-21T12:00:00Z"}`),
		"no evidence":      entry(ledger.LevelManual, ""),
		"not a day":        entry(ledger.LevelManual, `{"day":"redacted-20"}`),
		"another evidence": entry(ledger.LevelSigned, `{"day":"2026-11-20"}`),
		"a later time":     entry(ledger.LevelManual, `{"day":"2026-11-19"}`),
		"an earlier time":  entry(ledger.LevelManual, `{"day":"2026-11-21"}`),
	} {
		require.Empty(t, Day(r), name)
	}
}

var terms = offer.Terms{ID: "pay.example.org", BaseURL: "https://pay.example.org", Amount: 42_00}

// at is the time of the tests.
var at = time.Date(2026, 11, 21, 13, 14, 15, 0, time.UTC)

func cents(n int64) *int64 { return &n }

// world is an offer with every kind of rail, and the health of each.
type world struct {
	offer  *offer.Offer
	health []source.Health
}

func newWorld(t *testing.T) *world {
	w := &world{offer: payoffertest.Offer(t, terms, "base"), health: []source.Health{
		{Rail: "card", Source: "webhook", At: at.Unix() - 3}, {Rail: "usdc", Source: "chain", ObservedThrough: "block 7", At: at.Unix() - 9},
		{Rail: "btc", Source: "chain", At: at.Unix()}, {Rail: "lightning", Source: "provider", At: at.Unix()}, {Rail: "tip-jar", Source: "webhook"}, {Rail: "pack", Source: "webhook"},
	}}
	for _, rail := range w.offer.Rails {
		if rail.Source() == offer.SourceSeller {
			w.health = append(w.health, source.Health{Rail: rail.Name(), Source: "operator"})
		}
	}
	return w
}

// testOffer has a card, and a chain that is a test network.
func testOffer(t *testing.T) *offer.Offer {
	all := payoffertest.Offer(t, terms, "base-sepolia")
	o, err := offer.New(terms, all.Card, payoffertest.Rail(t, all, "usdc"))
	require.NoError(t, err)
	return o
}

// row is the first row of a rail in a report: its configured accounts.
func row(t *testing.T, s Summary, rail string) Rail {
	t.Helper()
	i := slices.IndexFunc(s.Rails, func(r Rail) bool { return r.Rail == rail })
	require.GreaterOrEqual(t, i, 0, "the report has no rail %q", rail)
	return s.Rails[i]
}

// healthOf is the health of a rail.
func (w *world) healthOf(rail string) *source.Health {
	return &w.health[slices.IndexFunc(w.health, func(h source.Health) bool { return h.Rail == rail })]
}
