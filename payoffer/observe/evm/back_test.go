package evm

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
)

// openLate starts a rail after many blocks, in which payments were made that are not counted.
func openLate(t *testing.T, endpoints, blocks int) (s *till, earlier []*transaction) {
	t.Helper()
	s = open(t, endpoints)
	for range blocks / 500 {
		s.chain.mine(499)
		earlier = append(earlier, s.chain.pay(price))
	}
	s.chain.finalize()
	s.now += time.Duration(len(s.chain.blocks)) * blockTime * time.Second
	s.chain.mine(len(s.chain.blocks)) // up to now
	s.chain.finalize()
	s.round()
	s.requireObserved()
	require.Empty(t, s.rows())
	return s, earlier
}

// lower restarts the rail with an earlier first block.
func (s *till) lower(block uint64) {
	s.Helper()
	s.config.FromBlock = block
	s.restart()
}

// causes are those of the first transitions, by transaction.
func (s *till) causes() map[string]string {
	s.Helper()
	list, err := s.db.Transitions(s.Context(), offerID, 0, 10_000)
	require.NoError(s, err)
	causes := make(map[string]string)
	for _, t := range list {
		if t.Version == 1 {
			causes[strings.Split(t.ExternalID, ":")[2]] = t.Cause
		}
	}
	return causes
}

// requireLines requires so many lines of the log, the last of which holds a text.
func (s *till) requireLines(lines int, text string) {
	s.Helper()
	require.Equal(s, lines, strings.Count(s.log.String(), "\n"), s.log.String())
	require.Contains(s, s.log.String(), text)
}

func TestAnEarlierFirstBlockHasEverythingReadAgainOnce(t *testing.T) {
	t.Parallel()
	for _, endpoints := range []int{1, 2} {
		s, earlier := openLate(t, endpoints, 3000)
		later, lost := s.chain.pay(price), s.chain.pay(price)
		for _, n := range s.nodes {
			n.hide(lost)
		}
		s.chain.finalize()
		s.round()
		s.requireOnly(later)
		for _, n := range s.nodes {
			n.honest()
		}
		before := s.account().Origin
		s.db.broken = "LowerOrigin"
		s.lower(1001)
		s.requireError("ledger_unavailable (ledger)", true)
		s.db.broken = ""
		s.round()
		s.requireObserved()
		s.requireOrigin("1000")
		counted := earlier[1:] // those in the blocks from 1,399 on
		s.requireOnly(append(counted, later, lost)...)
		s.requireLines(1, "first_block=1001 before="+next(before))
		for _, tx := range counted {
			require.Equal(t, causeChain, s.causes()[tx.hash.Hex()], "when the account was first watched is not known")
			require.True(t, s.row(tx).Final)
		}
		rows, calls := s.rows(), s.nodes[0].count("eth_getLogs")
		s.restart()
		s.round()
		require.Equal(t, rows, s.rows())
		require.LessOrEqual(t, s.nodes[0].count("eth_getLogs"), calls+1, "only what is new is read")

		// Further back, and no way forward again.
		s.lower(1)
		s.round()
		s.requireObserved()
		s.requireRight()
		s.lower(1001)
		s.requireRightAfterRound()
		s.requireOrigin("0")
		s.requireLines(3, "later from_block is ignored")
	}
}

// A final block that was never there stops a rail until the endpoints show it or the first block is earlier.
func TestAnEarlierFirstBlockEndsAFalseHistory(t *testing.T) {
	s := openReadBeside(t, 1)
	s.chain.pay(price)
	s.chain.finalize()
	s.settle()
	_, err := s.db.Record(t.Context(), &ledger.Cursor{
		Offer: offerID, Account: s.config.USDC.Account(), Position: "400", Anchor: s.chain.unique().Hex(),
	})
	require.NoError(t, err)
	s.requireError("final_history_changed (one.example)", true)
	s.lower(390)
	s.settle()
	require.Len(t, s.rows(), 1)
}

// A cycle that began before the origin was lowered does not put the cursor back.
func TestACycleUnderWayDoesNotUndoALoweredOrigin(t *testing.T) {
	s := openReadBeside(t, 1)
	s.chain.mineFinal(5)
	s.round()
	s.chain.pay(price)
	s.chain.mineFinal(20)
	s.nodes[0].on("eth_getLogs", func(_ call, pass func() any) any {
		_, err := s.db.Ledger.LowerOrigin(t.Context(), offerID, s.config.USDC.Account(), "7")
		require.NoError(t, err)
		return pass()
	})
	s.round()
	require.Zero(t, s.cursor())
	s.settle()
	require.NotZero(t, s.cursor())
}

// next is the number after one.
func next(number string) string {
	n, err := observe.Position(number)
	if err != nil {
		panic(err)
	}
	return strconv.FormatInt(n+1, 10)
}
