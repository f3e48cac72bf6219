package ledger

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// fold merges sightings in order, as Record does.
func fold(sightings []Sighting) (r Receipt) {
	for _, s := range sightings {
		r = merge(r, s)
		r.Version = 1
	}
	return r
}

// cardLife is what a card payment may bring in any order: two webhooks, a
// partial and a full refund, a dispute that is won, and the provider's list.
func cardLife() []Sighting {
	pending, paid := cardSighting("pi_1", StatusSeen), cardSighting("pi_1", StatusConfirmed)
	half, full := paid, paid
	half.Refunded, full.Refunded = 2_100, 4_200
	// A refund may name its payment without knowing it.
	half.State, half.Amount, half.USDCents = StatusSeen, 0, nil
	disputed, won := paid, paid
	disputed.Reversed, disputed.ReversedAt = true, 1_000
	won.Reversed, won.ReversedAt = false, 2_000
	listed := paid
	listed.EvidenceLevel, listed.Evidence = LevelProvider, json.RawMessage(`{"list":1}`)
	return []Sighting{pending, paid, half, full, disputed, won, listed}
}

func TestEveryOrderOfACardLifeEndsTheSame(t *testing.T) {
	life := cardLife()
	want := fold(life)
	require.Equal(t, StatusRefunded, want.Status)
	require.EqualValues(t, 4_200, want.RefundedCents)
	count := 0
	permute(life, func(order []Sighting) {
		count++
		require.Equal(t, want, fold(order))
		require.Equal(t, want, fold(append(order[:7:7], order[0], order[3])), "duplicates change nothing")
	})
	require.Equal(t, 5_040, count)
}

// permute calls f with every order of s (Heap's algorithm).
func permute(s []Sighting, f func([]Sighting)) {
	var heap func(int)
	heap = func(n int) {
		if n == 1 {
			f(slices.Clone(s))
			return
		}
		for i := range n {
			heap(n - 1)
			if n%2 == 0 {
				s[i], s[n-1] = s[n-1], s[i]
			} else {
				s[0], s[n-1] = s[n-1], s[0]
			}
		}
	}
	heap(len(s))
}

func TestStatusFollowsTheFacts(t *testing.T) {
	life := cardLife()
	pending, paid, half, full, disputed, won := life[0], life[1], life[2], life[3], life[4], life[5]
	failed := cardSighting("pi_1", StatusDropped)
	for name, c := range map[string]struct {
		life []Sighting
		want Status
	}{
		"pending":                        {[]Sighting{pending}, StatusSeen},
		"failed":                         {[]Sighting{pending, failed}, StatusDropped},
		"paid after a failure":           {[]Sighting{paid, failed}, StatusConfirmed},
		"refunded in part":               {[]Sighting{paid, half}, StatusConfirmed},
		"a refund of an unknown payment": {[]Sighting{half}, StatusSeen},
		"refunded":                       {[]Sighting{paid, full}, StatusRefunded},
		"disputed":                       {[]Sighting{paid, disputed}, StatusReversed},
		"dispute won":                    {[]Sighting{disputed, won}, StatusConfirmed},
		"dispute lost after a refund":    {[]Sighting{full, disputed}, StatusReversed},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, fold(c.life).Status) })
	}
}

func TestLessTrustedWordsMoveNothing(t *testing.T) {
	ping := cardSighting("sale", StatusConfirmed)
	ping.EvidenceLevel, ping.Amount, ping.Refunded, ping.Reversed, ping.ReversedAt = LevelAsserted, 9_999, 9_999, true, 5_000
	read := cardSighting("sale", StatusSeen)
	read.EvidenceLevel = LevelProvider
	for _, order := range [][]Sighting{{ping, read}, {read, ping}} {
		r := fold(order)
		require.Equal(t, StatusSeen, r.Status)
		require.EqualValues(t, 4_200, r.Amount)
		require.Equal(t, LevelProvider, r.EvidenceLevel)
		require.Zero(t, r.Refunded)
	}
	manual := chainSighting("0xa", StatusConfirmed)
	manual.EvidenceLevel = LevelManual
	require.Equal(t, StatusSeen, fold([]Sighting{chainSighting("0xa", StatusSeen), manual}).Status)
}

func TestViaAndOwnAreOnlyAdded(t *testing.T) {
	labelled, plain := chainSighting("0xa", StatusSeen), chainSighting("0xa", StatusConfirmed)
	labelled.Via, labelled.Own = "x402", true
	for _, order := range [][]Sighting{{labelled, plain}, {plain, labelled}} {
		r := fold(order)
		require.Equal(t, "x402", r.Via)
		require.True(t, r.Own)
	}
}

func TestFirstKnownValueOfAnAmountStays(t *testing.T) {
	unknown := chainSighting("0xa", StatusSeen)
	unknown.USDCents = nil
	first, later := chainSighting("0xa", StatusConfirmed), chainSighting("0xa", StatusConfirmed)
	first.USDCents, later.USDCents, later.Final = ptr(int64(4_100)), ptr(int64(3_900)), true
	require.Equal(t, ptr(int64(4_100)), fold([]Sighting{unknown, first, later}).USDCents)
	other := later
	other.Amount--
	require.Equal(t, ptr(int64(3_900)), fold([]Sighting{first, other}).USDCents)
	final := unknown
	final.Final = true
	require.Equal(t, ptr(int64(4_100)), fold([]Sighting{final, first}).USDCents, "known after it became final")
}

func TestRefundedCentsNeverOverflow(t *testing.T) {
	s := cardSighting("pi_1", StatusConfirmed)
	s.Amount, s.Refunded, s.USDCents = math.MaxInt64, math.MaxInt64, ptr(int64(math.MaxInt64))
	require.EqualValues(t, math.MaxInt64, fold([]Sighting{s}).RefundedCents)
	s.Amount = 3
	s.Refunded, s.USDCents = 1, ptr(int64(100))
	require.EqualValues(t, 33, fold([]Sighting{s}).RefundedCents)
}

// facts is what the reference model computes.
type facts struct {
	status           Status
	level            EvidenceLevel
	amount, refunded int64
	usd              *int64
	final            bool
}

// reference looks at the whole history at once, where merge goes step by step.
func reference(history []Sighting) (f facts) {
	proven := func(s Sighting) bool { return s.EvidenceLevel != LevelAsserted }
	on := func(levels ...EvidenceLevel) (told []Sighting) {
		for _, s := range history {
			if slices.Contains(levels, s.EvidenceLevel) {
				told = append(told, s)
			}
		}
		return told
	}
	var state Status
	if told := on(LevelChain); len(told) > 0 {
		last := slices.IndexFunc(told, func(s Sighting) bool { return s.Final })
		if last < 0 {
			last = len(told) - 1
		}
		state, f.level, f.amount, f.final = told[last].State, LevelChain, told[last].Amount, told[last].Final
		run := last
		for run > 0 && told[run-1].Amount == f.amount {
			run--
		}
		for _, s := range told[run:] {
			if f.usd == nil && s.Amount == f.amount {
				f.usd = s.USDCents
			}
		}
	} else {
		if told = on(LevelSigned, LevelProvider, LevelManual); len(told) == 0 {
			told = on(LevelAsserted)
		}
		for _, want := range []Status{StatusSeen, StatusDropped, StatusConfirmed} {
			for _, level := range []EvidenceLevel{LevelAsserted, LevelSigned, LevelProvider, LevelManual} {
				if slices.ContainsFunc(told, func(s Sighting) bool { return s.State == want && s.EvidenceLevel == level }) {
					state, f.level = want, level
				}
			}
		}
		for _, s := range told {
			f.amount, f.final = max(f.amount, s.Amount), f.final || s.Final
			if s.USDCents != nil && (f.usd == nil || *s.USDCents > *f.usd) {
				f.usd = s.USDCents
			}
		}
	}
	var latest int64
	var reversed bool
	for _, s := range history {
		if !proven(s) {
			continue
		}
		f.refunded = max(f.refunded, s.Refunded)
		if s.ReversedAt > latest {
			latest, reversed = s.ReversedAt, s.Reversed
		} else if s.ReversedAt == latest && latest > 0 {
			reversed = reversed || s.Reversed
		}
	}
	f.status = state
	if state != StatusDropped && reversed {
		f.status = StatusReversed
	} else if state != StatusDropped && f.amount > 0 && f.refunded >= f.amount {
		f.status = StatusRefunded
	}
	return f
}

// randomSighting draws from few values, so that they meet.
func randomSighting(rng *rand.Rand, id string) Sighting {
	pick := func(n int) bool { return rng.IntN(n) == 0 }
	s := chainSighting(id, []Status{StatusSeen, StatusConfirmed, StatusDropped}[rng.IntN(3)])
	s.EvidenceLevel = []EvidenceLevel{LevelAsserted, LevelSigned, LevelProvider, LevelManual, LevelChain, LevelChain}[rng.IntN(6)]
	s.Amount, s.Final, s.Own = []int64{0, 100, 200}[rng.IntN(3)], pick(12), pick(20)
	if s.USDCents = nil; !pick(3) {
		s.USDCents = ptr(int64(rng.IntN(3) * 50))
	}
	if pick(3) {
		s.Refunded = []int64{50, 100, 300}[rng.IntN(3)]
	}
	if pick(3) {
		s.Reversed, s.ReversedAt = pick(2), int64(rng.IntN(4))
	}
	return s
}

func TestMergeAgreesWithTheReferenceModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(42, 1))
	for range 20_000 {
		var history []Sighting
		for range 1 + rng.IntN(9) {
			history = append(history, randomSighting(rng, "0xa"))
			r := fold(history)
			got := facts{r.Status, r.EvidenceLevel, r.Amount, r.Refunded, r.USDCents, r.Final}
			require.Equal(t, reference(history), got, "history %+v", history)
		}
	}
}

func TestMergeWithoutAChainIsOrderFree(t *testing.T) {
	rng := rand.New(rand.NewPCG(42, 2))
	for range 20_000 {
		var history []Sighting
		for len(history) < 5 {
			if s := randomSighting(rng, "0xa"); s.EvidenceLevel != LevelChain {
				s.Evidence = json.RawMessage([]string{`{}`, `{"a":1}`, ``}[rng.IntN(3)])
				history = append(history, s)
			}
		}
		want := fold(history)
		rng.Shuffle(len(history), func(i, j int) { history[i], history[j] = history[j], history[i] })
		require.Equal(t, want, fold(append(history, history[rng.IntN(5)])))
	}
}
