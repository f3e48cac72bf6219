package storefront

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

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
