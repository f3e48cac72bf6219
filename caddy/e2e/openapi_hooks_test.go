package e2e

import (
	"net/http"
	"strings"
	"testing"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/stretchr/testify/require"
)

// Secrets of the webhooks of a sale.
const (
	cardSecret = "whsec_of_the_description"
	shopSecret = "0123456789abcdef0123456789abcdef"
)

// deliver makes every answer to a webhook but that the ledger cannot be written.
func (s *sale) deliver(t *testing.T, d *described) {
	t.Helper()
	const shop = "/v1/hook/{storefront}/{secret}"
	shopTarget := "/v1/hook/tip-jar/" + shopSecret
	large := strings.Repeat("x", 257<<10)
	event, _ := server.CardPaid("1", 4200, cardSecret)
	notice, form := server.StorefrontSale("sale-1", 4200)
	for _, delivery := range []struct {
		path, target, body, secret string
		want                       int
	}{
		{"/v1/hook/card", "/v1/hook/card", event, cardSecret, http.StatusOK},
		{"/v1/hook/card", "/v1/hook/card", event, "whsec_of_another", http.StatusForbidden},
		{"/v1/hook/card", "/v1/hook/card", "{", cardSecret, http.StatusBadRequest},
		{"/v1/hook/card", "/v1/hook/card", large, cardSecret, http.StatusRequestEntityTooLarge},
		{shop, shopTarget, notice, "", http.StatusOK},
		{shop, shopTarget + "0", notice, "", http.StatusForbidden},
		{shop, shopTarget, large, "", http.StatusRequestEntityTooLarge},
	} {
		header := form
		if delivery.secret != "" {
			header = server.CardHeader(delivery.body, delivery.secret)
		}
		answer, body := d.ask(t, http.MethodPost, delivery.path, delivery.target, delivery.body,
			"Content-Type", header.Get("Content-Type"), "Stripe-Signature", header.Get("Stripe-Signature"))
		require.Equal(t, delivery.want, answer.StatusCode, "%s: %s", delivery.target, body)
		require.Empty(t, answer.Header.Get("Access-Control-Allow-Origin"))
		require.NotContains(t, string(body), shopSecret)
	}
}
