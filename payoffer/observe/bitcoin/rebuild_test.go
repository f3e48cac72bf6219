package bitcoin

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/cases"
	"github.com/payoffer/caddy-pay-offer/payoffer/rate"
)

// A random life is observed as it happens, by processes that come and go. Then
// its ledger is lost, or an older copy of it is put back. Only values are lost.
func TestALostLedgerIsRebuilt(t *testing.T) {
	t.Parallel()
	for n := range cases.Of(3, 10, 300) {
		for _, account := range []string{single, zpub} {
			rebuild(t, account, uint64(n))
		}
	}
}

func rebuild(t *testing.T, account string, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 7))
	b, chain := newBench(t, account), newStandIn(t, 100)
	o := b.hosts(chain, chain)
	b.round(o)
	var names, used []string
	var pool []standInTx
	var copied string
	for i := range 15 + random.IntN(30) {
		current := o.Address()
		if random.IntN(4) == 0 && len(used) > 0 {
			current = used[random.IntN(len(used))]
		}
		used = append(used, current)
		name := fmt.Sprint("p", i)
		// By which quote somebody paid more, a ledger that was lost does not know.
		tx := pay(name, current, 20_000+random.Int64N(31_000))
		switch random.IntN(6) {
		case 0, 1: // at the price of now
			tx.pays[1].Value = rate.Satoshis(4200, b.rate)
			o.Quoted(tx.pays[1].Value, 4200)
		case 2:
			tx.from = scriptOf(current) // moved within the account
		}
		names = append(names, name)
		if random.IntN(3) == 0 {
			chain.mine(tx)
		} else {
			pool = append(pool, tx)
			chain.setPool(slices.Clone(pool)...)
		}
		if random.IntN(2) == 0 {
			b.round(o)
		}
		if random.IntN(4) == 0 && len(pool) > 0 {
			chain.mine(pool...)
			pool = nil
		}
		b.clock.advance(time.Duration(random.IntN(3)) * 5 * time.Minute)
		switch random.IntN(12) {
		case 0:
			copied = b.copyBook()
			fallthrough
		case 1:
			o = b.hosts(chain, chain)
			b.round(o)
		}
	}
	chain.mine(pool...)
	chain.mineEmpty(20)
	b.clock.advance(3 * time.Hour)
	for range 6 {
		b.round(o)
	}
	rows, totals, address := b.rows(names...), b.totals(), o.Address()
	require.Len(t, rows, len(names))
	same := func() {
		t.Helper()
		o := b.hosts(chain, chain)
		for range 8 {
			b.round(o)
		}
		require.False(t, o.Health().Partial)
		require.Equal(t, address, o.Address())
		require.Equal(t, totals, b.totals(), "seed %d", seed)
		for name, got := range b.rows(names...) {
			want := rows[name]
			want.ID, want.ObservedAt, want.UpdatedAt, want.Version = got.ID, got.ObservedAt, got.UpdatedAt, got.Version
			before, after := evidenceOf(want), evidenceOf(got)
			before.First, after.First = 0, 0 // a mempool of the past is nowhere
			before.MicroUSD, after.MicroUSD = 0, 0
			require.Equal(t, before, after)
			want.Evidence = got.Evidence
			want.USDCents, want.ValueBasis = got.USDCents, got.ValueBasis // the price of the past is unknown
			require.Equal(t, want, got, "seed %d: %s", seed, name)
		}
	}

	b.clock.advance(100 * time.Hour)
	chain.mineEmpty(600)
	if copied != "" {
		b.openBook(copied)
		same()
	}
	b.newBook(b.clock.Now().Unix())
	b.since = start.Unix()
	same()
}

// copyBook copies the ledger's file, as a backup, and goes on.
func (b *bench) copyBook() string {
	b.Helper()
	require.NoError(b, b.book.Close())
	content, err := os.ReadFile(b.file)
	require.NoError(b, err)
	file := payoffertest.LedgerFile(b.TB)
	require.NoError(b, os.WriteFile(file, content, 0o600))
	b.openBook(b.file)
	return file
}

// totals are the sums that are not empty, without their values in US dollars.
func (b *bench) totals() []ledger.Total {
	b.Helper()
	totals, err := b.book.Totals(b.Context(), testOffer)
	require.NoError(b, err)
	for i := range totals {
		totals[i].USDCents, totals[i].UnknownUSD = 0, 0
	}
	return slices.DeleteFunc(totals, func(t ledger.Total) bool { return t.Count == 0 })
}
