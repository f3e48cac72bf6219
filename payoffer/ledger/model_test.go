package ledger

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// facts is what the reference model computes.
type facts struct {
	status           Status
	level            EvidenceLevel
	amount, refunded int64
	usd              *int64
	final            bool
	revision         int64
}

func factsOf(r Receipt) facts {
	return facts{r.Status, r.EvidenceLevel, r.Amount, r.Refunded, r.USDCents, r.Final, r.Revision}
}

// reference looks at the whole history at once, where merge goes step by step.
func reference(history []Sighting) (f facts) {
	payments := slices.DeleteFunc(slices.Clone(history), func(s Sighting) bool { return s.Addendum })
	if len(payments) == 0 {
		return f
	}
	on := func(levels ...EvidenceLevel) (told []Sighting) {
		for _, s := range payments {
			if slices.Contains(levels, s.EvidenceLevel) {
				told = append(told, s)
			}
		}
		return told
	}
	var state Status
	if told := on(LevelChain); len(told) > 0 {
		state = f.ofChain(told)
	} else {
		if told = on(LevelSigned, LevelProvider, LevelManual); len(told) == 0 {
			told = on(LevelAsserted)
		}
		state = f.ofOthers(told)
	}
	refunded, reversed := referenceReturns(history, f.level != LevelAsserted)
	if f.refunded = refunded; f.amount > 0 && refunded > f.amount {
		f.refunded = f.amount
	}
	f.status = state
	if state != StatusDropped && reversed {
		f.status = StatusReversed
	} else if state != StatusDropped && f.amount > 0 && refunded >= f.amount {
		f.status = StatusRefunded
	}
	return f
}

// ofChain takes the first final word, or else the last.
func (f *facts) ofChain(told []Sighting) Status {
	last := slices.IndexFunc(told, func(s Sighting) bool { return s.Final })
	if last < 0 {
		last = len(told) - 1
	}
	f.level, f.amount, f.final = LevelChain, told[last].Amount, told[last].Final
	run := last
	for run > 0 && told[run-1].Amount == f.amount {
		run--
	}
	for _, s := range told[run:] {
		if f.usd == nil && s.Amount == f.amount {
			f.usd = s.USDCents
		}
	}
	return told[last].State
}

// ofOthers takes the most that those of the highest revision say.
func (f *facts) ofOthers(told []Sighting) (state Status) {
	for _, s := range told {
		f.revision = max(f.revision, s.Revision)
	}
	told = slices.DeleteFunc(slices.Clone(told), func(s Sighting) bool { return s.Revision < f.revision })
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
	return state
}

// referenceReturns asks of each word on a return whether a later one undoes it.
func referenceReturns(history []Sighting, proven bool) (refunded int64, reversed bool) {
	type said struct {
		Return
		proven bool
	}
	var all []said
	for _, s := range history {
		for _, r := range s.Returns {
			if s.EvidenceLevel != LevelAsserted || !proven {
				all = append(all, said{r, s.EvidenceLevel != LevelAsserted})
			}
		}
	}
	later := func(a, b said) bool {
		switch {
		case a.proven != b.proven:
			return a.proven
		case a.At != b.At:
			return a.At > b.At
		case a.Rank != b.Rank:
			return a.Rank > b.Rank
		case a.Gone != b.Gone:
			return a.Gone
		case a.Amount != b.Amount:
			return a.Amount > b.Amount
		default:
			return a.Kind > b.Kind
		}
	}
	held := map[string]Return{}
	var total *said
	var kept int64
	for _, a := range all {
		if slices.ContainsFunc(all, func(b said) bool { return a.ID == b.ID && later(b, a) }) {
			continue
		}
		held[a.ID] = a.Return
		if a.Kind == ReturnTotal && a.Gone && (total == nil || later(a, *total)) {
			total = &a
		}
	}
	for _, r := range held {
		reversed = reversed || r.Kind == ReturnReversal && r.Gone
		if r.Kind == ReturnRefund && r.Gone {
			refunded += r.Amount
		}
		if r.Kind == ReturnRefund && !r.Gone {
			kept += r.Amount
		}
	}
	if total != nil && total.Amount > kept+refunded {
		refunded = total.Amount - kept
	}
	return refunded, reversed
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
	if s.EvidenceLevel == LevelManual {
		s.Revision = rng.Int64N(3)
	}
	for pick(3) {
		s.Returns = append(s.Returns, Return{
			ID:     []string{"re_1", "re_2", "ch_1", "dp_1"}[rng.IntN(4)],
			Kind:   []ReturnKind{ReturnRefund, ReturnRefund, ReturnTotal, ReturnReversal}[rng.IntN(4)],
			Amount: []int64{0, 50, 100, 300}[rng.IntN(4)], Gone: !pick(3), At: rng.Int64N(3), Rank: rng.IntN(2),
		})
	}
	s.Addendum = len(s.Returns) > 0 && pick(2)
	return s
}

// randomHistory is up to nine sightings of one payment, some of them twice.
func randomHistory(rng *rand.Rand, id string) (history []Sighting) {
	for range 1 + rng.IntN(9) {
		if len(history) > 0 && rng.IntN(6) == 0 {
			history = append(history, history[rng.IntN(len(history))])
			continue
		}
		history = append(history, randomSighting(rng, id))
	}
	return history
}

func TestMergeAgreesWithTheReferenceModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(42, 1))
	for range 20_000 {
		history := randomHistory(rng, "0xa")
		for n := range history {
			require.Equal(t, reference(history[:n+1]), factsOf(fold(history[:n+1])), "history %+v", history[:n+1])
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
