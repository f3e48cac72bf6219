package bitcoin

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/btcsuite/btcd/address/v2"
	"github.com/btcsuite/btcd/chaincfg/v2"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

func TestAddressAdvancesAfterPayment(t *testing.T) {
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

func TestRestoredAccountReusesNoAddress(t *testing.T) {
	t.Parallel()
	b, chain := newBench(t, zpub), newFakeIndex(t, 100)
	for _, index := range []uint32{0, 3, 22, 41} { // 42 to 61 are the gap that ends the search
		chain.mine(pay(fmt.Sprint(index), b.at(index), 1000))
	}
	chain.mine(pay("beyond", b.at(62), 1000))
	b.newLedger(start.Add(2 * time.Hour).Unix())
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

func TestAddressSearchContinuesAfterFailure(t *testing.T) {
	t.Parallel()
	b, chain := newBench(t, zpub), newFakeIndex(t, 100)
	for index := range uint32(300) {
		chain.mine(pay(fmt.Sprint(index), b.at(index), 1000))
	}
	o := b.hosts(chain, chain)
	chain.setFault(answer("/address/"+b.at(150), 503, ""))
	require.EqualError(t, o.Poll(t.Context()), "unreachable (a.example)")
	require.True(t, o.Health().Blind)
	require.Empty(t, o.Address())
	chain.setFault(nil)
	chain.called()
	b.clock.Pass(maxPause)
	b.round(o)
	require.Zero(t, count(chain.called(), "/address/"+b.at(100)), "found already")
	require.Equal(t, b.at(300), o.Address())
	b.round(o)
	require.True(t, o.Health().Partial, "old addresses were not read yet")
	for range 20 {
		b.round(o)
	}
	require.False(t, o.Health().Partial)
}

// Payments that vanish from the mempool must not lead the address out of the
// wallet's sight, which ends 20 addresses after the last one paid to.
func TestAddressGapLimitWithVanishingPayments(t *testing.T) {
	t.Parallel()
	b, chain := newBench(t, zpub), newFakeIndex(t, 100)
	chain.mine(pay("old", b.at(4), 1000))
	b.newLedger(start.Add(2 * time.Hour).Unix())
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
	chain.mineEmpty(11)
	chain.mine(pay("real", b.at(24), 1000))
	b.round(o)
	require.Equal(t, b.at(25), o.Address())
	require.Equal(t, ledger.StatusSeen, b.rows(append(names, "real")...)["real"].Status)
}

func TestOldAddressesAreReadHourly(t *testing.T) {
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
	for range slowCycles {
		b.round(o)
	}
	late := b.rows(append(names, "late")...)["late"]
	require.Equal(t, ledger.StatusConfirmed, late.Status)
	require.Equal(t, int64(7000), late.Amount)
}

// The other instance's endpoint has not heard of the payment.
func TestAddressNeverMovesBackBetweenInstances(t *testing.T) {
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
	b.round(two)
	require.Equal(t, b.at(2), two.Address())
	require.Equal(t, b.at(2), b.observer(chain).Address())
}

func TestIdleAccountsBoundCalls(t *testing.T) {
	t.Parallel()
	const accounts, calls = 60, 8 // calls of an idle cycle: four of each endpoint
	n, began := newNetwork(t, 2, 100), time.Time{}
	synctest.Test(t, func(t *testing.T) {
		began = time.Now()
		b, usage := newBench(t, single), new(Usage)
		ctx, cancel := context.WithCancel(t.Context())
		var work sync.WaitGroup
		defer work.Wait()
		defer cancel()
		for i := range byte(accounts) {
			key := [20]byte{i, 1}
			a, err := address.NewAddressWitnessPubKeyHash(key[:], &chaincfg.MainNetParams)
			require.NoError(t, err)
			b.rail, err = offer.NewBitcoin(a.EncodeAddress(), "", 4200)
			require.NoError(t, err)
			require.NoError(t, b.db.Register(t.Context(), ledger.Account{Offer: testOffer, ID: b.rail.Account(), Rail: "btc", Since: start.Unix()}))
			o := b.hosts(n...)
			o.config.Usage, o.config.Now = usage, func() time.Time { return start.Add(time.Since(began)) }
			work.Go(func() { o.Run(ctx) })
		}
		time.Sleep(2 * accounts * idleEvery)
		synctest.Wait()
		for range 2 {
			n[0].called()
			n[1].called()
			time.Sleep(10 * time.Minute)
			synctest.Wait()
			called := len(n[0].called()) + len(n[1].called())
			cycles := int(10 * time.Minute / idleEvery)
			require.Greater(t, called, calls*cycles-calls*accounts)
			require.Less(t, called, calls*cycles*5/4+calls*accounts)
		}
	})
}
