package bitcoin

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/btcsuite/btcd/address/v2"
	"github.com/btcsuite/btcd/chaincfg/v2"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/cases"
	"github.com/payoffer/caddy-pay-offer/payoffer/rate"
)

func TestTheAddressAdvancesOnlyWhenItWasPaid(t *testing.T) {
	t.Parallel()
	b, chain := newBench(t, zpub), newFakeIndex(t, 100)
	o := b.observer(chain)
	require.Empty(t, o.Address(), "nobody has looked at the chain")
	b.round(o)
	// The first addresses of BIP-84's test vectors.
	require.Equal(t, "bc1qcr8te4kr609gcawutmrza0j4xv80jy8z306fyu", o.Address())
	require.Equal(t, 1, b.changes)
	b.round(o)
	require.Equal(t, 1, b.changes)

	tx := pay("first", b.at(0), 1000)
	chain.setPool(tx)
	b.round(o)
	require.Equal(t, "bc1qnjg0jd8228aq7egyzacy8cys3knf9xvrerkf9g", o.Address(), "the mempool is enough")
	require.Equal(t, 2, b.changes)
	b.requireState("first", ledger.StatusSeen)
	chain.setPool()
	chain.bury(1, tx)
	b.round(o)
	require.Equal(t, b.at(1), o.Address(), "by one")
	b.requireState("first", ledger.StatusConfirmed)
	require.Equal(t, b.at(1), b.observer(chain).Address(), "known at once after a restart")
}

func TestARestoredAccountUsesNoAddressTwice(t *testing.T) {
	t.Parallel()
	b, chain := newBench(t, zpub), newFakeIndex(t, 100)
	for _, index := range []uint32{0, 3, 22, 41} { // 42 to 61 are the gap that ends the search
		chain.mine(pay(fmt.Sprint(index), b.at(index), 1000))
	}
	chain.mine(pay("beyond", b.at(62), 1000))
	b.newLedger(start.Add(time.Hour).Unix())
	o := b.observer(chain)
	chain.setFault(answer("/address/"+b.at(50), 503, ""))
	require.Error(t, o.Poll(t.Context()))
	require.Empty(t, o.Address(), "a search that failed proves nothing")
	chain.setFault(nil)
	b.clock.Pass(maxPause)
	b.round(o)
	require.Equal(t, b.at(42), o.Address())
	b.rows() // all of it is older than the first start

	// The ledger is put back to an old copy, as from a backup: the chain knows better.
	for index := uint32(42); index < 50; index++ {
		chain.mine(pay(fmt.Sprint("new", index), b.at(index), 1000))
	}
	b.round(b.observer(chain))
	cursor, _, err := b.db.Cursor(t.Context(), testOffer, b.rail.Account())
	require.NoError(t, err)
	require.JSONEq(t, `{"height":101,"index":63}`, cursor.Position)
	cursor.Position = `{"height":101,"index":44}`
	_, err = b.db.Record(t.Context(), &cursor)
	require.NoError(t, err)
	restored := b.observer(chain)
	require.Equal(t, b.at(44), restored.Address())
	b.round(restored)
	require.Equal(t, b.at(63), restored.Address())
}

func TestALongSearchTakesSeveralCycles(t *testing.T) {
	t.Parallel()
	b, chain := newBench(t, zpub), newFakeIndex(t, 100)
	for index := range uint32(300) {
		chain.mine(pay(fmt.Sprint(index), b.at(index), 1000))
	}
	o := b.hosts(chain, chain)
	require.NoError(t, o.Poll(t.Context()))
	require.True(t, o.Health().Blind)
	require.Empty(t, o.Address())
	b.round(o)
	require.Equal(t, b.at(300), o.Address())
	require.True(t, o.Health().Partial, "old addresses were not read yet")
	for range 20 {
		b.round(o)
	}
	require.False(t, o.Health().Partial)
}

// Payments that vanish from the mempool must not lead the address out of the
// wallet's sight, which ends 20 addresses after the last one paid to.
func TestVanishingPaymentsDoNotPassTheGapLimit(t *testing.T) {
	t.Parallel()
	b, chain := newBench(t, zpub), newFakeIndex(t, 100)
	chain.mine(pay("old", b.at(4), 1000))
	b.newLedger(start.Add(time.Hour).Unix())
	o := b.observer(chain)
	b.round(o)
	var names []string
	for i := range 30 {
		names = append(names, fmt.Sprint("p", i))
		chain.setPool(pay(names[i], o.Address(), 1000))
		b.round(o)
	}
	require.Equal(t, b.at(24), o.Address())
	chain.setPool()
	chain.mine(pay("real", b.at(24), 1000))
	b.round(o)
	require.Equal(t, b.at(25), o.Address())
	require.Equal(t, ledger.StatusSeen, b.rows(append(names, "real")...)["real"].Status)
}

func TestOldAddressesAreReadHourlyForGood(t *testing.T) {
	b, chain, o := observedBeside(t, zpub)
	var names []string
	for i := range uint32(30) {
		names = append(names, fmt.Sprint("p", i))
		chain.mine(pay(names[i], b.at(i), 1000))
		b.round(o)
	}
	require.Equal(t, b.at(30), o.Address())
	b.round(o)
	chain.called()
	b.round(o)
	calls := chain.called()
	require.Zero(t, count(calls, "/address/"+b.at(9)), "old")
	require.Equal(t, 1, count(calls, "/address/"+b.at(10)), "one of the last 20")

	// So long ago that every position of the observer has passed it.
	chain.bury(50, pay("late", b.at(2), 7000))
	b.clock.Pass(slowEvery)
	b.round(o)
	late := b.rows(append(names, "late")...)["late"]
	require.Equal(t, ledger.StatusConfirmed, late.Status)
	require.Equal(t, int64(7000), late.Amount)
}

// The other instance's endpoint has not heard of the payment.
func TestInstancesDoNotMoveEachOtherBack(t *testing.T) {
	t.Parallel()
	b, chain, deaf := newBench(t, zpub), newFakeIndex(t, 100), newFakeIndex(t, 100)
	one, two := b.observer(chain), b.observer(deaf)
	b.round(one)
	b.round(two)
	chain.setPool(pay("p", b.at(0), 1000))
	b.round(one)
	b.round(two)
	require.Equal(t, b.at(1), two.Address())
	b.round(one)
	require.Equal(t, b.at(1), one.Address())

	// The other one reads the ledger, then this one records, then the other.
	chain.setPool(pay("q", b.at(1), 1000))
	recorded := false
	two.config.Ledger = hook{Ledger: two.config.Ledger, starts: sync.OnceFunc(func() {
		recorded = true
		b.round(one)
	})}
	b.clock.Pass(time.Minute)
	require.NoError(t, two.Poll(t.Context()))
	require.True(t, recorded)
	require.Equal(t, b.at(2), one.Address())
	require.Equal(t, b.at(2), two.Address())
	require.Equal(t, b.at(2), b.observer(chain).Address())
}

// crowd are many offers that are read at the same indexes.
type crowd struct {
	*testing.T
	db        *ledger.Ledger
	network   []*fakeIndex
	observers []*Observer
	addresses []string
	began     time.Time
}

// now goes with simulated time.
func (c *crowd) now() time.Time { return start.Add(time.Since(c.began)) }

// inCrowd runs a test in simulated time with so many offers, all of which were read once.
func inCrowd(t *testing.T, offers int, test func(t *testing.T, c *crowd)) {
	t.Helper()
	n := newNetwork(t, 2, 100)
	synctest.Test(t, func(t *testing.T) {
		c := &crowd{T: t, network: n, began: time.Now()}
		b := newBench(t, single)
		c.db = b.db
		indexes := NewIndexes(c.now)
		ctx, cancel := context.WithCancel(t.Context())
		var work sync.WaitGroup
		defer work.Wait()
		defer cancel()
		for i := range offers {
			o := c.observer(i, indexes)
			work.Go(func() { o.Run(ctx) })
		}
		c.elapse(time.Duration(offers) * idleEvery)
		test(t, c)
	})
}

func (c *crowd) observer(i int, indexes *Indexes) *Observer {
	c.Helper()
	key := [20]byte{byte(i >> 8), byte(i), 1}
	a, err := address.NewAddressWitnessPubKeyHash(key[:], &chaincfg.MainNetParams)
	require.NoError(c, err)
	rail, err := offer.NewBitcoin(a.EncodeAddress(), "", 4200)
	require.NoError(c, err)
	id := fmt.Sprint("offer-", i)
	require.NoError(c, c.db.Register(c.Context(), ledger.Account{Offer: id, ID: rail.Account(), Rail: rail.Name(), Since: start.Unix()}))
	o, err := New(Config{
		OfferID: id, Rail: rail, Endpoints: []string{"https://a.example", "https://b.example"}, Indexes: indexes, Confirmations: 2,
		Rate:   func() (rate.Rate, bool) { return rate.Rate{}, false },
		Ledger: c.db, Now: c.now,
		Transport: transport(func(r *http.Request) (*http.Response, error) {
			answer := httptest.NewRecorder()
			c.network[r.URL.Host[0]-'a'].ServeHTTP(answer, r)
			return answer.Result(), nil
		}),
	})
	require.NoError(c, err)
	c.observers, c.addresses = append(c.observers, o), append(c.addresses, a.EncodeAddress())
	return o
}

// elapse lets simulated time pass.
func (c *crowd) elapse(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// mine adds a block at all indexes.
func (c *crowd) mine(txs ...fakeTx) {
	for _, n := range c.network {
		n.mine(txs...)
	}
}

// receipts are the statuses of what an offer was paid.
func (c *crowd) receipts(i int) (all []ledger.Status) {
	c.Helper()
	rows, err := c.db.Receipts(c.Context(), fmt.Sprint("offer-", i), 0, 10)
	require.NoError(c, err)
	for _, row := range rows {
		all = append(all, row.Status)
	}
	return all
}

func TestAnIndexIsNotAskedMoreOftenForMoreAccounts(t *testing.T) {
	t.Parallel()
	calls, many := make(map[int]int), []int{20, 80, 160}[:cases.Of(1, 3, 3)]
	for _, offers := range append([]int{1}, many...) {
		inCrowd(t, offers, func(t *testing.T, c *crowd) {
			c.network[0].called()
			for range 2 {
				c.elapse(5 * time.Minute)
				c.mine()
			}
			called := c.network[0].called()
			calls[offers] = len(called)
			for _, o := range c.observers {
				require.Equal(t, observe.Health{}.LastError, o.Health().LastError)
				require.False(t, o.Health().Blind)
				require.False(t, o.Health().Partial)
			}
			for _, a := range c.addresses {
				require.GreaterOrEqual(t, count(called, "/address/"+a), int(10*time.Minute/max(pollEvery, time.Duration(offers)*idleEvery*5/4))-1)
			}
			t.Logf("%d accounts: %d calls in 10 minutes, %d of them about blocks", offers, len(called), len(called)-count(called, "/address/"))
		})
	}
	const perAddress = 10 * time.Minute / idleEvery
	for _, offers := range many {
		require.LessOrEqual(t, calls[offers], int(perAddress)+5*40, "an address takes turns, and blocks are asked for every fifteen seconds")
	}
	require.Less(t, calls[20], 8*calls[1])
}

func TestAPaymentToAnyAccountIsFoundInTurnAndThenFollowedSoon(t *testing.T) {
	t.Parallel()
	offers := cases.Of(30, 120, 120)
	inCrowd(t, offers, func(t *testing.T, c *crowd) {
		for _, i := range []int{0, offers / 2, offers - 1} {
			p := pay(fmt.Sprint("p", i), c.addresses[i], 100_000)
			for _, n := range c.network {
				n.setPool(p)
			}
			for seconds := 0; len(c.receipts(i)) == 0; seconds++ {
				require.Less(t, seconds, 120, "every account has its turn")
				c.elapse(time.Second)
			}
			require.Equal(t, []ledger.Status{ledger.StatusSeen}, c.receipts(i))
			c.mine(p)
			c.mine()
			c.elapse(pollEvery)
			require.Equal(t, []ledger.Status{ledger.StatusConfirmed}, c.receipts(i), "it takes no turns while it is waited for")
			for _, n := range c.network {
				n.rewind(2)
			}
			for range 4 {
				c.mine()
			}
			c.elapse(2 * pollEvery)
			require.NotEqual(t, []ledger.Status{ledger.StatusConfirmed}, c.receipts(i), "its block has left the chain")
			c.mine(p)
			c.mine()
			c.elapse(2 * pollEvery)
			require.Equal(t, []ledger.Status{ledger.StatusConfirmed}, c.receipts(i))
		}
		for i := range offers {
			require.Len(t, c.receipts(i), map[int]int{0: 1, offers / 2: 1, offers - 1: 1}[i])
		}
	})
}
