package transfers

import (
	"fmt"
	"os"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
)

const (
	// deepest is the depth of the deepest reorganization.
	deepest = 64
	// chains is how many chains share the depths: a chain that has become long is slow to read whole.
	chains = 4
)

// depths are those for one of the chains: a spread, or with FULL=1 all.
func depths(chain int) (list []int) {
	for depth := 1 + chain; depth <= deepest; depth += chains {
		list = append(list, depth)
	}
	if os.Getenv("FULL") != "1" {
		return []int{list[0], list[[]int{7, 15}[chain%2]]}
	}
	return list
}

// A payment may leave the chain, move to another block, or get another place in its block. The receipts follow, and no
// receipt ever counts that the chain does not show.
func TestReceiptsFollowTheChainThroughReorganizations(t *testing.T) {
	t.Parallel()
	for name, reorganize := range map[string]func(s *till, depth int, payment common.Hash){
		"the payment disappears": func(s *till, depth int, payment common.Hash) {
			s.chain.Reorganize(s, depth)
			s.settle()
			require.Equal(s, ledger.StatusDropped, s.receipt(payment).Status)
		},
		"the payment moves": func(s *till, depth int, payment common.Hash) {
			before := s.receipt(payment)
			s.chain.Move(s, depth)
			s.settle()
			after := s.receipt(payment)
			require.Equal(s, before.ExternalID, after.ExternalID)
			require.Equal(s, before.Version, after.Version, "nobody is told of a payment twice")
			require.NotEqual(s, string(before.Evidence), string(after.Evidence))
		},
		"the payment is re-indexed": func(s *till, depth int, payment common.Hash) {
			before := s.receipt(payment)
			s.chain.Rewind(s, depth)
			s.chain.Pay(s, s.payee, 1_000_000)
			s.chain.Mine(s, depth+1)
			s.settle()
			after := s.receipt(payment)
			require.Equal(s, before.ExternalID, after.ExternalID)
			require.Contains(s, string(before.Evidence), `"logIndex":1`)
			require.Contains(s, string(after.Evidence), `"logIndex":2`)
		},
	} {
		for part := range 2 * chains {
			endpoints := 2 - part/chains
			t.Run(fmt.Sprintf("%s, %d endpoints, %d", name, endpoints, part%chains), func(t *testing.T) {
				t.Parallel()
				s := openTill(t, endpoints)
				for _, depth := range depths(part % chains) {
					for _, p := range s.rpc {
						p.finalAt(s.chain.Head()) // the simulated chain finalizes every 32 blocks
					}
					require.NoError(t, s.round())
					payment := s.pay()
					require.NoError(t, s.round())
					s.chain.Mine(t, depth-1)
					require.NoError(t, s.round())
					s.requireRight()
					reorganize(s, depth, payment)
					s.requireObserved()
				}
			})
		}
	}
}
