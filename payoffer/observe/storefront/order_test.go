package storefront

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/sightings"
)

type delivery struct {
	contentType string
	body        []byte
}

// lifeOf are the notices of a sale that is disputed, kept and then refunded.
// The shop has the sale as it is at the end.
func lifeOf(f *fixture, id string) (notices []delivery) {
	for _, step := range []struct {
		resource string
		change   func(*payoffertest.StorefrontSale)
	}{
		{"sale", func(*payoffertest.StorefrontSale) {}},
		{"dispute", func(s *payoffertest.StorefrontSale) { s.Disputed = true }},
		{"dispute_won", func(s *payoffertest.StorefrontSale) { s.DisputeWon = true }},
		{"refund", func(s *payoffertest.StorefrontSale) { s.RefundedCents = s.Price }},
	} {
		contentType, body := f.shop.Change(id, step.change).Form(step.resource)
		notices = append(notices, delivery{contentType, body})
	}
	return notices
}

// Four notices and three readings of the shop, which go with the time; the
// notices come before, between and after them as they please. Package book
// merges all orders; these are some.
func TestOrdersEndInWhatTheShopSays(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const notices = 4
	changes := []func(*payoffertest.StorefrontSale){
		func(s *payoffertest.StorefrontSale) { s.Disputed = true },
		func(s *payoffertest.StorefrontSale) { s.DisputeWon = true },
		func(s *payoffertest.StorefrontSale) { s.RefundedCents = s.Price },
	}
	orders := 0
	sightings.Permute([]int{0, 1, 2, 3, 4, 5, 6}, func(order []int) {
		if !slices.IsSorted(slices.DeleteFunc(slices.Clone(order), func(i int) bool { return i < notices })) {
			return
		}
		if orders++; orders%20 != 0 {
			return
		}
		sale := f.sell()
		life := lifeOf(f, sale.ID)
		f.shop.Change(sale.ID, func(s *payoffertest.StorefrontSale) { s.Disputed, s.DisputeWon, s.RefundedCents = false, false, 0 })
		for _, event := range order {
			f.pass(time.Second)
			if event < notices {
				require.Equal(t, observe.Recorded, f.deliver(testSecret, life[event].contentType, life[event].body))
				continue
			}
			f.shop.Change(sale.ID, changes[event-notices])
			found, err := f.readOne(t.Context(), sale.ID, seq(sale))
			require.NoError(t, err)
			require.True(t, found)
		}
		r, _ := f.receipt(sale.ID)
		require.Equal(t, ledger.StatusRefunded, r.Status, order)
		require.Equal(t, ledger.LevelProvider, r.EvidenceLevel, order)
		require.Equal(t, int64(4200), r.Refunded, order)
	})
	require.Equal(t, 840, orders)
	require.Zero(t, f.held())
}

// Without a token there is only what the notices say: it is shown, and never
// counts. The order in which they come does not matter.
func TestNoticesAloneTellTheSameInAnyOrder(t *testing.T) {
	t.Parallel()
	f := newFixture(t, withoutToken)
	sightings.Permute([]int{0, 1, 2, 3}, func(order []int) {
		sale := f.sell()
		notices := lifeOf(f, sale.ID)
		for _, i := range order {
			require.Equal(t, observe.Recorded, f.deliver(testSecret, notices[i].contentType, notices[i].body))
		}
		r, _ := f.receipt(sale.ID)
		require.Equal(t, ledger.StatusRefunded, r.Status, order)
		require.Equal(t, int64(4200), r.Refunded, order)
		require.Equal(t, ledger.LevelAsserted, r.EvidenceLevel, order)
	})
	require.Zero(t, f.held())
	require.Empty(t, f.shop.Requests())
}
