package ledger

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/cases"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/observations"
)

// TestRandomHistoriesAgreeWithTheReferenceModel lets histories of many
// payments happen at once, and compares what the ledger made of each with what
// a look at the whole of it says.
func TestRandomHistoriesAgreeWithTheReferenceModel(t *testing.T) {
	t.Parallel()
	const perLedger, perBatch = 10_000, 500
	total := cases.Of(500, 100_000, 1_000_000)
	for n := 0; n < total; n += perLedger {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			l, _ := sqliteTests.ledger(t)
			_, err := l.db.write.Exec("PRAGMA synchronous = OFF") // nothing is killed here
			require.NoError(t, err)
			rng := rand.New(rand.NewPCG(uint64(n), 6))
			for first := n; first < min(n+perLedger, total); first += perBatch {
				happen(t, l, rng, first, min(perBatch, total-first))
			}
			requireConsistent(t, l)
			require.NoError(t, l.Close())
		})
	}
}

// happen records histories that are shuffled into each other.
func happen(t *testing.T, l *Ledger, rng *rand.Rand, first, count int) {
	t.Helper()
	all := make([][]Observation, count)
	var turns []int
	for i := range all {
		all[i] = observations.RandomHistory(rng, fmt.Sprint(first+i))
		for range all[i] {
			turns = append(turns, i)
		}
	}
	rng.Shuffle(len(turns), func(i, j int) { turns[i], turns[j] = turns[j], turns[i] })
	told := make([]int, count)
	for len(turns) > 0 {
		var batch []Observation
		part := min(len(turns), 1+rng.IntN(500))
		for _, i := range turns[:part] {
			batch = append(batch, all[i][told[i]])
			told[i]++
		}
		turns = turns[part:]
		must(l.Record(t.Context(), nil, batch...))(t)
	}

	rows := must(l.Receipts(t.Context(), testOffer, 0, count))(t)
	got := make(map[string]observations.Facts, len(rows))
	for _, r := range rows {
		got[r.ExternalID] = observations.FactsOf(r)
	}
	for i, history := range all {
		want := observations.Reference(history)
		require.Equal(t, want, got[chainObservation(fmt.Sprint(first+i), StatusSeen).ExternalID], "%+v", history)
	}
}
