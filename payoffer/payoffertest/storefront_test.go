package payoffertest

import (
	"encoding/json"
	"net/http"
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
