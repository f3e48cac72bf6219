package payoffertest

import (
	"encoding/json"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func shopSale() StorefrontSale {
	return StorefrontSale{
		Seller: "seller", Product: "bfi_30HLgGWL8H2wo_Gzlg==", ShortProduct: "QMGY", Price: 4200,
		CreatedAt: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC),
	}
}

// listing is what one request to the shop's list gives.
func listing(t *testing.T, shop *Storefront, token, query string) (status int, ids []string, next string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, shop.URL()+"/v2/sales?"+query, nil)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := shop.Transport().RoundTrip(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	var answer struct {
		Success bool                  `json:"success"`
		Sales   []struct{ ID string } `json:"sales"`
		Next    string                `json:"next_page_key"`
	}
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&answer))
	require.Equal(t, resp.StatusCode == http.StatusOK, answer.Success)
	for _, sale := range answer.Sales {
		ids = append(ids, sale.ID)
	}
	return resp.StatusCode, ids, answer.Next
}

func TestStorefrontListsTenSalesAPageNewestFirst(t *testing.T) {
	shop := NewStorefront(t, "token")
	var sold []string
	for i := range 12 {
		sale := shopSale()
		sale.CreatedAt = sale.CreatedAt.Add(time.Duration(i) * time.Minute)
		sold = append([]string{shop.Sell(sale).ID}, sold...)
	}
	failed := shopSale()
	failed.Failed = true
	shop.Sell(failed)

	status, first, next := listing(t, shop, "token", "after=2026-11-21")
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, sold[:10], first)
	_, second, last := listing(t, shop, "token", "after=2026-11-21&page_key="+next)
	require.Equal(t, sold[10:], second)
	require.Empty(t, last)

	_, none, _ := listing(t, shop, "token", "after=2026-11-22")
	require.Empty(t, none)
	_, one, _ := listing(t, shop, "token", "order_id=524459003")
	require.Len(t, one, 1)
	for _, wrong := range []string{"after=yesterday", "order_id=x", "product_id=QMGY", "page_key=1-1"} {
		status, _, _ := listing(t, shop, "token", wrong)
		require.Equal(t, http.StatusBadRequest, status, wrong)
	}
	status, _, _ = listing(t, shop, "another", "")
	require.Equal(t, http.StatusUnauthorized, status)
}

// What makes the shop's notices hard to read: nested names, custom fields in
// place of others, and names that are not escaped.
func TestStorefrontNoticeIsAsTheShopSendsIt(t *testing.T) {
	sale := NewStorefront(t, "token").Sell(shopSale())
	sale.CustomFields = [][2]string{{"Your name", "A & B"}, {"price", "1"}}
	sale.URLParams = [][2]string{{"utm[source]", "x y"}, {"a]&price=2&b[", "z"}}
	_, form := sale.Form("refund")
	require.Contains(t, string(form), "url_params[utm%5Bsource%5D]=x%20y")
	values, err := url.ParseQuery(string(form))
	require.NoError(t, err)
	require.Equal(t, []string{"1", "2"}, values["price"])
	require.Equal(t, "A & B", values.Get("Your name"))
	require.Equal(t, "A & B", values.Get("custom_fields[Your name]"))
	require.Equal(t, "refund", values.Get("resource_name"))
	require.Equal(t, sale.ID, values.Get("sale_id"))

	_, body := sale.JSON("")
	var object map[string]any
	require.NoError(t, json.Unmarshal(body, &object))
	require.Equal(t, "1", object["price"])
	require.Equal(t, map[string]any{"Your name": "A & B", "price": "1"}, object["custom_fields"])
	require.NotContains(t, object, "resource_name")
}
