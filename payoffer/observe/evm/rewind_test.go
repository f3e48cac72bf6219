package evm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
)

func (s *till) rewind() {
	s.Helper()
	rewound, err := s.book.Rewind(s.Context(), offerID, s.config.USDC.Account())
	require.NoError(s, err)
	require.True(s, rewound)
}

func TestARewoundRailIsReadFromItsOriginOnAndCountsNothingTwice(t *testing.T) {
	t.Parallel()
	for _, endpoints := range []int{1, 2} {
		s := openRead(t, endpoints)
		s.chain.pay(price)
		lost := s.chain.pay(price)
		for _, n := range s.nodes { // all of them, or another one would be asked
			n.hide(lost)
		}
		s.chain.mine(20)
		s.chain.finalize()
		s.round()
		s.round()
		for _, n := range s.nodes {
			n.honest()
		}
		s.chain.mine(1)
		s.round()
		require.Len(t, s.rows(), 1)
		require.Greater(t, s.cursor(), uint64(400))

		s.rewind()
		s.settle()
		require.Len(t, s.rows(), 2)
		rows := s.rows()
		for range 2 {
			s.rewind()
			s.settle()
			require.Equal(t, rows, s.rows())
		}
		s.rewind()
		s.restart()
		s.settle()
		require.Equal(t, rows, s.rows())
	}
}

// A round that began before does not put the cursor back, whatever it commits.
func TestARoundUnderWayDoesNotUndoARewind(t *testing.T) {
	t.Parallel()
	s := openRead(t, 1)
	s.chain.mine(5)
	s.chain.finalize()
	s.round()
	require.NotZero(t, s.cursor())
	s.chain.pay(price)
	s.chain.mine(20)
	s.chain.finalize()
	rewound := false
	s.nodes[0].on("eth_getLogs", func(_ call, pass func() any) any {
		if !rewound {
			rewound = true
			_, err := s.book.Rewind(t.Context(), offerID, s.config.USDC.Account())
			require.NoError(t, err)
		}
		return pass()
	})
	s.round()
	require.True(t, rewound)
	require.Len(t, s.rows(), 1)
	require.Zero(t, s.cursor())
	s.settle()
	require.NotZero(t, s.cursor())
}

// A final block that was never there stops a rail until it is rewound.
func TestARewoundRailGoesOnAfterAFalseFinalBlock(t *testing.T) {
	t.Parallel()
	s := openRead(t, 1)
	s.chain.pay(price)
	s.chain.finalize()
	s.settle()
	_, err := s.book.Record(t.Context(), &ledger.Cursor{
		Offer: offerID, Account: s.config.USDC.Account(), Position: "400", Anchor: s.chain.unique().Hex(),
	})
	require.NoError(t, err)
	s.requireTrouble("final_history_changed (one.example)", true)
	s.rewind()
	s.settle()
	require.Len(t, s.rows(), 1)
}
