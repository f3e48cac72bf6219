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
