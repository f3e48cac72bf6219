package evm

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
)

const (
	disagree = "sources_disagree (one.example, two.example)"
	both     = "(one.example, two.example)"
	all      = "(one.example, two.example, three.example)"
)

// A payment that one of two endpoints hides is seen, and the cursor waits for it.
func TestAPaymentThatOneOfTwoHidesIsSeenUntilBothShowIt(t *testing.T) {
	t.Parallel()
	for _, liar := range []int{0, 1} {
		s := openRead(t, 2)
		before := s.chain.head()
		payment := s.chain.pay(price)
		s.chain.mineFinal(3)
		s.nodes[liar].hide(payment)
		s.requireError(disagree, false)
		s.requireStatus(ledger.StatusSeen, payment)
		require.False(t, s.row(payment).Final)
		require.LessOrEqual(t, s.cursor(), before)

		s.nodes[liar].honest()
		s.settle()
		require.True(t, s.row(payment).Final)
		require.Equal(t, s.chain.head(), s.cursor())
	}
}

// falsehoods are what an endpoint may tell of a payment.
var falsehoods = map[string]func(*transaction){
	"another amount":  func(tx *transaction) { tx.events = transfer(payer, payTo, 7*price) },
	"another payer":   func(tx *transaction) { tx.events = transfer(stranger, payTo, price) },
	"failed":          func(tx *transaction) { tx.failed = true },
	"another ordinal": func(tx *transaction) { tx.events = slices.Concat(transfer(payer, stranger, price), tx.events) },
}

// tell has an endpoint tell a falsehood of a payment.
func (s *till) tell(n *node, payment *transaction, falsehood func(*transaction)) {
	lie := *payment
	falsehood(&lie)
	n.branch = s.chain.fork()
	n.replace(payment, &lie)
}

// Two of three decide, whatever the third one does.
func TestOneFalseEndpointOfThreeChangesNothing(t *testing.T) {
	t.Parallel()
	lies := map[string]func(s *till, payment *transaction){
		"hides": func(s *till, payment *transaction) { s.nodes[1].hide(payment) },
		"another block": func(s *till, payment *transaction) {
			s.nodes[1].branch = s.chain.fork()
			moved := s.nodes[1].rewind(1)
			s.nodes[1].mine(1, moved...)
		},
	}
	for name, falsehood := range falsehoods {
		lies[name] = func(s *till, payment *transaction) { s.tell(s.nodes[1], payment, falsehood) }
	}
	for name, lie := range lies {
		t.Run(name, func(t *testing.T) {
			s := openReadBeside(t, 3)
			payment := s.chain.pay(price)
			lie(s, payment)
			for range 2 {
				require.EqualError(t, s.look(), "sources_disagree "+all)
				s.requireRight()
				require.Equal(t, strings.ToLower(payer.Hex()), s.confirmedRow(payment).Payer)
				require.Equal(t, "sources_disagree", s.Health().LastError)
			}
			s.nodes[1].branch = s.chain
			s.nodes[1].honest()
			s.restart()
			s.settle()
		})
	}
}

// replace puts another transaction in the place of one.
func (b *branch) replace(old, fresh *transaction) {
	at, _, _ := b.place(old.hash)
	changed := *b.blocks[at]
	changed.transactions = slices.Clone(changed.transactions)
	changed.transactions[slices.Index(changed.transactions, old)] = fresh
	b.blocks[at] = &changed
}

// confirmedRow is the confirmed receipt of a transaction, of which others may be seen.
func (s *till) confirmedRow(tx *transaction) (confirmed ledger.Receipt) {
	s.Helper()
	for _, row := range s.rows() {
		if row.Transaction == tx.hash.Hex() && row.Status == ledger.StatusConfirmed {
			require.Empty(s, confirmed.ExternalID)
			confirmed = row
		}
	}
	return confirmed
}

// With two endpoints that tell different things of a payment, none of them is believed.
func TestAPaymentReportedDifferentlyIsNotConfirmed(t *testing.T) {
	t.Parallel()
	for name, falsehood := range falsehoods {
		for _, liar := range []int{0, 1} {
			t.Run(name, func(t *testing.T) {
				s := openReadBeside(t, 2)
				payment := s.chain.pay(price)
				s.tell(s.nodes[liar], payment, falsehood)
				for range 3 {
					s.requireError(disagree, false)
					require.Empty(t, s.confirmed())
					require.NotEmpty(t, s.rows())
					require.Zero(t, s.cursor())
				}
				s.nodes[liar].branch = s.chain
				s.restart()
				s.settle()
			})
		}
	}
}

// A payment that one endpoint makes up is seen, counts nowhere, and is dropped once it owns up.
func TestAPaymentThatOneEndpointMakesUpDoesNotCount(t *testing.T) {
	t.Parallel()
	for _, endpoints := range []int{2, 3} {
		s := openRead(t, endpoints)
		s.chain.pay(price)
		lie := s.chain.fork()
		forged := lie.transaction(transfer(payer, payTo, 9*price))
		honest := *lie.blocks[lie.head()]
		honest.transactions = append(slices.Clone(honest.transactions), forged)
		lie.blocks[lie.head()] = &honest
		s.nodes[0].branch = lie
		for range 3 {
			require.ErrorContains(t, s.look(), "sources_disagree")
			s.requireRight()
			require.Empty(t, s.confirmedRow(forged))
		}
		s.nodes[0].branch = s.chain
		s.restart()
		s.settle()
		for _, row := range s.rows() {
			require.Equal(t, row.Transaction == forged.hash.Hex(), row.Status == ledger.StatusDropped)
		}
	}
}

// A log of a transaction that nobody knows is no money, and still keeps the rail from claiming to know all.
func TestALogWithoutItsTransactionIsNotCounted(t *testing.T) {
	s := openReadBeside(t, 1)
	payment := s.chain.pay(price)
	s.nodes[0].answer("eth_getTransactionReceipt", nil)
	s.requireError("sources_disagree (one.example)", false)
	require.Empty(t, s.rows())
	require.Zero(t, s.cursor())
	s.nodes[0].honest()
	s.settle()
	s.requireStatus(ledger.StatusConfirmed, payment)
}

// The other way round: what was confirmed and is denied by one of two is not confirmed any more, and not dropped.
func TestAConfirmedPaymentThatOneOfTwoDeniesIsSeen(t *testing.T) {
	t.Parallel()
	for _, liar := range []int{0, 1} {
		s := openRead(t, 2)
		payment := s.paid()
		s.requireRight()
		s.nodes[liar].hide(payment)
		s.restart()
		for range 2 {
			s.requireError(disagree, false)
			s.requireStatus(ledger.StatusSeen, payment)
		}
		s.nodes[liar].honest()
		s.settle()
	}
}

// One that cannot be read denies nothing: what was confirmed where the other one shows it stays so.
func TestAConfirmedPaymentStaysWhileNoEndpointDeniesIt(t *testing.T) {
	s := openReadBeside(t, 2)
	payment := s.paid()
	version := s.row(payment).Version
	s.restart()
	s.nodes[1].answer("eth_getTransactionReceipt", fault{code: -32000})
	for range 2 {
		s.requireError("bad_answer (two.example)", false)
		s.requireRight()
		require.Equal(t, version, s.row(payment).Version)
	}

	// Where only one can be read and shows it elsewhere, it is not sure any more.
	moved := s.chain.rewind(1)
	s.chain.mine(1)
	s.chain.mine(1, moved...)
	s.requireError("bad_answer (two.example)", false)
	s.requireStatus(ledger.StatusSeen, payment)
	s.nodes[1].honest()
	s.settle()
}

// A head that goes back a little takes nothing back; a chain that does not reach so far any more stands for nothing.
func TestAPaymentStaysConfirmedWhileItsBlockStands(t *testing.T) {
	t.Parallel()
	s := openAt(t, 2, Safe)
	s.round()
	payment := s.paid()
	s.requireStatus(ledger.StatusSeen, payment)
	require.Empty(t, s.confirmed())
	s.chain.mine(2)
	s.chain.safe = s.chain.head()
	s.requireRightAfterRound()
	s.chain.safe -= 3
	s.requireRightAfterRound()
	require.False(t, s.row(payment).Final)
	s.requireObserved()

	moved := s.chain.rewind(3)
	s.requireError("lagging "+both, false)
	s.requireStatus(ledger.StatusSeen, payment)
	s.chain.mineFinal(3, moved...)
	s.settle()
}

// An endpoint that lags has nothing to say of what it has not reached. Alone it confirms nothing.
func TestAnEndpointThatLagsDeniesNothing(t *testing.T) {
	t.Parallel()
	for endpoints, status := range map[int]ledger.Status{1: ledger.StatusSeen, 2: ledger.StatusConfirmed} {
		s := openRead(t, endpoints)
		payment := s.paid()
		s.nodes[endpoints-1].branch = s.chain.fork()
		s.nodes[endpoints-1].rewind(1)
		s.restart()
		s.requireError("lagging "+[]string{"(one.example)", both}[endpoints-1], false)
		s.requireStatus(status, payment)
		s.nodes[endpoints-1].branch = s.chain
		s.settle()
	}
}

// The lower one of two heads holds, until it has stood still for a minute.
func TestAnEndpointThatStandsStillIsLeftOut(t *testing.T) {
	s := openReadBeside(t, 2)
	s.nodes[1].branch = s.chain.fork()
	payment := s.paid()
	require.Empty(t, s.rows())
	s.now += stalledAfter - 2*every
	s.round()
	require.Empty(t, s.rows(), "not yet")
	s.requireError("lagging (two.example)", false)
	s.requireStatus(ledger.StatusSeen, payment)

	// One that goes on again is asked again.
	s.nodes[1].branch = s.chain
	s.settle()
}

// A receipt counts at the level that was configured, and is final where the chain is.
func TestAPaymentCountsAtItsLevelOfFinality(t *testing.T) {
	t.Parallel()
	for _, endpoints := range []int{1, 2, 3} {
		for level, confirmed := range map[Level][]bool{Latest: {true, true, true}, Safe: {false, true, true}, Finalized: {false, false, true}} {
			s := openAt(t, endpoints, level)
			s.round()
			payment := s.chain.pay(price)
			for i, advance := range []func(){func() {}, func() { s.chain.safe++ }, func() { s.chain.final++ }} {
				advance()
				s.round()
				status := map[bool]ledger.Status{true: ledger.StatusConfirmed, false: ledger.StatusSeen}[confirmed[i]]
				s.requireStatus(status, payment)
				require.Equal(t, i == 2, s.row(payment).Final)
			}
		}
	}
}

// An endpoint shows receipts of blocks that were left behind: only what stands in a block of its chain counts.
func TestAReceiptOfAnAbandonedBlockIsIgnored(t *testing.T) {
	s := openReadBeside(t, 1)
	payment := s.paid()
	old := s.nodes[0].showReceipt(payment.hash)
	s.chain.rewind(1)
	s.chain.mine(1)
	s.nodes[0].answer("eth_getTransactionReceipt", old)
	s.round()
	s.requireStatus(ledger.StatusDropped, payment)
	s.requireRight()
}
