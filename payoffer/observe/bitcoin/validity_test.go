package bitcoin

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// A published amount must not be valid longer than its quote, also after a restart, when the ledger has a quote that was
// stored up to renewEvery earlier.
func TestNoAmountIsSaidToHoldLongerThanItIsHonoured(t *testing.T) {
	rail, err := offer.NewBitcoin("bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4", "Example", 4200)
	require.NoError(t, err)
	published := time.Date(2026, 11, 21, 8, 30, 0, 0, time.UTC)
	until, err := time.Parse(time.RFC3339, rail.Methods(nil, offer.Live{Satoshis: 42_000, RateAt: published})[0].ValidUntil)
	require.NoError(t, err)
	stored := published.Add(-renewEvery - time.Minute)
	require.True(t, until.Before(stored.Add(quoteWindow)), "until %v", until)
}
