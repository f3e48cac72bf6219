package evm

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
)

// So many blocks apart, in two minutes and in 40, heads and final blocks disagree.
const (
	apart      = 2 * 60 / blockTime
	finalApart = 40 * 60 / blockTime
)

// skew has an endpoint show the time of the newest block in the future.
func (ti *till) skew(n *node) {
	n.atBlock("latest", func(block object) {
		block["timestamp"] = number(uint64(ti.made(ti.chain.head())) + apart*blockTime)
	})
}

// The heads of one endpoint of three are not as they should be. It is named, the other two count, and the third one of
// three that agree is not read.
func TestHeadsNeedAgreement(t *testing.T) {
	t.Parallel()
	freeze := func(tag string) func(*till, *node) {
		return func(s *till, n *node) {
			frozen := s.chain.showBlock(tag).(object)
			n.atBlock(tag, func(block object) { maps.Copy(block, frozen) })
			s.chain.mineFinal(finalApart)
		}
	}
	for name, c := range map[string]struct {
		lie  func(*till, *node)
		code string
	}{
		"a time in the future": {(*till).skew, "sources_disagree"},
		"blocks in the future": {func(s *till, n *node) {
			n.branch = s.chain.fork()
			n.mineFinal(apart)
		}, "sources_disagree"},
		"an old head": {func(s *till, n *node) {
			n.branch = s.chain.fork()
			s.chain.mine(apart)
		}, "lagging"},
		"a frozen safe block":  {freeze("safe"), "lagging"},
		"a frozen final block": {freeze("finalized"), "lagging"},
	} {
		for liar := range 3 {
			t.Run(fmt.Sprint(name, " ", liar), func(t *testing.T) {
				t.Parallel()
				s := openAt(t, 3, Safe)
				s.round()
				n := s.nodes[liar]
				c.lie(s, n)
				payment := s.chain.pay(price)
				s.chain.finalize()
				unread := s.nodes[2].count("eth_getBlockByNumber")
				for range 2 {
					_ = s.look()
					s.requireRight()
					require.True(t, s.row(payment).Final)
					health := s.Health()
					require.False(t, health.Partial)
					require.Equal(t, fmt.Sprintf("block %d", s.chain.head()), health.ObservedThrough)
					if liar == 2 {
						require.Empty(t, s.log.String())
						require.Equal(t, unread, n.count("eth_getBlockByNumber"))
					} else {
						require.Equal(t, c.code, health.LastError)
						s.requireLines(1, fmt.Sprintf("%s (%s)", c.code, n.host))
					}
				}
				n.honest()
				n.branch = s.chain
				s.settle()
			})
		}
	}
}

// A chain that finalizes nothing for hours is no fault of an endpoint.
func TestStalledFinalityIsNotLagging(t *testing.T) {
	s := openReadBeside(t, 2)
	s.chain.mine(2 * finalApart)
	s.now.Add(int64(2 * finalApart * blockTime * time.Second))
	s.chain.pay(price)
	s.requireRightAfterRound()
	s.requireObserved()
}

// Of two endpoints one shows a head in the future. The other one is read, named right, and says what time it is.
func TestFutureHeadIsNotRead(t *testing.T) {
	t.Parallel()
	for liar := range 2 {
		s := openAt(t, 2, Safe)
		s.round()
		n := s.nodes[liar]
		s.skew(n)
		payment := s.chain.pay(price)
		s.chain.finalize()
		s.now.Add(int64(time.Unix(s.made(s.chain.head()), 0).Sub(s.clock())))
		_ = s.look()
		s.requireStatus(ledger.StatusSeen, payment)
		require.Equal(t, fmt.Sprintf("sources_disagree (%s)", n.host), fmt.Sprint(s.look()))
		offset, read := s.Observer.chain.ClockOffset()
		require.True(t, read)
		require.Zero(t, offset, "the clock is right")
		reading, err := s.Read(t.Context(), ledger.IntentKey{})
		require.NoError(t, err)
		require.Equal(t, s.made(s.chain.head()), reading.Time)
		s.now.Add(-int64(time.Hour)) // now the clock is behind both
		reading, err = s.Read(t.Context(), ledger.IntentKey{})
		require.NoError(t, err)
		require.GreaterOrEqual(t, reading.Time, s.made(s.chain.head()))
		s.now.Add(int64(time.Hour))
		n.honest()
		s.round()
		s.requireStatus(ledger.StatusConfirmed, payment)
	}
}

// The clock is behind, and a stalled endpoint shows a head that is not as far in its future. That does not make it right.
func TestStalledHeadIsNotReadBesideSlowClock(t *testing.T) {
	t.Parallel()
	for stalled := range 2 {
		s := openAt(t, 2, Safe)
		s.round()
		n := s.nodes[stalled]
		n.branch = s.chain.fork()
		s.chain.mineFinal(5 * apart)
		honest := s.made(s.chain.head())
		s.now.Add(int64(time.Unix(s.made(n.branch.head()), 0).Add(-4 * time.Minute).Sub(s.clock())))
		reading, err := s.Read(t.Context(), ledger.IntentKey{})
		require.NoError(t, err)
		if stalled == 1 {
			require.Equal(t, honest, reading.Time)
		}
		require.ErrorContains(t, s.look(), n.host)
		offset, read := s.Observer.chain.ClockOffset()
		require.True(t, read)
		require.Equal(t, s.clock().Sub(time.Unix(honest, 0)), offset, "the later head is the right one")
	}
}
