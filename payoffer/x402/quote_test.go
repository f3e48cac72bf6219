package x402

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// shopOf makes a Service that only quotes.
func shopOf(t *testing.T, c setup) *Service {
	t.Helper()
	c.ledger = nopBook{}
	c = c.withDefaults(t)
	o, rails := testOffer(t, c)
	config := Config{Offer: o, Limiter: c.limiter, Signer: c.signer, Now: time.Now}
	for _, rail := range rails {
		f := must(NewFacilitator(FacilitatorConfig{URL: DefaultTestFacilitator}))(t)
		config.Rails = append(config.Rails, Rail{USDC: rail, Facilitators: []*Facilitator{f}})
	}
	s := must(New(config))(t)
	return s
}

// takeToken removes the extension access from a quote and returns its token.
func takeToken(t *testing.T, quote map[string]any) string {
	t.Helper()
	extensions := quote["extensions"].(map[string]any)
	require.Contains(t, extensions, "access")
	token := extensions["access"].(map[string]any)["info"].(map[string]any)["token"].(string)
	delete(extensions, "access")
	return token
}

func TestQuoteBothVersions(t *testing.T) {
	s := shopOf(t, setup{networks: []string{"base", "base-sepolia"}})
	header, err := base64.StdEncoding.DecodeString(s.Quote().Header())
	require.NoError(t, err, "the standard alphabet, which every client reads")
	var quote map[string]any
	require.NoError(t, json.Unmarshal(header, &quote))
	require.Contains(t, quote["extensions"], "bazaar")
	delete(quote["extensions"].(map[string]any), "bazaar") // has a test of its own
	require.Regexp(t, `^[A-Z2-7]{26}$`, takeToken(t, quote))
	require.JSONEq(t, `{
		"x402Version": 2, "error": "payment required",
		"resource": {"url": "https://pay.example.org/v1/sponsor", "description": "42 USD, one payment: Example Offer", "mimeType": "application/json",
			"serviceName": "Example Offer", "iconUrl": "https://pay.example.org/favicon.svg"},
		"accepts": [
			{"scheme": "exact", "network": "eip155:8453", "amount": "42000000", "asset": "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913",
			 "payTo": "`+testPayTo+`", "maxTimeoutSeconds": 300, "extra": {"name": "USD Coin", "version": "2", "paymentFlow": "upfront"}},
			{"scheme": "exact", "network": "eip155:84532", "amount": "42000000", "asset": "0x036CbD53842c5426634e7929541eC2318f3dCF7e",
			 "payTo": "`+testPayTo+`", "maxTimeoutSeconds": 300, "extra": {"name": "USDC", "version": "2", "paymentFlow": "upfront"}}],
		"extensions": {"payment-identifier": {"info": {"required": false}}}
	}`, string(mustJSON(t, quote)))

	var body map[string]any
	require.NoError(t, json.Unmarshal(s.Quote().Body, &body))
	require.EqualValues(t, 1, body["x402Version"])
	accepts := body["accepts"].([]any)
	require.Len(t, accepts, 2)
	first := accepts[0].(map[string]any)
	require.Equal(t, "base", first["network"])
	require.Equal(t, "42000000", first["maxAmountRequired"])
	require.Equal(t, "https://pay.example.org/v1/sponsor", first["resource"])
	require.NotEmpty(t, first["description"])
	require.NotContains(t, first, "outputSchema", "null makes the reference client of version 1 throw")
	require.NotContains(t, first, "amount")
	require.Equal(t, map[string]any{"name": "USD Coin", "version": "2"}, first["extra"], "version 1 knows no flows")
	require.Equal(t, map[string]any{
		"scheme": "stripe", "network": "fiat", "amountUsd": 42.0, "asset": "USD", "url": "https://checkout.example/pay",
		"methods": []any{"card", "us_bank_account", "cashapp", "link", "klarna", "afterpay_clearpay", "affirm"},
	}, body["fallback"])
	for _, lifts := range []string{`spendControls.maxAmountPerPayment to "$42" (@x402/fetch)`, "maxValue to 42000000n (x402-fetch)", "maxPaymentValue to 42000000n with @x402/core below 2.23 (Cloudflare"} {
		require.Contains(t, body["hint"], lifts)
	}
}

func TestQuoteWithoutUSDCRail(t *testing.T) {
	s := shopOf(t, setup{networks: []string{}})
	require.Empty(t, s.Quote().Header())
	var body map[string]any
	require.NoError(t, json.Unmarshal(s.Refusal("no").Body, &body))
	require.Equal(t, "no", body["error"])
	require.Equal(t, "https://checkout.example/pay", body["fallback"].(map[string]any)["url"])
	require.Len(t, body, 2, "nothing that an x402 client would read")
	require.Empty(t, s.Accepts())
}

func TestRefusalRepeatsTerms(t *testing.T) {
	s := shopOf(t, setup{})
	standing, refusal := *s.Quote(), s.Refusal(`"<script>`)
	header := must(base64.StdEncoding.DecodeString(refusal.Header()))(t)
	var quote PaymentRequired
	require.NoError(t, json.Unmarshal(header, &quote))
	require.Equal(t, `"<script>`, quote.Error)
	require.Equal(t, s.Accepts(), quote.Accepts)
	require.Contains(t, quote.Extensions, "payment-identifier")
	require.NotContains(t, quote.Extensions, "bazaar", "nobody lists a resource by a refusal")
	require.NotContains(t, string(refusal.Body), "<script>", "a browser that sniffs finds no element")
	require.Equal(t, standing, *s.Quote())
}

func TestRefusalHeaderTruncatesLongError(t *testing.T) {
	s := shopOf(t, setup{})
	for name, c := range map[string]struct{ reason, want string }{
		"what fits":         {strings.Repeat("r", 160), strings.Repeat("r", 160)},
		"letters":           {strings.Repeat("r", 161), strings.Repeat("r", 157) + "…"},
		"of two bytes":      {strings.Repeat("é", 81), strings.Repeat("é", 78) + "…"},
		"escaped":           {strings.Repeat("<", 27), strings.Repeat("<", 26) + "…"},
		"quoted, then more": {`"` + strings.Repeat("r", 159), `"` + strings.Repeat("r", 155) + "…"},
	} {
		t.Run(name, func(t *testing.T) {
			refusal := s.Refusal(c.reason)
			var header PaymentRequired
			text := must(base64.StdEncoding.DecodeString(refusal.Header()))(t)
			require.NoError(t, json.Unmarshal(text, &header))
			require.Equal(t, c.want, header.Error)
			require.Equal(t, c.reason, refusal.Terms.Error)
			var body PaymentRequiredV1
			require.NoError(t, json.Unmarshal(refusal.Body, &body))
			require.Equal(t, c.reason, body.Error)
			require.Equal(t, c.reason, s.Required(c.reason).Error)
		})
	}
}

// A resource with a long address has only the essentials in the header.
func TestQuoteHeaderShortensResource(t *testing.T) {
	whole := shopOf(t, setup{}).Offer.Resource()
	require.Equal(t, whole, inHeader(whole))
	whole.URL = "https://" + strings.Repeat("h", 240) + "/v1/sponsor"
	require.Equal(t, offer.Resource{URL: whole.URL, Description: whole.Description, MimeType: whole.MimeType}, inHeader(whole))
}
