package storefront

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
)

func TestNewRejectsAnUnusableConfiguration(t *testing.T) {
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
