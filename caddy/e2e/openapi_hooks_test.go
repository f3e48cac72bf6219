package e2e

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

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
	event := fmt.Sprintf(`{"id":"evt_1","object":"event","type":"checkout.session.completed","livemode":true,"created":%d,"data":{"object":{
		"id":"cs_1","object":"checkout.session","mode":"payment","status":"complete","payment_status":"paid","amount_total":4200,"currency":"usd",
		"livemode":true,"created":%[1]d,"payment_intent":"pi_1","payment_link":"plink_1"}}}`, time.Now().Unix()+1)
	notice := url.Values{
		"sale_id": {"sale-1"}, "order_number": {"1"}, "product_id": {"product-1"}, "price": {"4200"}, "currency": {"usd"}, "seller_id": {"seller-1"},
		"sale_timestamp": {time.Now().UTC().Add(time.Second).Format(time.RFC3339)},
	}.Encode()
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
		headers := []string{"Content-Type", "application/x-www-form-urlencoded"}
		if delivery.secret != "" {
			headers = []string{"Content-Type", "application/json", "Stripe-Signature", signature(delivery.body, delivery.secret)}
		}
		answer, body := d.ask(t, http.MethodPost, delivery.path, delivery.target, delivery.body, headers...)
		require.Equal(t, delivery.want, answer.StatusCode, "%s: %s", delivery.target, body)
		require.Empty(t, answer.Header.Get("Access-Control-Allow-Origin"))
		require.NotContains(t, string(body), shopSecret)
	}
}

// signature is the card processor's, of now.
func signature(body, secret string) string {
	now := time.Now().Unix()
	mac := hmac.New(sha256.New, []byte(secret))
	fmt.Fprintf(mac, "%d.%s", now, body)
	return fmt.Sprintf("t=%d,v1=%s", now, hex.EncodeToString(mac.Sum(nil)))
}
