package gate

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// costs starts the offer at a price.
func (w *world) costs(cents int64) {
	w.t.Helper()
	w.Offer.Amount = offer.USD(cents)
	require.NoError(w.t, w.ledger.StorePrices(w.t.Context(), w.now.Load(), map[string]int64{w.Offer.ID: cents}))
}

// paysBy records a confirmed payment of a rail that is worth cents.
func (w *world) paysBy(rail string, cents int64) Holder {
	w.t.Helper()
	account := ledger.Account{Offer: w.Offer.ID, ID: "account/" + rail, Rail: rail}
	require.NoError(w.t, w.ledger.Register(w.t.Context(), account))
	h := w.pays(rail+"_"+time.Unix(w.now.Load(), 0).String(), func(s *ledger.Observation) {
		s.Account, s.Rail, s.Amount, s.USDCents = account.ID, rail, cents, &cents
		switch rail {
		case "usdc":
			s.EvidenceLevel, s.Asset, s.Amount = ledger.LevelChain, "0xusdc", cents*10_000
		case "btc":
			s.EvidenceLevel, s.Asset, s.ValueBasis = ledger.LevelChain, "BTC", ledger.BasisQuote
		case "transfer":
			s.EvidenceLevel = ledger.LevelManual
		case "tip-jar":
			s.EvidenceLevel = ledger.LevelProvider
		}
	})
	return Holder{account.ID, h.Name}
}

// requireEntry requires whether a payment lets two browsers in.
func (w *world) requireEntry(h Holder, opens bool, why string) {
	w.t.Helper()
	for range 2 {
		cookie, _, err := w.Enter(w.t.Context(), w.Code(h))
		_, seen := w.OpenUntil(w.t.Context(), h)
		if !opens {
			require.ErrorIs(w.t, err, ErrClosed, why)
			require.ErrorIs(w.t, seen, ErrClosed, why)
			continue
		}
		require.NoError(w.t, err, why)
		require.NoError(w.t, seen, why)
		w.requireOpen(w.Keeper, cookie)
	}
}

// The price at the time of the payment decides, for every rail and for every browser.
func TestPriceAtPaymentTimeDecides(t *testing.T) {
	type step struct {
		after time.Duration
		price int64 // of a start, or
		pays  int64 // the value of a payment
	}
	for name, c := range map[string]struct {
		steps []step
		opens bool
	}{
		"the price":                           {[]step{{0, 42_00, 0}, {time.Hour, 0, 42_00}}, true},
		"less than the price":                 {[]step{{0, 42_00, 0}, {time.Hour, 0, 41_57}}, false},
		"before a rise":                       {[]step{{0, 42_00, 0}, {time.Hour, 0, 42_00}, {time.Hour, 50_00, 0}}, true},
		"opened before a rise, paid after it": {[]step{{0, 42_00, 0}, {time.Hour, 50_00, 0}, {day - time.Second, 0, 42_00}}, true},
		"paid a day after a rise":             {[]step{{0, 42_00, 0}, {time.Hour, 50_00, 0}, {day, 0, 42_00}}, false},
		"a rise and back":                     {[]step{{0, 42_00, 0}, {time.Hour, 50_00, 0}, {2 * day, 42_00, 0}, {0, 0, 42_00}}, true},
		"before a fall":                       {[]step{{0, 42_00, 0}, {time.Hour, 0, 30_00}, {time.Hour, 30_00, 0}}, false},
		"after a fall":                        {[]step{{0, 42_00, 0}, {time.Hour, 30_00, 0}, {0, 0, 30_00}}, true},
		"a sale of an hour":                   {[]step{{0, 42_00, 0}, {time.Hour, 30_00, 0}, {time.Hour, 42_00, 0}, {day - time.Second, 0, 30_00}}, true},
		"a day after a sale":                  {[]step{{0, 42_00, 0}, {time.Hour, 30_00, 0}, {time.Hour, 42_00, 0}, {day, 0, 30_00}}, false},
	} {
		for _, rail := range []string{"card", "usdc", "btc", "transfer", "tip-jar"} {
			t.Run(name+" by "+rail, func(t *testing.T) {
				w := newWorld(t)
				var h Holder
				for _, s := range c.steps {
					w.pass(s.after)
					if s.price > 0 {
						w.costs(s.price)
					} else {
						h = w.paysBy(rail, s.pays)
					}
				}
				w.requireEntry(h, c.opens, "now")
				w.pass(day)
				w.costs(99_00)
				w.requireEntry(h, c.opens, "after another rise")
			})
		}
	}
}

// An authorization paid its quote, also one of an instance that still has the old price.
func TestAuthorizationOpensAfterPriceRise(t *testing.T) {
	w := newWorld(t)
	w.costs(50_00)
	w.pass(2 * day)
	id := w.settles(strings.Repeat("5", 64))
	w.pass(2 * day)
	w.costs(50_00)
	w.requireEntry(Holder{id.Account, ledger.AuthorizationName(payer, nonce)}, true, "it was charged")
}

// A payment that takes days, such as a bank debit, was made when it was first seen.
func TestDelayedPaymentUsesPriceAtSubmission(t *testing.T) {
	w := newWorld(t)
	w.costs(42_00)
	w.pays("pi_1", func(s *ledger.Observation) { s.State = ledger.StatusSeen })
	w.pass(time.Hour)
	w.costs(50_00)
	w.pass(5 * day)
	w.requireEntry(w.pays("pi_1", nil), true, "it was submitted at the old price")
	w.requireEntry(w.pays("pi_2", nil), false, "it was not")
}

// A day that the operator enters is the whole day.
func TestEnteredDayAcceptsAnyPriceOfDay(t *testing.T) {
	w := newWorld(t)
	w.pass(-time.Duration(w.now.Load()%86_400) * time.Second) // midnight
	w.pass(-3 * day)
	w.costs(42_00)
	w.pass(3*day + 15*time.Hour)
	w.costs(30_00)
	for evidence, opens := range map[string]bool{`{"day":"2026-11-21"}`: true, `{}`: false} {
		w.pass(9 * time.Hour)
		h := w.pays("entry "+evidence, func(s *ledger.Observation) {
			cents := int64(30_00)
			s.EvidenceLevel, s.Amount, s.USDCents, s.Evidence = ledger.LevelManual, cents, &cents, []byte(evidence)
			s.OccurredAt = start.Truncate(day).Unix()
		})
		w.requireEntry(h, opens, evidence)
	}
}

// What was offered is the highest of the possible prices that was paid.
func TestPriceOfPaymentIsHighestReached(t *testing.T) {
	w := newWorld(t)
	w.costs(42_00)
	w.pass(day)
	w.costs(50_00)
	w.pass(time.Hour)
	for cents, want := range map[int64]offer.USD{60_00: 50_00, 50_00: 50_00, 49_99: 42_00, 42_00: 42_00, 1: 42_00} {
		price, lacks, err := w.PriceOf(t.Context(), ledger.Receipt{OccurredAt: w.now.Load(), USDCents: &cents})
		require.NoError(t, err)
		require.Equal(t, want, price)
		require.Equal(t, cents >= 42_00, lacks == "")
	}
	price, lacks, err := w.PriceOf(t.Context(), ledger.Receipt{OccurredAt: w.now.Load()})
	require.NoError(t, err)
	require.Equal(t, offer.USD(42_00), price)
	require.Equal(t, ReasonValue, lacks)
}

// A payment from before the first start was made at the first price that the ledger knows.
func TestPaymentBeforeFirstStartUsesFirstPrice(t *testing.T) {
	w := newWorld(t)
	h := w.pays("pi_1", func(s *ledger.Observation) { s.OccurredAt -= 10 * 86_400 })
	w.costs(42_00)
	w.pass(day)
	w.costs(50_00)
	w.requireEntry(h, true, "42 was the first price")
}

func TestUnreadablePricesOpenNothing(t *testing.T) {
	w := newWorld(t)
	h := w.pays("pi_1", nil)
	require.NoError(t, w.ledger.Close())
	_, _, err := w.PriceOf(t.Context(), ledger.Receipt{})
	require.ErrorIs(t, err, ErrUnreadable)
	_, _, err = w.Enter(t.Context(), w.Code(h))
	require.ErrorIs(t, err, ErrUnreadable)
}

// What a payment by card lacks is judged before discounts, and in another currency by the seller's fixed price.
func TestCardCheckoutPrice(t *testing.T) {
	stated := func(cents int64) func(*ledger.Observation) {
		return func(s *ledger.Observation) {
			s.Stated = &ledger.StatedValue{USDCents: cents, At: s.OccurredAt}
			s.Addendum, s.EvidenceLevel = true, ledger.LevelManual
		}
	}
	for name, c := range map[string]struct {
		checkout ledger.Checkout
		asset    string
		amount   int64
		then     func(*ledger.Observation) // another observation, or nil
		lacks    Reason
	}{
		"a promotion code":             {ledger.Checkout{Subtotal: 42_00}, "USD", 41_58, nil, ""},
		"a code of nearly everything":  {ledger.Checkout{Subtotal: 42_00}, "USD", 1, nil, ""},
		"a code on a lower price":      {ledger.Checkout{Subtotal: 41_99}, "USD", 41_58, nil, ReasonLess},
		"a price and a tax":            {ledger.Checkout{Subtotal: 40_00}, "USD", 42_00, nil, ""},
		"chosen, enough":               {ledger.Checkout{Subtotal: 42_00}, "USD", 42_00, nil, ""},
		"chosen, less":                 {ledger.Checkout{Subtotal: 10_00}, "USD", 10_00, nil, ReasonLess},
		"no subtotal":                  {ledger.Checkout{}, "USD", 42_00, nil, ""},
		"the seller's price in euros":  {ledger.Checkout{Price: ledger.PriceFixed}, "EUR", 39_00, nil, ""},
		"the same with a code":         {ledger.Checkout{Price: ledger.PriceFixed}, "EUR", 1_00, nil, ""},
		"chosen in euros":              {ledger.Checkout{Price: ledger.PriceChosen}, "EUR", 99_00, nil, ReasonChosen},
		"euros without api_key":        {ledger.Checkout{}, "EUR", 39_00, nil, ReasonCurrency},
		"the seller states its value":  {ledger.Checkout{}, "EUR", 39_00, stated(42_00), ""},
		"the seller states less":       {ledger.Checkout{}, "EUR", 39_00, stated(41_99), ReasonLess},
		"a subtotal of another ledger": {ledger.Checkout{Subtotal: 42_00, Price: "?"}, "USD", 1, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.costs(42_00)
			paid := func(s *ledger.Observation) {
				c.checkout.Session = "cs_1"
				s.Asset, s.Amount, s.Evidence = c.asset, c.amount, offer.JSON(c.checkout)
				if s.USDCents, s.ValueBasis = &c.amount, ledger.BasisFace; c.asset != "USD" {
					s.USDCents, s.ValueBasis = nil, ""
				}
			}
			h := w.pays("pi_1", paid)
			if c.then != nil {
				w.pays("pi_1", c.then)
			}
			w.requireEntry(h, c.lacks == "", name)
			p, _, err := w.ledger.Ledger.Payment(t.Context(), w.Offer.ID, h.Account, h.Name)
			require.NoError(t, err)
			_, lacks, err := w.PriceOf(t.Context(), p.Receipt)
			require.NoError(t, err)
			require.Equal(t, c.lacks, lacks)
			w.pass(day)
			w.costs(99_00)
			w.requireEntry(h, c.lacks == "", "after a rise")
		})
	}
}

// What the evidence of another rail is called is no price of a checkout.
func TestCheckoutPriceOnlyForCard(t *testing.T) {
	w := newWorld(t)
	h := w.pays("sale", func(s *ledger.Observation) {
		s.Account, s.Rail = w.Offer.AccountOf(w.usdc), "usdc"
		s.Asset, s.USDCents, s.ValueBasis = "EUR", nil, ""
		s.Evidence = offer.JSON(ledger.Checkout{Session: "cs_1", Price: ledger.PriceFixed, Subtotal: 42_00})
	})
	w.requireEntry(Holder{w.Offer.AccountOf(w.usdc), h.Name}, false, "it is no checkout")
}

// In bitcoin an exchange's fee may be missing: of the payment, not of another rail's, and of no more than a percent.
func TestBitcoinPaymentTolerance(t *testing.T) {
	for name, c := range map[string]struct {
		price, worth int64
		basis        ledger.ValueBasis
		lacks        Reason
	}{
		"a satoshi of the quote":  {42_00, 41_99, ledger.BasisQuote, ""},
		"one percent of a quote":  {42_00, 41_58, ledger.BasisQuote, ""},
		"one percent at the rate": {42_00, 41_58, ledger.BasisRate, ""},
		"more than one percent":   {42_00, 41_57, ledger.BasisQuote, ReasonLess},
		"a rounded percent":       {42_50, 42_07, ledger.BasisQuote, ""},
		"less than rounded":       {42_50, 42_06, ledger.BasisQuote, ReasonLess},
		"as the seller states it": {42_00, 41_99, ledger.BasisStated, ReasonLess},
		"a stablecoin":            {42_00, 41_99, ledger.BasisFace, ReasonLess},
		"no value":                {42_00, -1, "", ReasonValue},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.costs(c.price)
			r := ledger.Receipt{Rail: "btc", Asset: "BTC", OccurredAt: w.now.Load(), ValueBasis: c.basis}
			if c.worth >= 0 {
				r.USDCents = &c.worth
			}
			price, lacks, err := w.PriceOf(t.Context(), r)
			require.NoError(t, err)
			require.Equal(t, offer.USD(c.price), price)
			require.Equal(t, c.lacks, lacks)
		})
	}
}
