package evm

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
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

// slowly has each query of logs take a second of the observer's time.
func (s *till) slowly() {
	for _, n := range s.nodes {
		n.on("eth_getLogs", func(_ call, pass func() any) any {
			s.now += time.Second
			return pass()
		})
	}
}

// causes are those of the first transitions, by transaction.
func (s *till) causes() map[string]string {
	s.Helper()
	list, err := s.book.Transitions(s.Context(), offerID, 0, 10_000)
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

func TestAnEarlierFirstBlockTakesInWhatLiesBetween(t *testing.T) {
	t.Parallel()
	s, earlier := openLate(t, 2, 3000)
	later := s.chain.pay(price)
	s.settle2(later)
	before := s.account().Origin
	s.lower(1001)
	s.round()
	s.requireObserved()
	s.requireOrigin("1000")
	require.Empty(t, s.account().Back)
	counted := earlier[1:] // those in the blocks from 1,399 on
	s.requireOnly(append(counted, later)...)
	s.requireLines(1, `level=INFO msg="receipts are counted from an earlier block on; the blocks between are read now, beside the new ones"`)
	require.Contains(t, s.log.String(), "first_block=1001 before="+next(before))
	for _, tx := range counted {
		require.Equal(t, ledger.CauseBackfilled, s.causes()[tx.hash.Hex()])
		require.True(t, s.row(tx).Final)
	}
	require.Equal(t, causeChain, s.causes()[later.hash.Hex()])

	// Further back, and no way forward again.
	s.lower(1)
	s.round()
	s.requireObserved()
	s.requireRight()
	s.requireLines(2, "first_block=1 before=1001")
	s.lower(1001)
	s.round()
	s.requireRight()
	s.requireOrigin("0")
	s.requireLines(3, "from_block is ignored")
}

// next is the number after one.
func next(number string) string {
	n, err := position(number)
	if err != nil {
		panic(err)
	}
	return strconv.FormatInt(n+1, 10)
}

// settle2 is two rounds after which just this payment counts.
func (s *till) settle2(payment *transaction) {
	s.Helper()
	s.round()
	s.chain.finalize()
	s.round()
	s.requireObserved()
	s.requireOnly(payment)
}

// What lies back is read piece by piece after the new blocks: those wait for nothing, and nothing is read twice after a
// restart. Until the end the rail does not claim to know all.
func TestNewPaymentsDoNotWaitForOldOnes(t *testing.T) {
	t.Parallel()
	s, earlier := openLate(t, 1, 60_000)
	s.chain.pay(price)
	s.chain.finalize()
	s.round()
	s.slowly()
	s.lower(1)
	rounds, last, begun := 0, int64(s.chain.head()), s.cursor()
	for ; ; rounds++ {
		payment := s.chain.pay(price)
		s.chain.finalize()
		s.round()
		s.requireStatus(ledger.StatusConfirmed, payment)
		require.Equal(t, s.chain.head(), s.cursor(), "the cursor of the new blocks goes on")
		if since, through := s.Covered(); rounds%3 > 0 {
			require.Equal(t, s.chain.head()-1, through, "what is read here is covered as ever")
			require.Equal(t, s.made(begun)+1, since, "and the rows speak for the new blocks alone")
		}
		back, err := position(s.account().Back)
		require.NoError(t, err)
		if back < 0 {
			break
		}
		require.True(t, s.Health().Partial)
		require.False(t, s.Health().Blind)
		require.Empty(t, s.Health().LastError)
		require.Less(t, back, last, "each round comes further")
		last = back
		causes := s.causes()
		for _, tx := range earlier {
			number, _, _ := s.chain.place(tx.hash)
			_, recorded := causes[tx.hash.Hex()]
			require.Equal(t, int64(number) > back, recorded, "just what was read is there: %d", number)
		}
		if rounds%3 == 2 {
			s.restart()
			begun = s.cursor()
		}
	}
	require.Greater(t, rounds, 4)
	s.requireObserved()
	s.requireRight()
	s.requireOrigin("0")
}

// A range in which something is open is not passed; all else goes on, and what is covered is.
func TestWhatIsNotSureHoldsUpOnlyTheWayBack(t *testing.T) {
	t.Parallel()
	for name, trouble := range map[string]func(s *till, tx *transaction){
		"a payment that one hides": func(s *till, tx *transaction) { s.nodes[0].hide(tx) },
		"ranges that one refuses": func(s *till, tx *transaction) {
			place, _, _ := s.chain.place(tx.hash)
			s.nodes[0].on("eth_getLogs", func(c call, pass func() any) any {
				if q := c.query(); uint64(q.FromBlock) <= place && place <= uint64(q.ToBlock) {
					return fault{code: -32000}
				}
				return pass()
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, earlier := openLate(t, 2, 4000)
			s.chain.pay(price)
			s.chain.finalize()
			s.round()
			hidden := earlier[3]
			place, _, _ := s.chain.place(hidden.hash)
			trouble(s, hidden)
			s.lower(1)
			var problem error
			for range 6 {
				payment := s.chain.pay(price)
				problem = s.look()
				s.requireStatus(ledger.StatusConfirmed, payment)
				require.False(t, s.Health().Blind)
				require.True(t, s.Health().Partial)
				back, err := position(s.account().Back)
				require.NoError(t, err)
				require.GreaterOrEqual(t, back, int64(place))
			}
			require.Error(t, problem)
			require.NotEmpty(t, s.Health().LastError)
			_, through := s.Covered()
			require.Equal(t, s.chain.head()-1, through)
			s.nodes[0].honest()
			s.restart()
			s.settle()
			require.Empty(t, s.account().Back)
		})
	}
}

// Before the first cursor stands the blocks at the head are parted from those that lie back all the same.
func TestTheFirstBlockMayBeSetBeforeAnythingIsFinal(t *testing.T) {
	t.Parallel()
	for name, final := range map[string]uint64{"some blocks are final": 200, "none is": 0, "all are, since then": 1000} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, 2)
			s.chain.rewind(300)
			s.chain.pay(price) // in block 100
			s.chain.mine(150)
			s.chain.pay(price)
			s.chain.mine(50)
			s.chain.safe, s.chain.final = min(final, 200), min(final, 200)
			s.register(s.made(s.chain.head()))
			s.round()
			require.Empty(t, s.rows())
			require.Zero(t, s.cursor())
			s.lower(50)
			s.chain.pay(price)
			s.chain.safe, s.chain.final = min(final, s.chain.head()), min(final, s.chain.head())
			s.settle()
			require.Equal(t, min(final, s.chain.head()), s.cursor())
			s.chain.finalize()
			s.settle()
			require.Len(t, s.rows(), 3)
			require.Empty(t, s.account().Back)
		})
	}
}

// A ledger that fails on the way loses nothing.
func TestALedgerThatFailsOnTheWayBackLosesNothing(t *testing.T) {
	t.Parallel()
	for method, blind := range map[string]bool{"LowerOrigin": true, "Record": true} {
		s, _ := openLate(t, 1, 2000)
		s.chain.mine(1, s.chain.transaction(transfer(payTo, payer, price)))
		s.chain.pay(price)
		s.round()
		s.chain.place(s.chain.unique())
		old := s.chain.blocks[500]
		old.transactions = append(old.transactions, s.chain.transaction(transfer(payTo, payer, price)))
		s.book.broken = method
		s.lower(1)
		s.chain.pay(price)
		s.requireTrouble("ledger_unavailable (ledger)", blind)
		s.book.broken = ""
		s.settle()
		require.Empty(t, s.account().Back)
	}
}

// A ledger that was lost is rebuilt from the chain: the same rows, the same sums.
func TestALostLedgerIsRebuiltByItsFirstBlock(t *testing.T) {
	t.Parallel()
	s := open(t, 2)
	s.config.FromBlock = 400
	s.restart()
	key := s.chain.authorize()
	s.use(key)
	for range 40 {
		s.chain.mine(200)
		s.chain.mine(1, s.chain.transaction(transfer(payer, payTo, 3*price), transfer(stranger, payTo, price), transfer(payTo, payTo, price)))
		s.round()
	}
	s.chain.finalize()
	s.settle()
	facts := func() (rows map[string]ledger.Receipt, sums []ledger.Total) {
		rows = s.rows()
		for id, row := range rows {
			row.ID, row.ObservedAt, row.UpdatedAt, row.Version = 0, 0, 0, 0
			rows[id] = row
		}
		sums, err := s.book.Totals(t.Context(), offerID)
		require.NoError(t, err)
		return rows, sums
	}
	rows, sums := facts()
	s.lose()
	s.settle()
	again, sumsAgain := facts()
	require.Equal(t, rows, again)
	require.ElementsMatch(t, sums, sumsAgain)

	// Also where the block is found out only later.
	s.lose()
	s.config.FromBlock = 0
	s.restart()
	s.round()
	require.Empty(t, s.rows())
	s.lower(400)
	s.settle()
	again, sumsAgain = facts()
	require.Equal(t, rows, again)
	require.ElementsMatch(t, sums, sumsAgain)
}
