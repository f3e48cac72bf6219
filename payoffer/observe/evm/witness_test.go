package evm

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
)

const (
	disagree = "sources_disagree (one.example, two.example)"
	both     = "(one.example, two.example)"
	all      = "(one.example, two.example, three.example)"
	// reported is how many blocks make a contradiction old enough for a report.
	reported = quietFor / blockTime
)

// falsehoods are what an endpoint may show of a payment.
var falsehoods = map[string]func(*transaction){
	"another amount":  func(tx *transaction) { tx.events = sends(payer, payTo, 7*price) },
	"another payer":   func(tx *transaction) { tx.events = sends(stranger, payTo, price) },
	"failed":          func(tx *transaction) { tx.failed = true },
	"another ordinal": func(tx *transaction) { tx.events = slices.Concat(sends(payer, stranger, price), tx.events) },
}

// show has an endpoint show a falsehood of a payment.
func (ti *till) show(n *node, payment *transaction, falsehood func(*transaction)) {
	lie := *payment
	falsehood(&lie)
	n.branch = ti.chain.fork()
	n.replace(payment, &lie)
}

// replace puts another transaction in the place of one.
func (b *branch) replace(old, fresh *transaction) {
	at, _, _ := b.place(old.hash)
	changed := *b.blocks[at]
	changed.transactions = slices.Clone(changed.transactions)
	changed.transactions[slices.Index(changed.transactions, old)] = fresh
	b.blocks[at] = &changed
}

// payment is a payment, in a block that is old enough for a report.
func (ti *till) payment() *transaction {
	tx := ti.chain.pay(price)
	ti.chain.mine(reported)
	return tx
}

// invent has an endpoint show a payment that is not on the chain.
func (ti *till) invent(n *node) (forged *transaction) {
	n.branch = ti.chain.fork()
	at := n.blocks[ti.chain.head()-reported]
	forged = n.transaction(sends(payer, payTo, 9*price))
	changed := *at
	changed.transactions = append(slices.Clone(at.transactions), forged)
	n.blocks[ti.chain.head()-reported] = &changed
	return forged
}

// What becomes of a payment with two endpoints, of which one is not as it should be. Afterwards it is.
func TestPaymentWithTwoEndpoints(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before func(n *node) // the first cycle
		lie    func(s *till, n *node, payment *transaction)
		status ledger.Status // of the payment, after the next cycle
		minute ledger.Status // and after eleven minutes
		says   string        // the log, of the host
	}{
		"honest": {nil, nil, ledger.StatusConfirmed, ledger.StatusConfirmed, ""},
		"dead from the start": {func(n *node) { n.answer("*", fault{}) }, nil,
			ledger.StatusConfirmed, ledger.StatusConfirmed, "unreachable (%s)"},
		"silent from the start": {func(n *node) { n.answer("*", fault{hangs: true}) }, nil,
			ledger.StatusConfirmed, ledger.StatusConfirmed, "unreachable (%s)"},
		"dies": {nil, func(_ *till, n *node, _ *transaction) { n.answer("*", fault{}) },
			ledger.StatusSeen, ledger.StatusConfirmed, "unreachable (%s)"},
		"answers no logs any more": {nil, func(_ *till, n *node, _ *transaction) { n.answer("eth_getLogs", fault{status: 500}) },
			ledger.StatusSeen, ledger.StatusConfirmed, "unreachable (%s)"},
		"is rate-limited": {nil, func(_ *till, n *node, _ *transaction) { n.answer("*", fault{status: 429}) },
			ledger.StatusSeen, ledger.StatusConfirmed, "rate_limited (%s)"},
		"lags": {nil, func(s *till, n *node, _ *transaction) { n.branch = s.chain.fork(); n.rewind(reported + 1) },
			ledger.StatusSeen, ledger.StatusSeen, ""},
		"lags by minutes": {nil, func(s *till, n *node, _ *transaction) {
			n.branch = s.chain.fork()
			n.rewind(reported + 1)
			s.chain.mine(apart)
			s.now.Add(int64(apart * blockTime * time.Second))
		},
			ledger.StatusSeen, ledger.StatusSeen, "lagging (%s)"},
		"is ahead by minutes": {nil, func(s *till, n *node, _ *transaction) { s.skew(n) },
			ledger.StatusSeen, ledger.StatusSeen, "lagging ("},
		"finalizes later": {nil, func(s *till, n *node, _ *transaction) {
			n.withoutTags(s.chain.showBlock("finalized"))
			s.chain.mineFinal(finalApart / 2)
		},
			ledger.StatusConfirmed, ledger.StatusConfirmed, ""},
		"freezes its final blocks": {nil, func(s *till, n *node, _ *transaction) {
			n.withoutTags(s.chain.showBlock("finalized"))
			s.chain.mineFinal(finalApart)
		},
			ledger.StatusConfirmed, ledger.StatusConfirmed, "lagging (%s)"},
		"omits it": {nil, func(_ *till, n *node, payment *transaction) { n.hide(payment) },
			ledger.StatusSeen, ledger.StatusSeen, "two RPC endpoints disagree about a payment"},
		"shows another amount": {nil, func(s *till, n *node, payment *transaction) { s.show(n, payment, falsehoods["another amount"]) },
			ledger.StatusSeen, ledger.StatusSeen, "two RPC endpoints disagree about a payment"},
		"shows another payer": {nil, func(s *till, n *node, payment *transaction) { s.show(n, payment, falsehoods["another payer"]) },
			ledger.StatusSeen, ledger.StatusSeen, "two RPC endpoints disagree about a payment"},
		"shows another ordinal": {nil, func(s *till, n *node, payment *transaction) { s.show(n, payment, falsehoods["another ordinal"]) },
			ledger.StatusSeen, ledger.StatusSeen, "two RPC endpoints disagree about a payment"},
		"shows that it failed": {nil, func(s *till, n *node, payment *transaction) { s.show(n, payment, falsehoods["failed"]) },
			ledger.StatusSeen, ledger.StatusSeen, "two RPC endpoints disagree about a payment"},
		"shows another history": {nil, func(s *till, n *node, _ *transaction) {
			n.atBlock(number(s.cursor()), func(block object) { block["hash"] = common.HexToHash("0xdead").Hex() })
		}, ledger.StatusSeen, ledger.StatusSeen, "sources_disagree (%s)"},
	} {
		for liar := range 2 {
			t.Run(fmt.Sprint(name, " ", liar), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					s := open(t, 2)
					start := time.Now()
					s.config.Now = func() time.Time { return s.clock().Add(time.Since(start)) }
					s.restart()
					n := s.nodes[liar]
					s.chain.mineFinal(1)
					if c.before != nil {
						c.before(n)
					}
					_ = s.look()
					s.chain.mineFinal(1)
					_ = s.look()
					s.chain.mineFinal(1)
					require.NotZero(t, s.cursor())
					payment := s.payment()
					if c.lie != nil {
						c.lie(s, n, payment)
					}
					s.requireWorst(payment, c.status)
					for range 6 {
						s.now.Add(int64(2 * time.Minute))
						_ = s.look()
					}
					s.requireWorst(payment, c.minute)
					if says := strings.ReplaceAll(c.says, "%s", n.host); says != "" {
						require.Equal(t, 1, strings.Count(s.log.String(), says), s.log.String())
					} else {
						require.Empty(t, s.log.String())
					}
					n.honest()
					n.branch = s.chain
					s.now.Add(int64(2 * backoffMost))
					s.upToNow()
				})
			})
		}
	}
}

// upToNow mines until now, and requires that all is right.
func (ti *till) upToNow() {
	ti.Helper()
	for ti.made(ti.chain.head()) < ti.config.Now().Unix() {
		ti.chain.mine(1)
	}
	_ = ti.look()
	ti.requireRightAfterRound()
	require.False(ti, ti.Health().Partial)
}

// requireWorst is a cycle, and requires that a payment has a status and is not counted in another way.
func (ti *till) requireWorst(payment *transaction, status ledger.Status) {
	ti.Helper()
	start := time.Now()
	_ = ti.look()
	require.Less(ti, time.Since(start), 10*time.Second, "how long a cycle takes")
	statuses := map[ledger.Status]bool{}
	for _, row := range ti.rows() {
		require.Equal(ti, payment.hash.Hex(), row.Transaction)
		statuses[row.Status] = true
	}
	require.Equal(ti, map[ledger.Status]bool{status: true}, statuses)
}

// With one endpoint its word is taken, whatever it shows.
func TestPaymentWithOneEndpoint(t *testing.T) {
	s := openReadBeside(t, 1)
	payment := s.payment()
	s.show(s.nodes[0], payment, falsehoods["another amount"])
	s.chain = s.nodes[0].branch
	s.round()
	require.EqualValues(t, 7*price, s.row(payment).Amount)
	s.requireStatus(ledger.StatusConfirmed, payment)
}

// A payment that one endpoint invents counts nowhere, and is dropped once it owns up.
func TestInventedPaymentIsNotCounted(t *testing.T) {
	t.Parallel()
	for _, endpoints := range []int{2, 3} {
		for liar := range 2 {
			s := openRead(t, endpoints)
			s.payment()
			forged := s.invent(s.nodes[liar])
			for range 3 {
				_ = s.look()
				s.requireRight()
				for _, row := range s.rows() {
					require.True(t, row.Transaction != forged.hash.Hex() || row.Status == ledger.StatusSeen)
				}
			}
			s.nodes[liar].branch = s.chain
			s.restart()
			s.settle()
			for _, row := range s.rows() {
				require.Equal(t, row.Transaction == forged.hash.Hex(), row.Status == ledger.StatusDropped)
			}
		}
	}
}

// What was confirmed stays so while one of two denies it, and is not final.
func TestDeniedPaymentStaysConfirmed(t *testing.T) {
	t.Parallel()
	for liar := range 2 {
		s := openRead(t, 2)
		payment := s.paid()
		s.requireRight()
		s.chain.mine(reported)
		s.nodes[liar].hide(payment)
		s.chain.finalize()
		s.restart()
		for range 2 {
			s.requireError(disagree, false)
			s.requireStatus(ledger.StatusConfirmed, payment)
			require.False(t, s.row(payment).Final)
		}
		s.nodes[liar].honest()
		s.settle()
		require.True(t, s.row(payment).Final)
	}
}

// Ranges that are read again say nothing of receipts in other blocks.
func TestRereadRangeKeepsOtherReceipts(t *testing.T) {
	s := openReadBeside(t, 2)
	payment := s.paid()
	s.nodes[0].hide(payment)
	s.restart()
	s.chain.mineFinal(3 * spanMost)
	s.now.Add(int64(3 * spanMost * blockTime * time.Second))
	_ = s.look()
	s.requireStatus(ledger.StatusConfirmed, payment)
	s.lower(1)
	_ = s.look()
	s.requireStatus(ledger.StatusConfirmed, payment)
	require.EqualValues(t, 1, s.row(payment).Version)
}

// An omitted payment has its row before the cursor passes its block.
func TestOmittedPaymentIsFoundBeforeCursor(t *testing.T) {
	t.Parallel()
	for liar := range 2 {
		s := openRead(t, 2)
		payment := s.payment()
		s.nodes[liar].hide(payment)
		s.chain.mineFinal(10)
		for range 5 {
			s.now.Add(int64(cursorEvery))
			s.requireError(disagree, false)
			s.requireStatus(ledger.StatusSeen, payment)
		}
		require.Equal(t, s.chain.head(), s.cursor())
		require.Equal(t, 1, strings.Count(s.log.String(), "disagree about a payment"), s.log.String())
		s.nodes[liar].honest()
		s.settle()
		require.True(t, s.row(payment).Final)
	}
}

// A witness that was away reads what it missed, also after a restart.
func TestReturningWitnessReadsMissedBlocks(t *testing.T) {
	t.Parallel()
	for _, blocks := range []int{20, 3 * spanMost} {
		s := openRead(t, 2)
		s.chain.mineFinal(1)
		s.now.Add(int64(cursorEvery))
		s.round()
		s.nodes[1].answer("*", fault{})
		require.Error(t, s.look())
		s.now.Add(int64(11 * time.Minute))
		require.Error(t, s.look())
		payment := s.payment()
		s.nodes[0].hide(payment)
		s.chain.mineFinal(blocks)
		for range 3 {
			s.now.Add(int64(cursorEvery))
			require.EqualError(t, s.look(), "unreachable (two.example)")
		}
		require.Equal(t, s.chain.head(), s.cursor(), "a dead witness is not waited for")
		require.Empty(t, s.rows())
		s.restart()
		require.Error(t, s.look())
		require.Empty(t, s.rows())
		s.nodes[1].honest()
		s.now.Add(int64(2 * backoffMost))
		_ = s.look() // finds that it is back
		s.requireError(disagree, false)
		s.requireStatus(ledger.StatusSeen, payment)
		s.nodes[0].honest()
		s.restart()
		s.upToNow()
		require.True(t, s.row(payment).Final)
	}
}

// A third endpoint decides between two.
func TestThirdEndpointDecides(t *testing.T) {
	t.Parallel()
	lies := map[string]func(s *till, n *node, payment *transaction){
		"hides": func(s *till, n *node, payment *transaction) { n.hide(payment) },
		"another block": func(s *till, n *node, _ *transaction) {
			n.branch = s.chain.fork()
			moved := n.rewind(reported + 1)
			n.mine(reported+1, moved...)
		},
	}
	for name, falsehood := range falsehoods {
		lies[name] = func(s *till, n *node, payment *transaction) { s.show(n, payment, falsehood) }
	}
	for name, lie := range lies {
		for liar := range 3 {
			t.Run(fmt.Sprint(name, " ", liar), func(t *testing.T) {
				s := openReadBeside(t, 3)
				payment := s.payment()
				lie(s, s.nodes[liar], payment)
				s.round()
				s.requireRight()
				require.Equal(t, strings.ToLower(payer.Hex()), s.row(payment).Payer)
				s.nodes[liar].branch = s.chain
				s.nodes[liar].honest()
				s.restart()
				s.settle()
			})
		}
	}
}

// Two endpoints on one host are one source.
func TestWitnessIsOnAnotherHost(t *testing.T) {
	s := openReadBeside(t, 2)
	s.config.Endpoints = []string{s.nodes[0].url(), s.nodes[0].url() + "/again", s.nodes[1].url()}
	s.restart()
	s.settle()
	s.payment()
	forged := s.invent(s.nodes[0])
	require.EqualError(t, s.look(), disagree)
	s.requireRight()
	require.Equal(t, ledger.StatusSeen, s.row(forged).Status)
}

// A log of a transaction that nobody knows is no money, and still keeps the rail from claiming to know all.
func TestLogWithoutTransactionIsNotCounted(t *testing.T) {
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

// A receipt counts at the level that was configured, and is final where the chain is.
func TestPaymentCountsAtConfiguredFinality(t *testing.T) {
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

// Logs of an abandoned block make no payment final.
func TestLogOfAbandonedBlockIsNotFinal(t *testing.T) {
	s := openReadBeside(t, 1)
	payment := s.paid()
	abandoned := s.chain.fork()
	s.chain.rewind(1)
	s.chain.mineFinal(2)
	s.nodes[0].on("eth_getLogs", func(c call, _ func() any) any { return abandoned.find(c.query()) })
	_ = s.Poll(t.Context())
	require.False(t, s.row(payment).Final)
	s.nodes[0].honest()
	s.settle()
	s.requireStatus(ledger.StatusDropped, payment)
}

// An endpoint shows receipts of blocks that were left behind: only what stands in a block of its chain counts.
func TestReceiptOfAbandonedBlockIsIgnored(t *testing.T) {
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

// A head that goes back a little takes nothing back, nor does a chain that does not reach so far any more.
func TestConfirmedPaymentSurvivesLowerHead(t *testing.T) {
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
	require.NoError(t, s.Poll(t.Context()))
	s.requireStatus(ledger.StatusConfirmed, payment)
	s.chain.mineFinal(3, moved...)
	s.settle()
}
