package evm

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// street is a chain at work for the accounts of several offers.
type street struct {
	*till
	ctx    context.Context
	reader *Chain
	work   sync.WaitGroup
}

// house is an offer of the street.
type house struct {
	*Observer
	s   *street
	id  string
	to  common.Address
	end func() // its observer
}

// onStreet runs a test in simulated time with so many offers.
func onStreet(t *testing.T, endpoints, houses int, test func(t *testing.T, s *street, all []*house)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &street{till: open(t, endpoints)}
		start := time.Now()
		s.config.Now = func() time.Time { return s.clock().Add(time.Since(start)) }
		ctx, cancel := context.WithCancel(t.Context())
		defer s.work.Wait()
		defer cancel()
		s.ctx = ctx
		c := s.config.ChainConfig
		c.Network, c.Random = s.config.USDC.Network, func() float64 { return 0 }
		var err error
		s.reader, err = NewChain(c)
		require.NoError(t, err)
		s.work.Go(func() { s.reader.Run(ctx) })
		var all []*house
		for n := range houses {
			all = append(all, s.build(n, nil))
		}
		s.elapse(2 * watchEvery)
		test(t, s, all)
	})
}

// build starts the observer of an offer, as the settings say that are changed.
func (s *street) build(n int, change func(*Config)) *house {
	s.Helper()
	h := &house{s: s, id: fmt.Sprintf("offer-%d", n), to: common.BigToAddress(common.Big256)}
	h.to[0], h.to[1], h.to[2] = 0xaa, byte(n>>8), byte(n)
	usdc, err := offer.NewUSDC("usdc", s.config.USDC.Network, h.to.Hex(), 42_00)
	require.NoError(s, err)
	require.NoError(s, s.db.Register(s.Context(), ledger.Account{
		Offer: h.id, ID: usdc.Account(), Rail: "usdc", Testnet: true, Since: s.config.Now().Unix(),
	}))
	config := s.config
	config.OfferID, config.USDC, config.Chain, config.Confirm = h.id, usdc, s.reader, Latest
	if change != nil {
		change(&config)
	}
	h.Observer, err = New(config)
	require.NoError(s, err)
	ctx, cancel := context.WithCancel(s.ctx)
	ended := make(chan struct{})
	s.work.Go(func() { h.Observer.Run(ctx); close(ended) })
	h.end = func() { cancel(); <-ended }
	synctest.Wait()
	return h
}

// pay mines a payment to the offer.
func (h *house) pay() {
	synctest.Wait()
	h.s.chain.mine(1, h.s.chain.transaction(sends(payer, h.to, price)))
}

// requirePaid requires, after a while, the statuses of what the offer was paid, the newest first.
func (h *house) requirePaid(after time.Duration, want ...ledger.Status) {
	h.s.Helper()
	h.s.elapse(after)
	rows, err := h.s.db.Receipts(h.s.Context(), h.id, 0, 100)
	require.NoError(h.s, err)
	var all []ledger.Status
	for _, row := range rows {
		all = append(all, row.Status)
	}
	require.Equal(h.s, want, all)
}

// requests counts what all endpoints were asked.
func (s *street) requests() (all int) {
	for _, n := range s.nodes {
		n.mu.Lock()
		for _, count := range n.calls {
			all += count
		}
		n.mu.Unlock()
	}
	return all
}

// However many accounts are read, and whether they are paid, an endpoint is asked about as often.
func TestAccountsShareRequests(t *testing.T) {
	t.Parallel()
	measure := func(houses, payments int) (requests int) {
		onStreet(t, 2, houses, func(_ *testing.T, s *street, all []*house) {
			before := s.requests()
			for n := range 10 {
				for range payments {
					all[n%houses].pay()
				}
				s.chain.mine(30)
				s.elapse(time.Minute)
			}
			requests = s.requests() - before
		})
		return requests
	}
	idle := measure(1, 0)
	require.InDelta(t, 2*10*15*4, idle, 40, "three heads and the logs in each cycle")
	require.Equal(t, idle, measure(100, 0))
	require.InDelta(t, idle, measure(1, 1), 45)
	require.InDelta(t, idle, measure(100, 1), 60)
}

func TestPaymentToAnyAccountIsFound(t *testing.T) {
	t.Parallel()
	onStreet(t, 2, widthMost+5, func(t *testing.T, s *street, all []*house) {
		for _, n := range []int{0, widthMost - 1, widthMost + 4} {
			all[n].pay()
			all[n].requirePaid(watchEvery, ledger.StatusConfirmed)
		}
		all[1].requirePaid(0)
		require.Equal(t, "block 402", all[7].Health().ObservedThrough)
	})
}

// A reload replaces observers while the chain is read.
func TestAccountsComeAndGo(t *testing.T) {
	t.Parallel()
	onStreet(t, 2, 3, func(t *testing.T, s *street, all []*house) {
		removed, changed := all[0], all[1]
		removed.end()
		next := s.build(1, func(c *Config) { c.Confirm = Finalized }) // the old one still runs
		changed.end()
		next.pay()
		removed.pay()
		next.requirePaid(watchEvery, ledger.StatusSeen)
		removed.requirePaid(0)
		s.chain.finalize()
		next.requirePaid(watchEvery, ledger.StatusConfirmed)
		next.end()
		all[2].end()
		before := s.requests()
		s.elapse(time.Minute)
		require.Equal(t, before, s.requests(), "nothing is read for nobody")
		s.build(0, nil).requirePaid(watchEvery, ledger.StatusConfirmed) // what came meanwhile
	})
}

// Nobody waits for who is behind.
func TestAccountBehindCatchesUp(t *testing.T) {
	t.Parallel()
	onStreet(t, 2, 3, func(t *testing.T, s *street, all []*house) {
		s.chain.mineFinal(1)
		s.elapse(2 * cursorEvery)
		late := all[2]
		late.end()
		s.chain.mine(28 * spanMost)
		late.pay()
		s.chain.mineFinal(2 * spanMost)
		s.now.Add(int64(time.Duration(30*spanMost*blockTime) * time.Second))
		s.elapse(time.Minute)
		var slow atomic.Int64
		for _, n := range s.nodes {
			n.on("eth_getLogs", func(c call, pass func() any) any {
				if c.query().FromBlock < 28*spanMost {
					slow.Add(1)
					time.Sleep(3 * time.Second)
				}
				return pass()
			})
		}
		late = s.build(2, nil)
		late.requirePaid(time.Minute)
		require.True(t, late.Health().Partial)
		all[1].pay()
		all[1].requirePaid(6*watchEvery, ledger.StatusConfirmed)
		late.requirePaid(5*time.Minute, ledger.StatusConfirmed)
		require.Greater(t, slow.Load(), int64(10))
		s.elapse(2 * watchEvery)
		require.False(t, late.Health().Partial)
	})
}

// An origin that another instance lowers is read from there.
func TestLoweredOriginIsReread(t *testing.T) {
	t.Parallel()
	onStreet(t, 1, 2, func(t *testing.T, s *street, all []*house) {
		h := all[1]
		synctest.Wait()
		hidden := s.chain.transaction(sends(payer, h.to, price))
		s.chain.mine(1, hidden)
		s.nodes[0].hide(hidden)
		s.chain.mineFinal(5)
		h.requirePaid(2 * cursorEvery)
		s.nodes[0].honest()
		h.requirePaid(time.Minute)
		lowered, err := s.db.Ledger.LowerOrigin(t.Context(), h.id, h.account, "1")
		require.NoError(t, err)
		require.True(t, lowered)
		h.requirePaid(2*watchEvery, ledger.StatusConfirmed)
	})
}

// Thousands of transfers in one range, of which a provider shows at most a thousand: it says so, or cuts its answer off.
func TestManyTransfersInOneRange(t *testing.T) {
	t.Parallel()
	for most, f := range map[int]any{20_000: fault{code: -32005, words: "query returned more than 1000 results"}, 4000: nil} {
		t.Run(fmt.Sprint(most), func(t *testing.T) {
			t.Parallel()
			s := openRead(t, 1)
			for range 200 {
				var batch []event
				for range most / 200 {
					batch = append(batch, sends(payer, payTo, price)...)
				}
				s.chain.mine(1, s.chain.transaction(batch))
			}
			s.chain.finalize()
			for _, n := range s.nodes {
				n.on("eth_getLogs", func(_ call, pass func() any) any {
					shown := pass().([]object)
					if len(shown) <= 1000 {
						return shown
					}
					if f != nil {
						return f
					}
					return shown[:1000]
				})
			}
			require.NoError(t, s.Poll(t.Context()))
			totals, err := s.db.Totals(t.Context(), offerID)
			require.NoError(t, err)
			require.Len(t, totals, 1)
			require.EqualValues(t, most, totals[0].Count)
			require.EqualValues(t, most*price, totals[0].Amount)
			require.Equal(t, s.chain.head(), s.cursor())
		})
	}
}

// A start long after from_block reads everything since.
func TestStartLongAfterFromBlock(t *testing.T) {
	s := openBeside(t, 2)
	first := s.chain.pay(price)
	s.chain.mine(100_000)
	middle := s.chain.pay(price)
	s.chain.mineFinal(100_000)
	last := s.chain.pay(price)
	s.now.Add(int64(time.Duration(s.chain.head()*blockTime) * time.Second))
	s.lower(400)
	require.NoError(t, s.Poll(t.Context()))
	for tx, final := range map[*transaction]bool{first: true, middle: true, last: false} {
		s.requireStatus(ledger.StatusConfirmed, tx)
		require.Equal(t, final, s.row(tx).Final)
	}
	require.Less(t, s.nodes[0].count("eth_getLogs"), 100)
}

// An endpoint that hangs delays nothing once it is not waited for.
func TestSilentWitnessDelaysNothing(t *testing.T) {
	t.Parallel()
	onStreet(t, 2, 1, func(_ *testing.T, s *street, all []*house) {
		s.nodes[1].answer("*", fault{hangs: true})
		s.elapse(11 * time.Minute)
		var want []ledger.Status
		for range 40 {
			all[0].pay()
			want = append(want, ledger.StatusConfirmed)
			all[0].requirePaid(watchEvery, want...)
		}
	})
}
