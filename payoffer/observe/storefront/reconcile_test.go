package storefront

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

func countLines(b *bytes.Buffer) int { return strings.Count(b.String(), "\n") }

func TestSaleIsConfirmedFromList(t *testing.T) {
	f := fixtureBeside(t)
	sale := f.sell()
	f.mustRead()

	r, _ := f.receipt(sale.ID)
	require.Equal(t, ledger.StatusConfirmed, r.Status)
	require.Equal(t, ledger.LevelProvider, r.EvidenceLevel)
	require.JSONEq(t, `{"provider":"gumroad","sale":"`+sale.ID+`","order":"524459000"}`, string(r.Evidence))
	require.Equal(t, sale.CreatedAt.Unix(), r.OccurredAt)
	require.Equal(t, ledger.BasisFace, r.ValueBasis)
	require.Equal(t, int64(4200), f.held())

	version := r.Version
	f.mustRead()
	r, _ = f.receipt(sale.ID)
	require.Equal(t, version, r.Version, "nothing new was seen")
}

func TestListCountsOnlySalesOfOffer(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*payoffertest.StorefrontSale)
		held   int64
	}{
		"the product":            {func(*payoffertest.StorefrontSale) {}, 4200},
		"any price":              {func(s *payoffertest.StorefrontSale) { s.Price = 150 }, 150},
		"a price of zero":        {func(s *payoffertest.StorefrontSale) { s.Price = 0 }, 0},
		"US cents all the same":  {func(s *payoffertest.StorefrontSale) { s.Currency = "eur" }, 4200},
		"another product":        {func(s *payoffertest.StorefrontSale) { s.Product, s.ShortProduct = "other", "other" }, 0},
		"another seller":         {func(s *payoffertest.StorefrontSale) { s.Seller = "other" }, 0},
		"before the origin":      {func(s *payoffertest.StorefrontSale) { s.CreatedAt = s.CreatedAt.Add(-time.Second) }, 0},
		"a free trial":           {func(s *payoffertest.StorefrontSale) { s.FreeTrial = true }, 0},
		"the charge after that":  {func(s *payoffertest.StorefrontSale) { s.Recurring = true }, 4200},
		"a part of it refunded":  {func(s *payoffertest.StorefrontSale) { s.RefundedCents = 1250 }, 2950},
		"a part in another unit": {func(s *payoffertest.StorefrontSale) { s.RefundedCents, s.Currency = 1250, "eur" }, 0},
		"all of it refunded":     {func(s *payoffertest.StorefrontSale) { s.RefundedCents = 4200 }, 0},
		"disputed":               {func(s *payoffertest.StorefrontSale) { s.Disputed = true }, 0},
		"disputed and won":       {func(s *payoffertest.StorefrontSale) { s.Disputed, s.DisputeWon = true, true }, 4200},
	} {
		for _, product := range []string{testProduct, testShort} {
			t.Run(name+" by "+product, func(t *testing.T) {
				f := newFixture(t, func(cfg *Config) { cfg.Product = product })
				f.sell(test.change)
				f.requireReadHeld(test.held)
			})
		}
	}
}

func TestRefundsAndDisputesFoundWithoutPing(t *testing.T) {
	f := fixtureBeside(t)
	sale := f.sell()
	f.mustRead()
	for _, step := range []struct {
		name   string
		change func(*payoffertest.StorefrontSale)
		held   int64
	}{
		{"a part", func(s *payoffertest.StorefrontSale) { s.RefundedCents = 200 }, 4000},
		{"another part", func(s *payoffertest.StorefrontSale) { s.RefundedCents = 1200 }, 3000},
		{"the rest", func(s *payoffertest.StorefrontSale) { s.RefundedCents = 4200 }, 0},
		{"the last refund fails", func(s *payoffertest.StorefrontSale) { s.RefundedCents = 1200 }, 3000},
		{"all refunds fail", func(s *payoffertest.StorefrontSale) { s.RefundedCents = 0 }, 4200},
		{"a dispute", func(s *payoffertest.StorefrontSale) { s.Disputed = true }, 0},
		{"won", func(s *payoffertest.StorefrontSale) { s.DisputeWon = true }, 4200},
	} {
		f.pass(listEvery)
		f.shop.Change(sale.ID, step.change)
		f.requireReadHeld(step.held, step.name)
	}
}

// The list tells when a sale was made, which may be hours before it succeeds.
func TestLateSaleIsFound(t *testing.T) {
	f := fixtureBeside(t)
	f.mustRead()
	f.pass(11 * time.Hour)
	sale := f.sell(func(s *payoffertest.StorefrontSale) { s.Failed = true })
	f.pass(2 * time.Hour) // it is another day
	f.mustRead()
	f.shop.Change(sale.ID, func(s *payoffertest.StorefrontSale) { s.Failed = false })
	f.pass(listEvery)
	f.requireReadHeld(4200)
}

// Months later the list of the newest sales does not have the sale any more.
func TestOldSaleRefundFoundWithinOneDay(t *testing.T) {
	f := fixtureBeside(t)
	sale := f.sell()
	f.mustRead()
	f.pass(100 * 24 * time.Hour)
	f.mustRead()
	f.shop.Change(sale.ID, func(s *payoffertest.StorefrontSale) { s.RefundedCents = s.Price })
	f.pass(sweepEvery - time.Minute)
	f.start() // a restart sweeps no earlier
	f.requireReadHeld(4200)
	f.pass(time.Minute)
	f.requireReadHeld(0)

	f.pass(200 * 24 * time.Hour)
	f.mustRead()
	f.shop.Change(sale.ID, func(s *payoffertest.StorefrontSale) { s.RefundedCents = 0 })
	f.requireReadHeld(0, "out of reach")
}

func TestSalesOfLongOutageAreFound(t *testing.T) {
	f := fixtureBeside(t)
	f.mustRead()
	for range 35 {
		f.pass(5 * time.Hour)
		f.sell()
	}
	f.shop.Fail(&payoffertest.StorefrontFault{After: 2, Status: http.StatusBadGateway})
	require.Error(t, f.read())
	require.Equal(t, int64(20*4200), f.held(), "what was read is kept")
	cursor, _, err := f.db.Cursor(t.Context(), testOffer, testAccount)
	require.NoError(t, err)
	require.Equal(t, "1795262400", cursor.Position, "and the cursor stands at 2026-11-21T12:00:00Z")

	f.shop.Fail(nil)
	f.requireReadHeld(35 * 4200)
	cursor, _, err = f.db.Cursor(t.Context(), testOffer, testAccount)
	require.NoError(t, err)
	require.Equal(t, f.now().Unix(), parseSeconds(cursor.Position))
}

func TestListFailureLosesNothing(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		fault payoffertest.StorefrontFault
		code  string
	}{
		"refused":    {payoffertest.StorefrontFault{Status: 401}, observe.ErrUnauthorized},
		"limited":    {payoffertest.StorefrontFault{Status: 429}, observe.ErrLimited},
		"broken":     {payoffertest.StorefrontFault{Status: 503}, observe.ErrUnreachable},
		"timed out":  {payoffertest.StorefrontFault{Status: 400, Body: `{"status":400,"error":"Query timed out."}`}, observe.ErrBadAnswer},
		"no success": {payoffertest.StorefrontFault{Body: `{"success":false,"message":"The sale was not found."}`}, observe.ErrBadAnswer},
		"too large":  {payoffertest.StorefrontFault{Body: `{"success":true,"x":"` + strings.Repeat("x", maxAnswer) + `"}`}, observe.ErrBadAnswer},
		"in circles": {payoffertest.StorefrontFault{Body: `{"success":true,"sales":[],"next_page_key":"1-1"}`}, observe.ErrBadAnswer},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.mustRead()
			sale := f.sell()
			f.shop.Fail(&test.fault)
			for range 3 {
				f.pass(24 * time.Hour)
				require.Error(t, f.read())
				health := f.Health()
				require.Equal(t, test.code, health.LastError)
				require.True(t, health.Partial)
				require.Equal(t, "2026-11-21T12:00:00Z", health.ObservedThrough)
			}
			require.Equal(t, 1, countLines(f.log), "logged once")
			require.NotContains(t, f.log.String(), testToken)
			require.Zero(t, f.held())
			f.shop.Fail(nil)
			f.requireReadHeld(4200)
			require.False(t, f.Health().Partial)
			require.Empty(t, f.Health().LastError)
			_, found := f.receipt(sale.ID)
			require.True(t, found)
		})
	}
	t.Run("the ledger", func(t *testing.T) {
		f := newFixture(t)
		f.sell()
		f.db.broken = true
		require.Error(t, f.read())
		require.Equal(t, observe.ErrLedger, f.Health().LastError)
		require.NotContains(t, f.log.String(), errDisk.Error())
		f.db.broken = false
		f.requireReadHeld(4200)
	})
}

func TestTokenStaysOnShopHost(t *testing.T) {
	f := fixtureBeside(t)
	elsewhere := payoffertest.NewStorefront(t, testToken)
	f.shop.Fail(&payoffertest.StorefrontFault{Status: http.StatusTemporaryRedirect, Location: elsewhere.URL() + "/v2/sales"})
	require.Error(t, f.read())
	require.Equal(t, observe.ErrBadAnswer, f.Health().LastError)
	require.Empty(t, elsewhere.Requests())
}

func TestUnreadableSaleIsSkipped(t *testing.T) {
	f := fixtureBeside(t)
	f.sell()
	f.sell(func(s *payoffertest.StorefrontSale) { s.ID = "<script>" })
	f.mustRead()
	f.requireReadHeld(4200)
	require.Equal(t, 1, countLines(f.log), "logged once")
}

func TestClockJumpBackHidesNothing(t *testing.T) {
	f := fixtureBeside(t)
	f.pass(10 * 24 * time.Hour)
	f.mustRead()
	f.pass(-10 * 24 * time.Hour)
	f.sell()
	f.requireReadHeld(4200)
	cursor, _, err := f.db.Cursor(t.Context(), testOffer, testAccount)
	require.NoError(t, err)
	require.Equal(t, f.now().Unix(), parseSeconds(cursor.Position))
}

func TestRunReadsListAfterPing(t *testing.T) {
	f := fixtureBeside(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f.Run(ctx)
	}()
	f.shop.Await(1) // the first list, which is empty
	require.Eventually(t, func() bool { return f.Health().ObservedThrough != "" }, time.Minute, time.Millisecond)
	sale := f.sell()
	f.pass(pingEvery)
	require.Equal(t, observe.Ignored, f.tell(sale, "sale"))
	require.Eventually(t, func() bool { _, found := f.receipt(sale.ID); return found }, time.Minute, time.Millisecond)
	cancel()
	<-ended
}
