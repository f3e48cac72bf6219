package payoffer

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/service"
)

// sinceEverywhere is a handler that has the option in each of its places.
func sinceEverywhere(since string) *Handler {
	return &Handler{
		BaseURL: "http://localhost:8402", Card: &CardConfig{URL: "https://checkout.example/pay", Since: since},
		Bitcoin:     &BitcoinConfig{Account: "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4", Since: since},
		Storefronts: []*StorefrontConfig{{Name: "shop", URL: "https://shop.example", Since: since}},
	}
}

func TestSinceIsADayInUTCOrAMoment(t *testing.T) {
	t.Setenv("OFFER_TEST_SINCE", "2026-11-01")
	for since, want := range map[string]time.Time{
		"":                          time.Unix(0, 0),
		"2026-11-01":                time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC),
		"{env.OFFER_TEST_SINCE}":    time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC),
		"{env.OFFER_TEST_UNSET}":    time.Unix(0, 0),
		"2026-11-01T09:00:00Z":      time.Date(2026, 11, 1, 9, 0, 0, 0, time.UTC),
		"2026-11-01T09:00:00-02:30": time.Date(2026, 11, 1, 11, 30, 0, 0, time.UTC),
		"2009-01-01":                time.Date(2009, 1, 1, 0, 0, 0, 0, time.UTC),
	} {
		s, err := sinceEverywhere(since).settings(newResolver(), today)
		require.NoError(t, err, since)
		require.Equal(t, want.Unix(), service.RailsOf[service.Card](s)[0].Since, since)
		require.Equal(t, want.Unix(), service.RailsOf[service.Bitcoin](s)[0].Since, since)
		require.Equal(t, want.Unix(), service.RailsOf[service.Storefront](s)[0].Since, since)
	}
}

func TestSinceIsRefusedWhereNoPaymentCanBe(t *testing.T) {
	for since, want := range map[string]string{
		"yesterday":            `"yesterday" is not a date`,
		"2026-11-31":           `"2026-11-31" is not a date`,
		"2026-11-01T09:00:00":  "is not a date", // of which time zone?
		"2008-12-31":           "2008-12-31 is before 2009",
		"2008-12-31T23:59:59Z": "is before 2009",
		time.Now().Add(time.Minute).Format(time.RFC3339):        "is in the future",
		time.Now().AddDate(0, 0, 2).UTC().Format(time.DateOnly): "is in the future",
	} {
		_, err := sinceEverywhere(since).settings(newResolver(), today)
		for _, option := range []string{"card since: ", "bitcoin since: ", "storefront shop since: "} {
			require.ErrorContains(t, err, option, since)
		}
		require.ErrorContains(t, err, want)
	}
}

func TestSinceWithoutAReaderIsWarnedOf(t *testing.T) {
	t.Setenv("OFFER_TEST_HIDDEN", "hidden-secret")
	warnings := func(h *Handler) (log string) {
		s := must(h.settings(newResolver(), today))(t)
		var lines strings.Builder
		s.Warn(slog.New(slog.NewTextHandler(&lines, nil)))
		return lines.String()
	}
	h := sinceEverywhere("2026-11-01")
	h.Bitcoin.Esplora = []string{"off"}
	for _, option := range []string{"api_key", "esplora", "token"} {
		require.Contains(t, warnings(h), "missing="+option)
	}
	h.Card.PaymentLink, h.Card.APIKey = "plink_1", "{env.OFFER_TEST_HIDDEN}"
	h.Bitcoin.Esplora = nil
	h.Storefronts[0].Product, h.Storefronts[0].Token = "p", "{env.OFFER_TEST_HIDDEN}"
	require.NotContains(t, warnings(h), "since has no effect")

	lines, _ := warned(t, strings.Replace(smallest, "/pay\n", "/pay {\n\t\t\tsince 2026-11-01\n\t\t}\n", 1))
	require.Len(t, lines, 1)
	require.Contains(t, lines[0], `"missing":"api_key"`)
}
