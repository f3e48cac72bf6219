package storefront

import (
	"encoding/json"
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// fuzzed is the time of day of the fuzzing.
var fuzzed = time.Date(2026, 11, 21, 13, 0, 0, 0, time.UTC)

func fuzzSale() payoffertest.StorefrontSale {
	return payoffertest.StorefrontSale{
		ID: "B28UKN-dvxYabdavG97Y-Q==", Order: 524459995, Seller: testSeller, Product: testProduct, ShortProduct: testShort,
		Price: 4200, Currency: "usd", CreatedAt: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC),
		CustomFields: [][2]string{{"name", "x"}}, URLParams: [][2]string{{"a", "b"}},
	}
}

// FuzzParseNotice holds the parser against those of the standard library: what
// it takes is what they read as well, and stands there once.
func FuzzParseNotice(f *testing.F) {
	sale := fuzzSale()
	_, form := sale.Form("sale")
	_, object := sale.JSON("refund")
	f.Add(false, form)
	f.Add(true, object)
	f.Add(false, append(form, "&price=1"...))
	f.Add(true, []byte(`{"price":1,"price":2,"custom_fields":{"test":"true"}}`))
	f.Fuzz(func(t *testing.T, asJSON bool, body []byte) {
		contentType := "application/x-www-form-urlencoded"
		if asJSON {
			contentType = "application/json"
		}
		n, err := parseNotice(contentType, body, fuzzed)
		if err != nil || n.sale == "" {
			return
		}
		require.Regexp(t, saleID, n.sale)
		require.GreaterOrEqual(t, n.price, int64(0))
		require.True(t, observe.Plausible(n.at, fuzzed))
		read := readForm
		if asJSON {
			read = readObject
		}
		values := read(t, body)
		if values == nil {
			return // the library refuses a separator
		}
		require.Equal(t, n.sale, values("sale_id"))
		require.Equal(t, n.order, values("order_number"))
		require.Equal(t, fmt.Sprint(n.price), fmt.Sprint(mustInt(t, values("price"))))
		require.Equal(t, n.product, values("product_id"))
		require.Equal(t, n.refunded, values("refunded") == "true")
	})
}

func mustInt(t *testing.T, text string) int64 {
	n, err := json.Number(text).Int64()
	require.NoError(t, err)
	return n
}

func readForm(t *testing.T, body []byte) func(string) string {
	values, err := url.ParseQuery(string(body))
	if err != nil {
		return nil
	}
	return func(name string) string {
		require.LessOrEqual(t, len(values[name]), 1, name)
		require.Empty(t, values["custom_fields["+name+"]"])
		return values.Get(name)
	}
}

func readObject(t *testing.T, body []byte) func(string) string {
	var values map[string]any
	require.NoError(t, json.Unmarshal(body, &values))
	var numbers map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(body, &numbers))
	return func(name string) string {
		switch v := values[name].(type) {
		case nil:
			return ""
		case string:
			return v
		default:
			return string(numbers[name])
		}
	}
}

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
