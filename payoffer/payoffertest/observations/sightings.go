// Package observations makes what truth sources say of a payment, in lives that
// hold every turn which the books' rules know, and computes in another way than
// they do what must come of it.
package observations

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/accounting"
)

// The offer and the two accounts that are paid to.
const (
	Offer        = "pay.example"
	ChainAccount = "eip155:84532/erc20:0x036cbd53842c5426634e7929541ec2318f3dcf7e/0x1111111111111111111111111111111111111111"
	CardAccount  = "plink_1"
)

// Chain is a USDC transfer of 42 in the transaction tx.
func Chain(tx string, state accounting.Status) accounting.Observation {
	return accounting.Observation{
		Offer: Offer, Account: ChainAccount, Rail: "usdc", ExternalID: "eip155:84532:" + tx + ":0", Transaction: tx,
		Asset: "USDC", Amount: 42_000_000, USDCents: cents(4200), State: state,
		EvidenceLevel: accounting.LevelChain, Evidence: json.RawMessage(`{"block":7}`), Payer: "0xpayer", Testnet: true,
		OccurredAt: 900, Cause: "poll",
	}
}

// Nonce is that of an authorization.
func Nonce(n int) string { return fmt.Sprintf("0x%064x", n) }

// Card is a card payment of 42 USD.
func Card(id string, state accounting.Status) accounting.Observation {
	return accounting.Observation{
		Offer: Offer, Account: CardAccount, Rail: "card", ExternalID: id, Asset: "USD", Amount: 4200,
		USDCents: cents(4200), State: state, EvidenceLevel: accounting.LevelSigned, OccurredAt: 900, Cause: "webhook",
	}
}

// Returned is an addendum to the card payment id.
func Returned(id string, r accounting.Return) accounting.Observation {
	return accounting.Observation{
		Offer: Offer, Account: CardAccount, Rail: "card", ExternalID: id, EvidenceLevel: accounting.LevelSigned,
		Returns: []accounting.Return{r}, Addendum: true, Cause: "webhook",
	}
}

// CardLife is what a card payment may bring in any order: two webhooks, two
// partial refunds of which one failed in between, and their total meanwhile,
// a dispute that is won, and the provider's list with its total.
func CardLife() []accounting.Observation {
	pending, paid := Card("pi_1", accounting.StatusSeen), Card("pi_1", accounting.StatusConfirmed)
	paid.Returns = []accounting.Return{{ID: "ch_1", Kind: accounting.ReturnTotal, Amount: 4_200, Gone: true, At: 9_000}}
	listed := Card("pi_1", accounting.StatusConfirmed)
	listed.EvidenceLevel, listed.Evidence = accounting.LevelProvider, json.RawMessage(`{"list":1}`)
	listed.Returns = []accounting.Return{
		{ID: "re_2", Kind: accounting.ReturnRefund, Amount: 3_000, At: 1_500},
		{ID: "dp_1", Kind: accounting.ReturnReversal, At: 2_000, Rank: 1},
	}
	return []accounting.Observation{
		pending, paid, listed,
		Returned("pi_1", accounting.Return{ID: "re_1", Kind: accounting.ReturnRefund, Amount: 1_200, Gone: true, At: 1_000}),
		Returned("pi_1", accounting.Return{ID: "re_2", Kind: accounting.ReturnRefund, Amount: 3_000, Gone: true, At: 1_400}),
		Returned("pi_1", accounting.Return{ID: "re_2", Kind: accounting.ReturnRefund, Amount: 3_000, Gone: true, At: 1_500, Rank: 1}),
		Returned("pi_1", accounting.Return{ID: "dp_1", Kind: accounting.ReturnReversal, Gone: true, At: 2_000}),
	}
}

// Fold merges observations in their order, as a ledger does.
func Fold(life []accounting.Observation) (r accounting.Receipt) {
	var known accounting.ReturnRecords
	for _, s := range life {
		r, known = accounting.Merge(r, known, s)
		if r.ExternalID != "" {
			r.Version = 1
		}
	}
	return r
}

// Permute calls f with every order of all (Heap's algorithm).
func Permute[T any](all []T, f func([]T)) {
	var heap func(int)
	heap = func(n int) {
		if n <= 1 {
			f(slices.Clone(all))
			return
		}
		for i := range n {
			heap(n - 1)
			if n%2 == 0 {
				all[i], all[n-1] = all[n-1], all[i]
			} else {
				all[0], all[n-1] = all[n-1], all[0]
			}
		}
	}
	heap(len(all))
}

// RandomObservation draws from few values, so that they meet.
func RandomObservation(rng *rand.Rand, id string) accounting.Observation {
	pick := func(n int) bool { return rng.IntN(n) == 0 }
	s := Chain(id, []accounting.Status{accounting.StatusSeen, accounting.StatusConfirmed, accounting.StatusDropped}[rng.IntN(3)])
	s.EvidenceLevel = []accounting.EvidenceLevel{accounting.LevelSigned, accounting.LevelProvider, accounting.LevelManual, accounting.LevelChain, accounting.LevelChain}[rng.IntN(5)]
	s.Amount, s.Final, s.Own = []int64{0, 100, 200}[rng.IntN(3)], pick(12), pick(20)
	if s.USDCents = nil; !pick(3) {
		s.USDCents = cents(rng.Int64N(3) * 50)
		s.ValueBasis = []accounting.ValueBasis{accounting.BasisFace, accounting.BasisQuote, accounting.BasisRate}[rng.IntN(3)]
	}
	if s.EvidenceLevel != accounting.LevelChain {
		s.Asset = []string{"USD", "EUR"}[rng.IntN(2)]
	}
	if s.EvidenceLevel == accounting.LevelChain && pick(8) {
		s.State = accounting.StatusMoved
	}
	if s.EvidenceLevel == accounting.LevelChain && pick(3) {
		s.Nonce = Nonce(rng.IntN(2))
	}
	if s.EvidenceLevel == accounting.LevelManual {
		s.Revision = rng.Int64N(3)
		if pick(3) {
			s.Stated = &accounting.StatedValue{USDCents: rng.Int64N(3) * 70, At: rng.Int64N(3)}
		}
	}
	for pick(3) {
		s.Returns = append(s.Returns, accounting.Return{
			ID:     []string{"re_1", "re_2", "ch_1", "dp_1"}[rng.IntN(4)],
			Kind:   []accounting.ReturnKind{accounting.ReturnRefund, accounting.ReturnRefund, accounting.ReturnTotal, accounting.ReturnReversal}[rng.IntN(4)],
			Amount: []int64{0, 50, 100, 300}[rng.IntN(4)], Gone: !pick(3), At: rng.Int64N(3), Rank: rng.IntN(2),
			Currency: []string{"", "", "USD", "EUR"}[rng.IntN(4)],
		})
	}
	s.Addendum = (len(s.Returns) > 0 || s.Stated != nil) && pick(2)
	s.Own = s.Own && !s.Addendum // only the operator marks a payment, which is known by then
	return s
}

// RandomHistory is up to nine observations of one payment, some of them twice.
func RandomHistory(rng *rand.Rand, id string) (history []accounting.Observation) {
	for range 1 + rng.IntN(9) {
		if len(history) > 0 && rng.IntN(6) == 0 {
			history = append(history, history[rng.IntN(len(history))])
			continue
		}
		history = append(history, RandomObservation(rng, id))
	}
	return history
}

func cents(n int64) *int64 { return &n }
