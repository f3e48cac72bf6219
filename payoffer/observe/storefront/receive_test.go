package storefront

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/cases"
)

func TestNoticeIsKeptAsAssertedAndCountsNowhere(t *testing.T) {
	t.Parallel()
	for name, encode := range map[string]func(payoffertest.StorefrontSale) (string, []byte){
		"form":               func(s payoffertest.StorefrontSale) (string, []byte) { return s.Form("sale") },
		"json":               func(s payoffertest.StorefrontSale) (string, []byte) { return s.JSON("sale") },
		"plain ping address": func(s payoffertest.StorefrontSale) (string, []byte) { return s.Form("") },
		"with a charset": func(s payoffertest.StorefrontSale) (string, []byte) {
			contentType, body := s.JSON("sale")
			return contentType + "; charset=utf-8", body
		},
		"repeated": func(s payoffertest.StorefrontSale) (string, []byte) {
			contentType, body := s.Form("sale")
			return contentType, append(body, "&retry_count=1"...)
		},
		"custom fields of other names": func(s payoffertest.StorefrontSale) (string, []byte) {
			s.CustomFields = [][2]string{{"Your name", "A & B = C"}, {"Price", "1"}, {"email", "x"}}
			s.URLParams = [][2]string{{"tags[]", "a"}, {"tags[]", "b"}}
			return s.Form("sale")
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			sale := f.sell()
			contentType, body := encode(sale)
			require.Equal(t, observe.Recorded, f.deliver(testSecret, contentType, body))

			r, found := f.receipt(sale.ID)
			require.True(t, found)
			require.Equal(t, ledger.StatusSeen, r.Status)
			require.Equal(t, ledger.LevelAsserted, r.EvidenceLevel)
			require.Equal(t, "USD", r.Asset)
			require.Equal(t, int64(4200), r.Amount)
			require.Equal(t, int64(4200), *r.USDCents)
			require.Equal(t, sale.CreatedAt.Unix(), r.OccurredAt)
			require.JSONEq(t, `{"provider":"gumroad","sale":"`+sale.ID+`","order":"524459000"}`, string(r.Evidence))
			require.Zero(t, f.held())
			require.Empty(t, f.log.String())
		})
	}
}

func TestWrongSecretIsUnverifiedAndStoresNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	sale := f.sell()
	contentType, body := sale.Form("sale")
	for _, secret := range []string{"", testSecret[1:], testSecret + "0", "0123456789abcdef0123456789abcdeF"} {
		require.Equal(t, observe.Unverified, f.deliver(secret, contentType, body), secret)
	}
	_, found := f.receipt(sale.ID)
	require.False(t, found)

	f.start(func(cfg *Config) { cfg.Secret = "" })
	require.Equal(t, observe.Unverified, f.deliver("", contentType, body), "no secret is configured")
}

func TestNoticeOfOtherMoneyIsIgnored(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*payoffertest.StorefrontSale){
		"another product":    func(s *payoffertest.StorefrontSale) { s.Product, s.ShortProduct = "32-nPainqpLj1B_WIwVlMw==", "other" },
		"another seller":     func(s *payoffertest.StorefrontSale) { s.Seller = "other" },
		"a test":             func(s *payoffertest.StorefrontSale) { s.Test = true },
		"a price of zero":    func(s *payoffertest.StorefrontSale) { s.Price = 0 },
		"a preorder":         func(s *payoffertest.StorefrontSale) { s.Preorder = true },
		"a gift's copy":      func(s *payoffertest.StorefrontSale) { s.GiftReceiver = true },
		"before the origin":  func(s *payoffertest.StorefrontSale) { s.CreatedAt = s.CreatedAt.Add(-time.Second) },
		"buyer adds a field": func(s *payoffertest.StorefrontSale) { s.URLParams = [][2]string{{"x]&test=true&y[", "1"}} },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			sale := f.sell(change)
			require.Equal(t, observe.Ignored, f.tell(sale, "sale"))
			_, found := f.receipt(sale.ID)
			require.False(t, found)
		})
	}
	t.Run("a subscription's end", func(t *testing.T) {
		f := newFixture(t)
		require.Equal(t, observe.Ignored, f.deliver(testSecret, "application/x-www-form-urlencoded",
			[]byte("subscription_id=x&product_id=y&resource_name=cancellation")))
	})
}

// A buyer has two ways into a notice: a custom field that the seller gave the
// name of a field, and the query with which the product's page was opened.
func TestBuyerCannotRewriteANotice(t *testing.T) {
	t.Parallel()
	custom := func(name, value string) func(*payoffertest.StorefrontSale) {
		return func(s *payoffertest.StorefrontSale) { s.CustomFields = [][2]string{{name, value}} }
	}
	query := func(injected string) func(*payoffertest.StorefrontSale) {
		return func(s *payoffertest.StorefrontSale) {
			s.URLParams = [][2]string{{"x]&" + injected + "&y[", "1"}}
		}
	}
	for name, test := range map[string]struct {
		change func(*payoffertest.StorefrontSale)
		told   bool // the operator is
	}{
		"price by a custom field":   {custom("price", "9999999"), true},
		"sale id by a custom field": {custom("sale_id", "victim=="), true},
		"product by a custom field": {custom("product_id", testProduct), true},
		"test by a custom field":    {custom("test", "true"), true},
		"price by the query":        {query("price=9999999"), false},
		"sale id by the query":      {query("sale_id=victim"), false},
		"resource by the query":     {query("resource_name=dispute"), false},
		"dispute by the query":      {query("disputed=true"), false},
		"escaped by the query":      {query("%70rice=9999999"), false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			sale := f.sell(test.change)
			require.Equal(t, observe.Malformed, f.tell(sale, "sale"))
			_, found := f.receipt(sale.ID)
			require.False(t, found)
			if test.told {
				require.Equal(t, observe.Malformed, f.tell(sale, "sale"))
				require.Equal(t, 1, countLines(f.log), "told once")
				require.Contains(t, f.log.String(), "rename the custom field")
				contentType, body := sale.JSON("sale")
				require.Equal(t, observe.Malformed, f.deliver(testSecret, contentType, body))
			}
			f.mustRead()
			require.Equal(t, int64(4200), f.held(), "the list has the sale")
		})
	}
}

func TestMalformedNoticesAreRefused(t *testing.T) {
	t.Parallel()
	const form, whole = "application/x-www-form-urlencoded", "sale_id=a&order_number=1&price=4200&sale_timestamp=2026-11-21T12:00:00Z"
	for name, test := range map[string]struct{ contentType, body string }{
		"nothing":                 {form, ""},
		"no content type":         {"", whole},
		"another content type":    {"text/plain", whole},
		"no sale id":              {form, "order_number=1&price=4200&sale_timestamp=2026-11-21T12:00:00Z"},
		"an absurd sale id":       {form, "sale_id=a/../b&order_number=1&price=4200&sale_timestamp=2026-11-21T12:00:00Z"},
		"no order number":         {form, "sale_id=a&price=4200&sale_timestamp=2026-11-21T12:00:00Z"},
		"no price":                {form, "sale_id=a&order_number=1&sale_timestamp=2026-11-21T12:00:00Z"},
		"a negative price":        {form, "sale_id=a&order_number=1&price=-1&sale_timestamp=2026-11-21T12:00:00Z"},
		"a price of 2^63":         {form, "sale_id=a&order_number=1&price=9223372036854775808&sale_timestamp=2026-11-21T12:00:00Z"},
		"a broken price":          {form, "sale_id=a&order_number=1&price=42.00&sale_timestamp=2026-11-21T12:00:00Z"},
		"no time":                 {form, "sale_id=a&order_number=1&price=4200"},
		"a time to come":          {form, strings.Replace(whole, "2026-11-21", "2026-11-23", 1)},
		"the end of time":         {form, strings.Replace(whole, "2026-11-21", "9999-12-31", 1)},
		"a time before the shop":  {form, strings.Replace(whole, "2026", "1999", 1)},
		"a field twice":           {form, whole + "&price=4200"},
		"a bad escape":            {form, whole + "&x=%zz"},
		"a long value":            {form, whole + "&seller_id=" + string(make([]byte, 300))},
		"too many fields":         {form, whole + string(repeat("&a=1", 1000))},
		"too large":               {form, whole + "&x=" + string(make([]byte, observe.MaxDelivery))},
		"JSON twice":              {"application/json", `{"price":4200,"price":1}`},
		"JSON twice in an escape": {"application/json", `{"price":4200,"\u0070rice":1}`},
		"JSON array":              {"application/json", `[]`},
		"JSON and more":           {"application/json", `{} {}`},
		"JSON cut off":            {"application/json", `{"price":`},
		"JSON object as a price":  {"application/json", `{"price":{"a":1}}`},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, observe.Malformed, newFixture(t).deliver(testSecret, test.contentType, []byte(test.body)))
		})
	}
}

func TestNoticeWaitsForTheLedger(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	sale := f.sell()
	f.book.broken = true
	require.Equal(t, observe.Unavailable, f.tell(sale, "sale"))
	f.start() // the origin is unknown then
	require.Equal(t, observe.Unavailable, f.tell(sale, "sale"))
	f.book.broken = false
	require.Equal(t, observe.Recorded, f.tell(sale, "sale"))
	_, found := f.receipt(sale.ID)
	require.True(t, found)
}

func TestNoForgedAddressIsTaken(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	sale := f.sell()
	contentType, body := sale.Form("sale")
	random := rand.New(rand.NewPCG(1, 2))
	for range cases.Count(t) {
		forged := []byte(testSecret)
		switch random.IntN(3) {
		case 0: // one bit
			forged[random.IntN(len(forged))] ^= 1 << random.IntN(8)
		case 1: // a part
			forged = forged[:random.IntN(len(forged))]
		default: // another one
			for i := range forged {
				forged[i] = "0123456789abcdef"[random.IntN(16)]
			}
		}
		require.Equal(t, observe.Unverified, f.deliver(string(forged), contentType, body), "%q", forged)
	}
	_, found := f.receipt(sale.ID)
	require.False(t, found)
}

// An address with another secret may be the shop's old one, and is told of until a
// notice comes to the right one.
func TestNoticesToAnotherAddressAreSeen(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	sale := f.sell()
	contentType, body := sale.Form("sale")
	require.Equal(t, observe.Unverified, f.deliver("short", contentType, body))
	require.Empty(t, f.Health().LastError, "somebody's guess")
	for range 9 {
		require.Equal(t, observe.Unverified, f.deliver(testSecret[1:]+"x", contentType, body))
	}
	require.Equal(t, observe.ErrUnverified, f.Health().LastError)
	require.Equal(t, 1, countLines(f.log))
	require.Contains(t, f.log.String(), "option=hook_secret")
	require.NotContains(t, f.log.String(), testSecret[1:])
	require.Equal(t, observe.Recorded, f.tell(sale, "sale"))
	require.Empty(t, f.Health().LastError)
}
