package accounting_test

import (
	"encoding/json"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/accounting"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/cases"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/observations"
)

func TestMergeAgreesWithTheReferenceModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(42, 1))
	for range cases.Count(t) {
		history := observations.RandomHistory(rng, "0xa")
		for n := range history {
			require.Equal(t, observations.Reference(history[:n+1]), observations.FactsOf(observations.Fold(history[:n+1])), "history %+v", history[:n+1])
		}
	}
}

func TestMergeWithoutAChainIsOrderFree(t *testing.T) {
	rng := rand.New(rand.NewPCG(42, 2))
	for range cases.Count(t) {
		var history []accounting.Observation
		for len(history) < 5 {
			if s := observations.RandomObservation(rng, "0xa"); s.EvidenceLevel != accounting.LevelChain {
				if s.Stated != nil {
					s.Stated, s.Addendum = nil, false // nobody states the value of what is not known
				}
				s.Evidence = json.RawMessage([]string{`{}`, `{"a":1}`, ``}[rng.IntN(3)])
				history = append(history, s)
			}
		}
		want := observations.Fold(history)
		rng.Shuffle(len(history), func(i, j int) { history[i], history[j] = history[j], history[i] })
		require.Equal(t, want, observations.Fold(append(history, history[rng.IntN(5)])))
	}
}
