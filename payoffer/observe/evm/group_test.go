package evm

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/cases"
)

// street are many offers whose rails are read at the same endpoints of one chain.
type street struct {
	*till
	ctx    context.Context
	reader *Chain
	houses []*house
	work   sync.WaitGroup
}

// house is an offer of the street.
type house struct {
	*Observer
	s    *street
	id   string
	to   common.Address
	move func() // out of the street
}

// onStreet runs a test in simulated time with so many offers at rest.
func onStreet(t *testing.T, endpoints, houses int, test func(t *testing.T, s *street)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &street{till: open(t, endpoints)}
		start := time.Now()
		s.config.Now = func() time.Time { return s.clock().Add(time.Since(start)) }
		ctx, cancel := context.WithCancel(t.Context())
		defer s.work.Wait()
		defer cancel()
		s.ctx = ctx
		s.open()
		for range houses {
			s.build(len(s.houses), nil)
		}
		s.elapse(2 * watchEvery)
		test(t, s)
	})
}

// open makes what reads the chain, and runs it. Its rounds are exactly watchEvery apart, because tests count them.
func (s *street) open() {
	s.Helper()
	var err error
	s.reader, err = NewChain(ChainConfig{
		Network: s.config.USDC.Network, Endpoints: s.config.Endpoints, Ledger: s.db,
		Transport: s.nodes, Now: s.config.Now, Random: func() float64 { return 0 }, Logger: s.config.Logger,
	})
	require.NoError(s, err)
	s.work.Go(func() { s.reader.Run(s.ctx) })
}

// build adds an offer, as the settings say that are changed.
func (s *street) build(number int, change func(*Config)) *house {
	s.Helper()
	h := &house{s: s, id: fmt.Sprintf("offer-%d", number), to: common.BigToAddress(common.Big256)}
	h.to[0], h.to[1], h.to[2] = 0xaa, byte(number>>8), byte(number)
	usdc, err := offer.NewUSDC("usdc", s.config.USDC.Network, h.to.Hex(), 42_00)
	require.NoError(s, err)
	require.NoError(s, s.db.Register(s.Context(), ledger.Account{
		Offer: h.id, ID: usdc.Account(), Rail: "usdc", Testnet: true, Since: s.config.Now().Unix(),
	}))
	config := Config{OfferID: h.id, USDC: usdc, Chain: s.reader, Confirm: Latest, Ledger: s.db, Now: s.config.Now, Logger: s.config.Logger}
	if change != nil {
		change(&config)
	}
	h.Observer, err = New(config)
	require.NoError(s, err)
	h.run()
	s.houses = append(s.houses, h)
	synctest.Wait() // until it has looked at the chain, which the test is about to change
	return h
}

// run has the observer of an offer at work until it moves out.
func (h *house) run() {
	ctx, cancel := context.WithCancel(h.s.ctx)
	ended := make(chan struct{})
	h.s.work.Go(func() { h.Observer.Run(ctx); close(ended) })
	h.move = func() { cancel(); <-ended }
}

// pay mines a payment to the offer.
func (h *house) pay() *transaction {
	synctest.Wait()
	tx := h.s.chain.transaction(transfer(payer, h.to, price))
	h.s.chain.mine(1, tx)
	return tx
}

// receipts are the statuses of what the offer was paid.
func (h *house) receipts() (all []ledger.Status) {
	h.s.Helper()
	rows, err := h.s.db.Receipts(h.s.Context(), h.id, 0, 100)
	require.NoError(h.s, err)
	for _, row := range rows {
		all = append(all, row.Status)
	}
	return all
}

// requirePaid requires, after a while, the status of what the offer was paid once.
func (h *house) requirePaid(after time.Duration, status ledger.Status) {
	h.s.Helper()
	h.s.elapse(after)
	require.Equal(h.s, []ledger.Status{status}, h.receipts())
}

// at is where its cursor stands; empty for none.
func (h *house) at() string {
	h.s.Helper()
	c, _, err := h.s.db.Ledger.Cursor(h.s.Context(), h.id, h.account)
	require.NoError(h.s, err)
	return c.Position
}

// requireIdle requires that all but so many offers are at rest, and that they claim to know all up to the head.
func (s *street) requireIdle(but int) {
	s.Helper()
	require.Len(s, s.reader.idleAccounts(), len(s.houses)-but)
	for e := range s.reader.idleAccounts() {
		require.Equal(s, observe.Health{
			Rail: "usdc", Source: "chain", ObservedThrough: fmt.Sprintf("block %d", s.chain.head()), At: min(s.chain.blocks[s.chain.head()].time, s.config.Now().Unix()),
		}, e.Health())
	}
}

// calls are those that an endpoint was asked.
func (s *street) calls() (n int) {
	s.nodes[0].mu.Lock()
	defer s.nodes[0].mu.Unlock()
	for _, count := range s.nodes[0].calls {
		n += count
	}
	return n
}

func TestManyIdleAccountsCauseFewCalls(t *testing.T) {
	t.Parallel()
	type cost struct{ start, calls, ledger int }
	measure := func(houses int) (c cost) {
		onStreet(t, 2, houses, func(t *testing.T, s *street) {
			s.requireIdle(0)
			c.start = s.calls()
			calls, asked := s.calls(), s.db.asked.Load()
			for range 20 {
				s.chain.mineFinal(5)
				s.elapse(10 * time.Second)
			}
			s.elapse(cursorEvery)
			s.requireIdle(0)
			require.Equal(t, fmt.Sprint(s.chain.head()), s.houses[houses-1].at(), "the cursor goes on")
			c.calls, c.ledger = s.calls()-calls, int(s.db.asked.Load()-asked)
		})
		return c
	}
	houses := cases.Of(20, 200, 200)
	one, many, most := measure(1), measure(houses), measure(widthMost+1)
	t.Logf("an endpoint and the ledger for 1, %d and %d offers: %+v, %+v, %+v", houses, widthMost+1, one, many, most)
	require.InDelta(t, one.start, many.start, 10)
	require.InDelta(t, one.calls, many.calls, float64(one.calls)/20)
	require.InDelta(t, one.ledger, many.ledger, float64(one.ledger)/20)
	require.Less(t, most.calls, 2*one.calls)
	require.InDelta(t, one.ledger, most.ledger, float64(one.ledger)/20)
}

func TestAPaymentToAnyOfManyIsFoundAndFollowedToTheEnd(t *testing.T) {
	t.Parallel()
	for _, endpoints := range []int{1, 2, 3} {
		t.Run(fmt.Sprint(endpoints, " endpoints"), func(t *testing.T) {
			onStreet(t, endpoints, 20, func(t *testing.T, s *street) {
				for _, n := range []int{0, 7, 19} {
					h := s.houses[n]
					s.chain.mine(1)
					h.pay()
					h.requirePaid(watchEvery, ledger.StatusConfirmed)
					s.requireIdle(1)
					s.chain.mineFinal(3)
					s.elapse(2 * watchEvery)
					s.requireIdle(0)
				}
				s.elapse(cursorEvery)
				for _, h := range s.houses {
					require.Equal(t, fmt.Sprint(s.chain.head()), h.at())
				}
				// Once more at the same offer, and at two in one block.
				tx := s.chain.transaction(transfer(payer, s.houses[7].to, price), transfer(payer, s.houses[8].to, price))
				s.chain.mine(1, tx)
				s.elapse(watchEvery)
				require.Len(t, s.houses[7].receipts(), 2)
				require.Len(t, s.houses[8].receipts(), 1)
				s.requireIdle(2)
			})
		})
	}
}

func TestAPaymentThatLeavesTheChainIsDroppedAndMayReturn(t *testing.T) {
	t.Parallel()
	onStreet(t, 2, 5, func(t *testing.T, s *street) {
		h := s.houses[3]
		h.pay()
		h.requirePaid(watchEvery, ledger.StatusConfirmed)
		gone := s.chain.rewind(1)
		s.chain.mine(2)
		h.requirePaid(watchEvery, ledger.StatusDropped)
		s.requireIdle(1)
		s.chain.mine(1, gone...)
		h.requirePaid(watchEvery, ledger.StatusConfirmed)
	})
}

func TestAnAccountBehindDelaysNoOtherAndCatchesUp(t *testing.T) {
	t.Parallel()
	onStreet(t, 2, 5, func(t *testing.T, s *street) {
		late := s.houses[4]
		s.chain.mineFinal(1)
		s.elapse(cursorEvery + watchEvery)
		require.NotEmpty(t, late.at())
		late.move()
		s.houses = s.houses[:4]
		s.chain.mine(30_000)
		late.pay()
		s.chain.mineFinal(30_000)
		s.now += 60_000 * blockTime * time.Second
		s.elapse(time.Minute)
		s.requireIdle(0)
		other := s.build(4, nil)
		for n := 0; len(other.receipts()) == 0; n++ {
			require.Less(t, n, 100)
			paid := s.houses[n%4]
			before := len(paid.receipts())
			paid.pay()
			s.elapse(watchEvery)
			require.Len(t, paid.receipts(), before+1, "nobody waits for who is behind")
		}
		s.chain.finalize()
		other.requirePaid(2*time.Minute, ledger.StatusConfirmed)
		s.requireIdle(0)
	})
}

func TestAnAccountWhoseOriginIsLoweredIsReadAgain(t *testing.T) {
	t.Parallel()
	onStreet(t, 1, 5, func(t *testing.T, s *street) {
		h := s.houses[1]
		hidden := h.pay()
		s.nodes[0].hide(hidden)
		s.chain.mineFinal(5)
		s.elapse(cursorEvery + watchEvery)
		require.Empty(t, h.receipts())
		s.nodes[0].honest()
		s.elapse(time.Minute)
		require.Empty(t, h.receipts(), "what was final is not read again")
		lowered, err := s.db.Ledger.LowerOrigin(t.Context(), h.id, h.account, "1") // by another instance
		require.NoError(t, err)
		require.True(t, lowered)
		h.requirePaid(2*watchEvery, ledger.StatusConfirmed)
		s.elapse(cursorEvery)
		s.requireIdle(0)
	})
}

func TestAReloadAndARemovedOfferLeaveTheOthersIdle(t *testing.T) {
	t.Parallel()
	onStreet(t, 1, 5, func(t *testing.T, s *street) {
		removed, changed := s.houses[0], s.houses[1]
		s.houses = s.houses[2:]
		removed.move()
		next := s.build(1, func(c *Config) { c.Confirm = Finalized }) // the old one still runs
		changed.pay()
		changed.move()
		removed.pay()
		next.requirePaid(2*watchEvery, ledger.StatusSeen)
		require.Empty(t, removed.receipts())
		s.requireIdle(1)
		s.chain.finalize()
		next.requirePaid(2*watchEvery, ledger.StatusConfirmed)
		s.requireIdle(0)

		again := s.build(0, nil)
		s.elapse(2 * watchEvery)
		require.Equal(t, []ledger.Status{ledger.StatusConfirmed}, again.receipts(), "what came meanwhile is not lost")
	})
}

func TestAnEndpointThatTakesFewAccountsIsAskedForFew(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]fault{
		"geth":        {code: -32602, words: "exceed max topics"},
		"a status":    {status: 400},
		"large calls": {status: 413},
	} {
		t.Run(name, func(t *testing.T) {
			onStreet(t, 2, 30, func(t *testing.T, s *street) {
				s.nodes[0].on("eth_getLogs", func(c call, pass func() any) any {
					for _, topic := range c.query().Topics {
						if len(topic) > 8 {
							return f
						}
					}
					return pass()
				})
				s.elapse(time.Minute)
				s.requireIdle(0)
				h := s.houses[29]
				h.pay()
				h.requirePaid(watchEvery, ledger.StatusConfirmed)
			})
		})
	}
}

func TestIdleAccountsHaveAWatermark(t *testing.T) {
	t.Parallel()
	onStreet(t, 2, 3, func(t *testing.T, s *street) {
		s.elapse(2 * watchEvery)
		for _, h := range s.houses {
			since, through := h.Covered()
			require.Equal(t, s.chain.head(), through)
			require.EqualValues(t, s.chain.blocks[399].time+1, since)
		}
		s.chain.mine(1)
		s.elapse(watchEvery)
		_, through := s.houses[0].Covered()
		require.Equal(t, s.chain.head()-1, through, "it is read once more before")
		s.elapse(watchEvery)
		_, through = s.houses[0].Covered()
		require.Equal(t, s.chain.head(), through)
	})
}
