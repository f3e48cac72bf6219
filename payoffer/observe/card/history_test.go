package card

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/cases"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/observations"
)

// batch is how many observations a test commits at once: few enough for the time
// that the ledger gives a transaction, also under the race detector.
const batch = 250

// recorder commits observations in batches.
type recorder struct {
	t    testing.TB
	db   *ledger.Ledger
	held []ledger.Observation
}

// take commits a life as that of the payment intent.
func (r *recorder) take(life []ledger.Observation, intent string) {
	for _, s := range life {
		s.ExternalID = intent
		if r.held = append(r.held, s); len(r.held) >= batch {
			r.flush()
		}
	}
}

func (r *recorder) flush() {
	refused, err := observe.Record(r.t.Context(), r.db, nil, r.held...)
	require.NoError(r.t, err)
	require.Empty(r.t, refused)
	r.held = r.held[:0]
}

// read is what the observer makes of events as webhooks bring them.
func read(t testing.TB, events [][]byte) (life []ledger.Observation) {
	t.Helper()
	for _, body := range events {
		s, err := testScope().event(body, fromWebhook)
		if err != nil {
			requireIgnored(t, err)
			continue
		}
		require.NoError(t, s.Validate())
		life = append(life, s)
	}
	return life
}

func requireIgnored(t testing.TB, err error) {
	t.Helper()
	var none *unusableError
	require.ErrorAs(t, err, &none)
	require.Equal(t, observe.Ignored, none.verdict)
}

// TestRandomHistoriesMatchModel lets a processor do what processors do,
// shuffles and repeats what it tells, and compares what is made of it with what
// was done; some of the histories go through a ledger too.
func TestRandomHistoriesMatchModel(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(4, 2))
	seen := map[ledger.Status]int{}
	r := recorder{t: t, db: tempLedger(t)}
	recorded := map[string]outcome{}
	for n := range cases.Count(t) {
		events, want := randomHistory(rng)
		for range rng.IntN(4) {
			events = append(events, events[rng.IntN(len(events))])
		}
		rng.Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
		life := read(t, events)
		end := observations.Fold(life)
		require.Equal(t, want, outcome{end.Status, end.Amount, end.Refunded}, "%+v", life)
		seen[want.Status]++
		if n%20 == 0 {
			intent := fmt.Sprintf("pi_%d", n)
			r.take(life, intent)
			recorded[intent] = want
		}
	}
	r.flush()
	requireOutcomes(t, recorded, outcomes(t, r.db))
	require.Len(t, seen, 5, "the histories are too quiet: %v", seen)
	t.Logf("they ended %v", seen)
}

// requireOutcomes compares without printing thousands of them.
func requireOutcomes(t testing.TB, want, got map[string]outcome) {
	t.Helper()
	require.Equal(t, len(want), len(got))
	for intent, end := range want {
		require.Equal(t, end, got[intent], intent)
	}
}

// model is what was done to one payment, told by nobody.
type model struct {
	amount           int64
	paid, failed     bool
	refunds, pending map[string]int64 // what arrived at the payer, and what may
	left             int64            // what may still be refunded
	dispute          string
	taken            bool  // by the dispute
	disputed         int64 // what it is about
	authorised       bool  // and not captured yet
}

// end is what the receipt must come to.
func (m *model) end() outcome {
	var refunded int64
	for _, amount := range m.refunds {
		refunded += amount
	}
	o := outcome{ledger.StatusSeen, m.amount, refunded}
	switch {
	case m.failed:
		o.Status = ledger.StatusDropped
	case m.taken && refunded+m.disputed >= m.amount:
		o.Status = ledger.StatusReversed
	case m.taken:
		o.Status, o.Refunded = ledger.StatusConfirmed, refunded+m.disputed
	case refunded == m.amount:
		o.Status = ledger.StatusRefunded
	case m.paid:
		o.Status = ledger.StatusConfirmed
	}
	return o
}

// randomHistory is what a processor tells of one payment, and what became of
// it.
func randomHistory(rng *rand.Rand) (events [][]byte, end outcome) {
	clock := newClock()
	processor := payoffertest.NewProcessor(testKey, clock.Now)
	m := model{amount: 1 + rng.Int64N(9000), refunds: map[string]int64{}, pending: map[string]int64{}}
	m.left = m.amount
	intent := ""
	switch rng.IntN(4) {
	case 0:
		m.authorised = true
		intent = processor.Authorise(testLink, m.amount)
	case 1:
		intent = processor.Pay(testLink, m.amount, true)
	default:
		m.paid = true
		intent = processor.Pay(testLink, m.amount, false)
	}
	for range rng.IntN(9) {
		clock.Pass(time.Duration(rng.IntN(3)) * time.Second)
		m.step(rng, processor, intent)
	}
	return processor.Events(), m.end()
}

// step does one thing that can be done now.
func (m *model) step(rng *rand.Rand, processor *payoffertest.Processor, intent string) {
	switch {
	case m.failed:
	case m.authorised:
		m.authorised, m.paid = false, true
		captured := 1 + rng.Int64N(m.amount)
		if m.left = captured; captured < m.amount {
			m.refunds["uncaptured"] = m.amount - captured
		}
		processor.Capture(intent, captured)
	case !m.paid && rng.IntN(4) > 0:
		m.paid = true
		processor.Settle(intent)
	case !m.paid:
		m.failed = true
		processor.Fail(intent)
	case m.dispute == "" && rng.IntN(4) == 0:
		m.taken, m.disputed = rng.IntN(3) > 0, m.amount
		if m.taken && rng.IntN(2) == 0 {
			m.disputed = 1 + rng.Int64N(m.amount)
			m.dispute = processor.DisputePart(intent, "usd", m.disputed)
		} else {
			m.dispute = processor.Dispute(intent, !m.taken)
		}
	case m.taken && rng.IntN(2) == 0:
		m.taken = rng.IntN(2) == 0
		processor.CloseDispute(m.dispute, !m.taken)
		if m.taken {
			m.left = 0 // nothing more happens to lost money
		}
	case len(m.pending) > 0 && rng.IntN(2) == 0:
		m.finish(rng, processor)
	case m.left > 0:
		m.refund(rng, processor, intent)
	}
}

func (m *model) refund(rng *rand.Rand, processor *payoffertest.Processor, intent string) {
	amount := 1 + rng.Int64N(m.left)
	if rng.IntN(2) == 0 {
		amount = m.left
	}
	m.left -= amount
	if rng.IntN(2) == 0 {
		m.pending[processor.Refund(intent, amount, "pending")] = amount
	} else {
		m.refunds[processor.Refund(intent, amount, "succeeded")] = amount
	}
}

// finish moves a pending refund on. One that succeeded may still fail.
func (m *model) finish(rng *rand.Rand, processor *payoffertest.Processor) {
	id := slices.Min(slices.Collect(maps.Keys(m.pending)))
	amount := m.pending[id]
	delete(m.pending, id)
	status := []string{"succeeded", "failed", "canceled"}[rng.IntN(3)]
	processor.UpdateRefund(id, status)
	switch {
	case status != "succeeded":
		m.left += amount
	case rng.IntN(3) == 0:
		processor.UpdateRefund(id, "failed")
		m.left += amount
	default:
		m.refunds[id] = amount
	}
}
