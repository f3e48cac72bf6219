package storefront

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

func TestNewRefusesWhatCannotBeObserved(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		cfg  Config
		says string
	}{
		"no product":             {Config{Secret: testSecret}, "needs a product"},
		"nothing to go by":       {Config{Product: "p"}, "needs a webhook secret, an API token or both"},
		"a short secret":         {Config{Product: "p", Secret: "fifteen-letters"}, "has 15 characters; use at least 16"},
		"a secret with a slash":  {Config{Product: "p", Secret: "0123456789abcdef/"}, "cannot stand there"},
		"a secret with a break":  {Config{Product: "p", Secret: "0123456789abcdef\n"}, "cannot stand there"},
		"an API without a host":  {Config{Product: "p", Token: "t", API: "api.example"}, "the storefront's API"},
		"an API in plain text":   {Config{Product: "p", Token: "t", API: "http://api.example"}, "plain http"},
		"a secret out of ASCII":  {Config{Product: "p", Secret: "0123456789abcdefé"}, "cannot stand there"},
		"a short secret, token":  {Config{Product: "p", Token: "t", Secret: "x"}, "at least 16"},
		"a secret of spaces too": {Config{Product: "p", Secret: "                "}, "cannot stand there"},
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

func TestHealthSaysWhatIsNotKnown(t *testing.T) {
	t.Parallel()
	for name, secret := range map[string]string{"with notices": testSecret, "without": ""} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, func(c *Config) { c.Secret = secret })
			before := observe.Health{Rail: "tip-jar", Source: "provider", Partial: true, Blind: true}
			require.Equal(t, before, f.Health(), "before the first list")
			f.mustRead()
			whole := observe.Health{Rail: "tip-jar", Source: "provider", ObservedThrough: "2026-11-21T12:00:00Z", At: 1795262400}
			require.Equal(t, whole, f.Health())
			f.pass(staleAfter + time.Second)
			whole.Partial, whole.Blind = true, true
			require.Equal(t, whole, f.Health(), "money may have come since")
			f.mustRead()
			require.False(t, f.Health().Blind)
		})
	}
}

func TestPausesGrowWhileTheShopFails(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	pause, err := f.loop.Once(t.Context())
	require.NoError(t, err)
	require.InDelta(t, listEvery.Seconds(), pause.Seconds(), listEvery.Seconds()/5+1)
	f.start(func(c *Config) { c.Random = func() float64 { return 0 } })
	f.shop.Fail(&payoffertest.StorefrontFault{Status: http.StatusBadGateway})
	last := time.Duration(0)
	for range 5 {
		pause, err := f.loop.Once(t.Context())
		require.Error(t, err)
		require.Greater(t, pause, last)
		last = pause
	}
	for range 20 {
		last, err = f.loop.Once(t.Context())
	}
	require.Error(t, err)
	require.LessOrEqual(t, last, maxPause)
}
