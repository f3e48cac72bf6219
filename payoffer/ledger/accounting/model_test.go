package accounting_test

import (
	"encoding/json"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/accounting"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/cases"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/sightings"
)

func TestMergeAgreesWithTheReferenceModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(42, 1))
	for range cases.Count(t) {
		history := sightings.RandomHistory(rng, "0xa")
		for n := range history {
			require.Equal(t, sightings.Reference(history[:n+1]), sightings.FactsOf(sightings.Fold(history[:n+1])), "history %+v", history[:n+1])
		}
	}
}

func TestMergeWithoutAChainIsOrderFree(t *testing.T) {
	rng := rand.New(rand.NewPCG(42, 2))
	for range cases.Count(t) {
		var history []accounting.Sighting
		for len(history) < 5 {
			if s := sightings.RandomSighting(rng, "0xa"); s.EvidenceLevel != accounting.LevelChain {
				if s.Stated != nil {
					s.Stated, s.Addendum = nil, false // nobody states the value of what is not known
				}
				s.Evidence = json.RawMessage([]string{`{}`, `{"a":1}`, ``}[rng.IntN(3)])
				history = append(history, s)
			}
		}
		want := sightings.Fold(history)
		rng.Shuffle(len(history), func(i, j int) { history[i], history[j] = history[j], history[i] })
		require.Equal(t, want, sightings.Fold(append(history, history[rng.IntN(5)])))
	}
}
