package evm

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
)

// deepest is the depth of the deepest reorganization.
const deepest = 64

// evidence is what a receipt says of its place.
type evidence struct {
	Block     uint64      `json:"block"`
	BlockHash common.Hash `json:"blockHash"`
	LogIndex  uint64      `json:"logIndex"`
}

// evidenceOf is where a payment was read last.
func evidenceOf(row ledger.Receipt) (was evidence) {
	_ = json.Unmarshal(row.Evidence, &was)
	return was
}

// A payment may leave the chain, move to another block, get another place in its block, or come back. The receipts
// follow, and no receipt ever counts that the chain does not show.
func TestReceiptsFollowReorganizations(t *testing.T) {
	t.Parallel()
	for name, reorganize := range map[string]func(s *till, depth int, payment *transaction){
		"the payment disappears": func(s *till, depth int, payment *transaction) {
			s.chain.rewind(depth)
			s.chain.mine(depth + 1)
			s.settle()
			s.requireStatus(ledger.StatusDropped, payment)
		},
		"the payment moves": func(s *till, depth int, payment *transaction) {
			before := s.row(payment)
			moved := s.chain.rewind(depth)
			s.chain.mine(depth)
			s.chain.mine(1, moved...)
			s.settle()
			after := s.row(payment)
			require.Equal(s, before.ExternalID, after.ExternalID)
			require.Equal(s, before.Version, after.Version, "nobody is told of a payment twice")
			require.Equal(s, s.chain.head(), evidenceOf(after).Block)
			require.NotEqual(s, before.Evidence, after.Evidence)
		},
		"the payment is re-indexed": func(s *till, depth int, payment *transaction) {
			before := s.row(payment)
			s.chain.rewind(depth)
			s.chain.mine(depth+1, s.chain.transaction(sends(payer, stranger, 1), sends(payer, payTo, 1_000_000)), payment)
			s.settle()
			after := s.row(payment)
			require.Equal(s, before.ExternalID, after.ExternalID)
			require.EqualValues(s, 0, evidenceOf(before).LogIndex)
			require.EqualValues(s, 2, evidenceOf(after).LogIndex)
		},
		"the payment comes back": func(s *till, depth int, payment *transaction) {
			before := s.row(payment)
			s.chain.rewind(depth)
			s.chain.mine(depth)
			s.settle()
			s.requireStatus(ledger.StatusDropped, payment)
			s.chain.mine(1, payment)
			s.settle()
			require.Equal(s, before.Version+2, s.row(payment).Version, "it left, and it came back")
		},
		"the chain becomes shorter": func(s *till, depth int, payment *transaction) {
			moved := s.chain.rewind(depth)
			require.NoError(s, s.Poll(s.Context()))
			s.requireStatus(ledger.StatusConfirmed, payment) // its block was not reached
			s.chain.mine(depth+1, moved...)
			s.settle()
		},
	} {
		for _, endpoints := range []int{1, 2, 3} {
			t.Run(fmt.Sprintf("%s, %d endpoints", name, endpoints), func(t *testing.T) {
				s := openReadBeside(t, endpoints)
				for depth := 1; depth <= deepest; depth = depth*2 + endpoints {
					s.chain.finalize()
					s.round()
					payment := s.paid()
					s.chain.mine(depth - 1)
					s.requireRightAfterRound()
					reorganize(s, depth, payment)
				}
			})
		}
	}
}

// One transaction makes several Transfers: each is a receipt of its own, and keeps its name wherever it goes.
func TestEachBatchTransferIsReceipt(t *testing.T) {
	s := openReadBeside(t, 2)
	batch := s.chain.transaction(
		sends(payer, stranger, price), sends(payer, payTo, price), sends(stranger, payTo, 2*price), sends(payer, payTo, 9_999),
		[]event{{stranger, sends(payer, payTo, price)[0].topics, sends(payer, payTo, price)[0].data}},
		sends(payer, payTo, price),
	)
	s.chain.mine(1, s.chain.transaction(sends(payer, stranger, 1)), batch)
	s.round()
	rows := s.rows()
	require.Len(t, rows, 3)
	for ordinal, amount := range map[int]int64{1: price, 2: 2 * price, 5: price} {
		row := rows[fmt.Sprintf("eip155:84532:%s:%d", batch.hash.Hex(), ordinal)]
		require.Equal(t, ledger.StatusConfirmed, row.Status)
		require.Equal(t, amount, row.Amount)
		require.EqualValues(t, ordinal+1, evidenceOf(row).LogIndex)
	}
	s.chain.rewind(1)
	s.chain.mine(2, batch)
	s.round()
	require.Len(t, s.rows(), 3)
	for id, row := range s.rows() {
		require.Equal(t, rows[id].Version, row.Version)
		require.Equal(t, evidenceOf(rows[id]).LogIndex-1, evidenceOf(row).LogIndex)
	}
}

// A transfer that left the chain is looked for during a day of finalized time, and then no more.
func TestDroppedTransferIsTrackedOneDay(t *testing.T) {
	s := openReadBeside(t, 2)
	payment := s.paid()
	s.chain.rewind(1)
	s.chain.mineFinal(forgetAfter/blockTime + 1)
	s.settle()
	require.False(t, s.row(payment).Final)
	s.chain.mine(1)
	s.round()
	require.False(t, s.row(payment).Final, "the end of the day is not final yet")
	s.chain.finalize()
	s.round()
	require.True(t, s.row(payment).Final)
	s.requireStatus(ledger.StatusDropped, payment)
	asked := s.nodes[0].count("eth_getTransactionReceipt")
	s.chain.mine(1)
	s.round()
	require.Equal(t, asked, s.nodes[0].count("eth_getTransactionReceipt"))
}

// When a block that was final changes, the rail stops until it is back: nothing is recorded and nothing proven.
func TestFinalHistoryChangeStopsRail(t *testing.T) {
	t.Parallel()
	for _, endpoints := range []int{1, 2, 3} {
		s := openRead(t, endpoints)
		old := s.chain.pay(price)
		s.chain.finalize()
		s.round()
		anchor, rows := s.cursor(), s.rows()
		require.Equal(t, s.chain.head(), anchor)
		key := s.chain.authorize()
		lie := s.chain.fork()
		lie.rewind(1)
		fresh := lie.transaction(used(key), sends(payer, payTo, price))
		lie.mine(2, fresh)
		lie.finalize()
		for _, n := range s.nodes {
			n.branch = lie
		}
		hosts := []string{"(one.example)", both, all}[endpoints-1]
		for range 2 {
			s.requireError("final_history_changed "+hosts, true)
			require.Equal(t, rows, s.rows())
			require.Equal(t, anchor, s.cursor())
		}
		s.requireUndecided("final_history_changed "+hosts, key, fresh)
		reason, err := s.Dead(t.Context(), key, 0)
		require.EqualError(t, err, "final_history_changed "+hosts)
		require.Empty(t, reason)

		// An endpoint that cannot be read does not bring the history back.
		for _, n := range s.nodes {
			n.answer("*", fault{status: 500})
		}
		require.ErrorContains(t, s.look(), "unreachable")
		s.requireUndecided("final_history_changed "+hosts, key, fresh)

		s.now.Add(int64(2 * backoffMost))
		for _, n := range s.nodes {
			n.honest()
			n.branch = s.chain
		}
		s.chain.mine(1)
		s.settle()
		require.True(t, s.row(old).Final)
		_, _, err = s.Prove(t.Context(), key, fresh.hash.Hex())
		require.NoError(t, err)
	}
}
