package evm

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
)

// openSince is open for a process that was started at a time by its clock.
func openSince(t *testing.T, endpoints int, since int64) *till {
	t.Helper()
	s := open(t, endpoints)
	s.register(since)
	return s
}

// register tells the ledger of a start.
func (ti *till) register(since int64) {
	ti.Helper()
	require.NoError(ti, ti.db.Register(ti.Context(), ledger.Account{
		Offer: offerID, ID: ti.config.USDC.Account(), Rail: "usdc", Testnet: true, Since: since,
	}))
}

// account is what the ledger keeps of the rail.
func (ti *till) account() ledger.Account {
	ti.Helper()
	a, err := ti.db.Ledger.Account(ti.Context(), offerID, ti.config.USDC.Account())
	require.NoError(ti, err)
	return a
}

// requireOrigin requires the last block that is not counted; none for an empty one.
func (ti *till) requireOrigin(origin string) {
	ti.Helper()
	require.Equal(ti, origin, ti.account().Origin)
}

// requireOnly requires that just these payments are confirmed.
func (ti *till) requireOnly(payments ...*transaction) {
	ti.Helper()
	var want, got []string
	for _, tx := range payments {
		want = append(want, tx.hash.Hex())
	}
	for _, row := range ti.rows() {
		require.Equal(ti, ledger.StatusConfirmed, row.Status)
		got = append(got, row.Transaction)
	}
	require.ElementsMatch(ti, want, got)
}

// made is when a block of the chain was made.
func (ti *till) made(number uint64) int64 { return ti.chain.blocks[number].time }

func TestOriginCountsPaymentsSinceStart(t *testing.T) {
	s := openBeside(t, 2)
	s.chain.pay(price) // in block 400
	s.chain.pay(price) // in block 401, in the very second of the start
	s.register(s.made(401))
	for _, n := range s.nodes {
		n.answer("*", fault{})
	}
	first := s.chain.pay(price)
	for range 3 {
		s.requireError("unreachable (one.example)", true)
	}
	s.chain.mine(100)
	second := s.chain.pay(2 * price)
	s.nodes[0].honest()
	s.now.Add(int64(backoffMost))
	s.requireError("unreachable (two.example)", false)
	s.requireOrigin("401")
	s.requireOnly(first, second)
	s.register(s.made(450)) // a later start of another process
	s.nodes[1].honest()
	s.now.Add(int64(backoffMost))
	s.restart()
	s.round()
	s.requireObserved()
	s.requireOrigin("401")
	s.requireOnly(first, second)
}

// A clock that is ahead is corrected by what others say of the time. One that seems behind is not: an endpoint that lies must not
// move the origin forward.
func TestOriginUsesClockOffset(t *testing.T) {
	t.Parallel()
	for _, ahead := range []time.Duration{-time.Hour, 0, time.Hour} {
		s := open(t, 2)
		before := s.chain.pay(price)
		s.register(s.made(400) + int64(ahead.Seconds()))
		payment := s.chain.pay(price)
		s.chain.mine(10)
		s.config.ClockOffset = func() time.Duration { return ahead }
		s.config.Now = func() time.Time { return s.clock().Add(ahead) }
		s.restart()
		s.round()
		if ahead < 0 {
			s.requireOrigin("0")
			s.requireOnly(before, payment)
			continue
		}
		s.requireOrigin("400")
		s.requireOnly(payment)
	}
}

// Where the offset is found out later, before the first cursor stands, the origin is still put right.
func TestOriginLoweredByLaterClockOffset(t *testing.T) {
	s := openBeside(t, 2)
	s.register(s.made(399) + 300)
	ahead := time.Duration(0)
	s.config.ClockOffset = func() time.Duration { return ahead }
	s.restart()
	payment := s.paid()
	s.requireOrigin("400")
	require.Empty(t, s.rows())
	ahead = 5 * time.Minute
	s.round()
	s.requireOrigin("399")
	s.requireOnly(payment)
	ahead = 10 * time.Minute
	s.chain.finalize()
	s.settle()
	ahead = time.Hour
	s.round()
	s.requireOrigin("249")
	require.EqualValues(t, 400, s.cursor())
}

// The block of the start is found in a few calls, however long ago that was.
func TestOriginSearchCallLimit(t *testing.T) {
	t.Parallel()
	for _, ago := range []int{0, 1, 100, 50_000} {
		s := open(t, 2)
		s.chain.mine(50_000 - 399)
		s.chain.final = 0
		s.register(s.made(uint64(50_000-ago)) + 1)
		s.round()
		s.requireOrigin(strconv.Itoa(50_000 - ago))
		require.LessOrEqual(t, s.nodes[0].count("eth_getBlockByNumber"), 45, ago)
	}
	s := openSince(t, 1, genesis-1)
	s.round()
	s.requireOrigin("0")
}

// The time of a block is what enough endpoints say: one endpoint cannot choose the origin.
func TestOriginNeedsAgreement(t *testing.T) {
	t.Parallel()
	for endpoints, problem := range map[int]string{1: "", 2: "sources_disagree (one.example, two.example)", 3: ""} {
		s := open(t, endpoints)
		s.chain.mine(100)
		s.register(s.made(400))
		liar := s.nodes[endpoints-1]
		if endpoints > 1 {
			liar.on("eth_getBlockByNumber", func(c call, pass func() any) any {
				shown, _ := pass().(object)
				if shown != nil && c.text(0) == number(400) {
					shown["timestamp"] = number(genesis * 2)
				}
				return shown
			})
		}
		if problem != "" {
			s.requireError(problem, true)
			s.requireOrigin("")
			require.Empty(t, s.rows())
			liar.honest()
		}
		s.round()
		s.requireOrigin("400")
		s.requireObserved()
	}
}

// An endpoint that stands still shows a head from long before the start: what came between is not to be counted.
func TestStalledChainHasNoOrigin(t *testing.T) {
	s := openBeside(t, 1)
	behind := s.chain.fork()
	s.chain.mine(staleAfter)
	s.chain.pay(price)
	s.now.Add(int64(2 * staleAfter * time.Second))
	s.chain.mine(1)
	s.register(s.made(s.chain.head()))
	origin := strconv.FormatUint(s.chain.head(), 10)
	s.nodes[0].branch = behind
	s.requireError("lagging (one.example)", true)
	s.requireOrigin("")
	s.nodes[0].branch = s.chain
	payment := s.paid()
	s.requireOrigin(origin)
	s.requireOnly(payment)
}

// After a reorganization another block may stand where the origin was, made after the start.
func TestOriginLoweredByReorg(t *testing.T) {
	s := openBeside(t, 2)
	s.chain.mine(3)
	s.register(s.made(402))
	s.round()
	s.requireOrigin("402")
	s.chain.rewind(2)
	payment := s.chain.pay(price) // block 401
	s.chain.mine(3)
	for i := uint64(401); i <= s.chain.head(); i++ {
		s.chain.blocks[i].time += 12 // slots were missed
	}
	s.restart()
	s.round()
	s.requireOrigin("400")
	s.requireOnly(payment)

	// Once a cursor stands nothing moves it any more.
	s.chain.finalize()
	s.settle()
	s.config.ClockOffset = func() time.Duration { return time.Hour }
	s.restart()
	s.settle()
	s.requireOrigin("400")
	require.Empty(t, s.log.String())
}

func TestFromBlockIsTheFirstThatCounts(t *testing.T) {
	s := openBeside(t, 1)
	s.chain.pay(price)
	first := s.chain.pay(price)
	s.lower(s.chain.head())
	s.round()
	s.requireObserved()
	s.requireOnly(first)
}
