package storefront

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/cases"
)

func TestNewRejectsInvalidConfig(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		cfg  Config
		says string
	}{
		"no product":            {Config{Secret: testSecret}, "has no product"},
		"nothing to go by":      {Config{Product: "p"}, "neither an API token nor a webhook secret"},
		"a short secret":        {Config{Product: "p", Secret: "fifteen-letters"}, "has 15 characters; use at least 16"},
		"a secret with a slash": {Config{Product: "p", Secret: "0123456789abcdef/"}, "that a URL cannot contain"},
		"a secret with a break": {Config{Product: "p", Secret: "0123456789abcdef\n"}, "that a URL cannot contain"},
		"an API without a host": {Config{Product: "p", Token: "t", API: "api.example"}, "the storefront's API"},
		"an API in plain text":  {Config{Product: "p", Token: "t", API: "http://api.example"}, "plain http"},
		"a secret out of ASCII": {Config{Product: "p", Secret: "0123456789abcdefé"}, "that a URL cannot contain"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := New(test.cfg)
			require.ErrorContains(t, err, test.says)
			if len(test.cfg.Secret) > 1 {
				require.NotContains(t, err.Error(), test.cfg.Secret)
			}
		})
	}
}

func TestHealthReportsUnknownSums(t *testing.T) {
	t.Parallel()
	for name, secret := range map[string]string{"with pings": testSecret, "without": ""} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, func(c *Config) { c.Secret = secret })
			before := observe.Health{Rail: "tip-jar", Source: "provider", Refunds: true, Partial: true, Blind: true}
			require.Equal(t, before, f.Health(), "before the first list")
			f.mustRead()
			whole := observe.Health{Rail: "tip-jar", Source: "provider", Refunds: true, ObservedThrough: "2026-11-21T12:00:00Z", At: 1795262400}
			require.Equal(t, whole, f.Health())
			f.pass(staleAfter + time.Second)
			whole.Partial, whole.Blind = true, true
			require.Equal(t, whole, f.Health(), "money may have come since")
			f.mustRead()
			require.False(t, f.Health().Blind)
		})
	}
}

// A ping is unsigned: whatever it says, only what the API lists is recorded.
func TestPingOnlyTriggersListRead(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"nothing":        "",
		"a forged price": "sale_id=B28UKN-dvxYabdavG97Y-Q==&order_number=1&price=99999900&sale_timestamp=2026-11-21T12:00:00Z",
		"no form":        "{",
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.mustOnce()
			f.pass(pingEvery)
			f.mustOnce()
			require.Len(t, f.shop.Requests(), 1, "the list is not due")
			sale := f.sell()
			require.Equal(t, observe.Ignored, f.deliver(testSecret, "application/x-www-form-urlencoded", []byte(body)))
			_, found := f.receipt(sale.ID)
			require.False(t, found)
			f.mustOnce()
			require.Len(t, f.shop.Requests(), 2)
			require.Equal(t, int64(4200), f.held())
		})
	}
}

func TestManyPingsCauseFewCalls(t *testing.T) {
	f := fixtureBeside(t)
	f.mustOnce()
	sale := f.sell()
	for range 100 {
		require.Equal(t, observe.Ignored, f.tell(sale, "sale"))
		f.pass(pingEvery / 50)
		f.mustOnce()
	}
	require.Len(t, f.shop.Requests(), 3)
	require.Equal(t, int64(4200), f.held())
}

func TestMonitoringNeedsToken(t *testing.T) {
	t.Parallel()
	f := newFixture(t, withoutToken)
	sale := f.sell()
	verdict, detail := f.Receive(t.Context(), observe.Delivery{Secret: testSecret})
	require.Equal(t, observe.Ignored, verdict)
	require.Contains(t, detail, "no API token")
	f.mustRead()
	_, found := f.receipt(sale.ID)
	require.False(t, found)
	require.Empty(t, f.shop.Requests())
	require.Equal(t, observe.Health{Rail: "tip-jar", Partial: true, Blind: true}, f.Health())
}

func TestReceiveWrongSecretIsUnverified(t *testing.T) {
	f := fixtureBeside(t)
	f.mustOnce()
	f.pass(time.Minute)
	for _, secret := range []string{"", testSecret[1:], testSecret + "0", "0123456789abcdef0123456789abcdeF"} {
		require.Equal(t, observe.Unverified, f.deliver(secret, "", nil), secret)
	}
	f.mustOnce()
	require.Len(t, f.shop.Requests(), 1, "and wakes nothing")

	f.start(func(cfg *Config) { cfg.Secret = "" })
	require.Equal(t, observe.Unverified, f.deliver("", "", nil), "no secret is configured")
}

// An address with another secret can be the shop's old one. It is reported until a ping arrives at the right one.
func TestWrongPingAddressIsReported(t *testing.T) {
	f := fixtureBeside(t)
	require.Equal(t, observe.Unverified, f.deliver("short", "", nil))
	require.Empty(t, f.Health().LastError, "a guess")
	for range 9 {
		require.Equal(t, observe.Unverified, f.deliver(testSecret[1:]+"x", "", nil))
	}
	require.Equal(t, observe.ErrUnverified, f.Health().LastError)
	require.Equal(t, 1, countLines(f.log))
	require.Contains(t, f.log.String(), "option=hook_secret")
	require.NotContains(t, f.log.String(), testSecret[1:])
	require.Equal(t, observe.Ignored, f.deliver(testSecret, "", nil))
	require.Empty(t, f.Health().LastError)
}

// stepsPerHistory is how many cases one history is worth.
const stepsPerHistory = 100

// worth is the reference model: what the seller holds of a sale, in US cents.
func worth(s payoffertest.StorefrontSale) int64 {
	if s.Disputed && !s.DisputeWon {
		return 0
	}
	return s.Price - s.RefundedCents
}

// Whatever happens at the shop, whatever notices say of it,
// whenever the shop or the ledger fail, and whenever the ledger is lost or an
// older copy of it is put back: what counts after the next reading is what the
// seller holds.
func TestRandomHistoriesMatchModel(t *testing.T) {
	t.Parallel()
	for seed := range cases.Count(t) / stepsPerHistory {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { randomHistory(t, rand.New(rand.NewPCG(uint64(seed), 42))) })
	}
}

func randomHistory(t *testing.T, random *rand.Rand) {
	f := newFixture(t)
	begin := beginAt(f.now())
	var copied []byte
	copyAt, loseAt := random.IntN(stepsPerHistory), random.IntN(stepsPerHistory)
	sales := []payoffertest.StorefrontSale{f.sell()}
	for step := range stepsPerHistory {
		if step == copyAt {
			copied = f.copyLedger(begin)
		}
		if step == loseAt {
			f.loseLedger(copied)
			f.start(begin)
		}
		f.pass(time.Duration(random.IntN(3600)) * time.Second)
		at := random.IntN(len(sales))
		switch random.IntN(9) {
		case 0:
			sales = append(sales, f.sell(func(s *payoffertest.StorefrontSale) { s.Price = 1 + random.Int64N(9999) }))
		case 1, 2:
			sales[at] = f.shop.Change(sales[at].ID, happen(random))
		case 3, 4:
			require.Equal(t, observe.Ignored, f.tell(sales[at], "sale"))
		case 5:
			forged := sales[at]
			happen(random)(&forged)
			forged.Price += random.Int64N(1_000_000)
			require.Equal(t, observe.Ignored, f.tell(forged, "refund"))
		case 6:
			f.shop.Fail(&payoffertest.StorefrontFault{Status: http.StatusBadGateway, After: random.IntN(3)})
			_ = f.read() // it may fail
			f.shop.Fail(nil)
		case 7:
			f.db.broken = true
			require.Error(t, f.read())
			f.db.broken = false
		default:
			f.requireModel(sales)
		}
	}
	f.requireModel(sales)
}

// loseLedger goes on with an older copy of the ledger, or with none.
func (f *fixture) loseLedger(copied []byte) {
	f.t.Helper()
	if copied == nil {
		f.openLedger(f.now().Unix())
		return
	}
	file := payoffertest.LedgerFile(f.t)
	require.NoError(f.t, os.WriteFile(file, copied, 0o600))
	f.useLedger(file)
}

func (f *fixture) requireModel(sales []payoffertest.StorefrontSale) {
	f.t.Helper()
	f.pass(sweepEvery) // by then a change of any sale is met
	f.mustRead()
	var want int64
	for _, s := range sales {
		want += worth(s)
	}
	require.Equal(f.t, want, f.held())
}

// happen is something that happens to a sale.
func happen(random *rand.Rand) func(*payoffertest.StorefrontSale) {
	share, event := random.Int64N(5), random.IntN(4)
	return func(s *payoffertest.StorefrontSale) {
		switch event {
		case 0:
			s.RefundedCents = s.Price * share / 4
		case 1:
			s.RefundedCents = 0
		case 2:
			s.Disputed = true
		default:
			s.DisputeWon = s.Disputed
		}
	}
}

// fuzzed is the time of day of the fuzzing.
var fuzzed = time.Date(2026, 11, 21, 13, 0, 0, 0, time.UTC)

// FuzzReadSale: whatever the shop answers, no more goes back than came.
func FuzzReadSale(f *testing.F) {
	f.Add([]byte(`{"id":"B28UKN-dvxYabdavG97Y-Q==","order_id":524459995,"created_at":"2026-11-21T12:00:00Z","price":4200,` +
		`"currency_symbol":"$","amount_refundable_in_currency":"1,234.50","partially_refunded":true}`))
	f.Add([]byte(`{"id":"a","order_id":1,"created_at":"2026-11-21T12:00:00Z","price":1,"refunded":null,"currency":"usd"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		s, ok := readSale(body, fuzzed)
		if !ok {
			return
		}
		require.Regexp(t, saleID, s.ID)
		require.GreaterOrEqual(t, s.refunded(), int64(0))
		require.LessOrEqual(t, s.refunded(), s.Price)
	})
}
