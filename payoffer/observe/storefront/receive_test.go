package storefront

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
)

// A ping is unsigned: whatever it says, only what the API lists is recorded.
func TestAPingOnlyHasTheListRead(t *testing.T) {
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

func TestWithoutATokenNothingIsMonitored(t *testing.T) {
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

func TestAWrongSecretIsUnverified(t *testing.T) {
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
func TestPingsToAnotherAddressAreReported(t *testing.T) {
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
