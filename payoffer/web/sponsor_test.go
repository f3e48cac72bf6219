package web

import (
	"encoding/base64"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

func TestASettledPaymentIsAnsweredInItsDialect(t *testing.T) {
	for version, name := range map[int]string{1: "X-PAYMENT-RESPONSE", 2: "PAYMENT-RESPONSE"} {
		w := newWorld(t)
		w.outcome = x402.Outcome{
			Status: x402.Settled, Version: version, Evidence: "claimed", AmountUSD: 4150,
			Response: &x402.SettleResponse{Success: true, Payer: "0xfrom", Transaction: "0xtx", Network: "eip155:8453"}, ByPayer: true,
		}
		res := send(t, w.server(t), "POST", "/v1/sponsor", "{}", "PAYMENT-SIGNATURE", "eyJhIjoxfQ==")
		require.Equal(t, 200, res.StatusCode)
		require.Equal(t, "private, no-store", res.Header.Get("Cache-Control"))
		require.Empty(t, res.Header.Get("ETag"))
		require.Empty(t, res.Header.Get("PAYMENT-REQUIRED"))
		decoded := must(base64.StdEncoding.DecodeString(res.Header.Get(name)))(t)
		var settle x402.SettleResponse
		require.NoError(t, json.Unmarshal(decoded, &settle))
		require.Equal(t, *w.outcome.Response, settle)

		body := readJSON(t, res)
		require.Equal(t, "claimed", body["status"])
		require.Equal(t, "0xtx", body["transaction"])
		require.Equal(t, "0xfrom", body["payer"])
		require.Equal(t, 41.5, body["amountUsd"], "what was paid, not today's price")
		require.Equal(t, baseURL+"/v1/received", body["receiptUrl"], "the outcome names no authorization")
		require.Equal(t, `{"a":1}`, string(w.attempts[0].Payload))
		require.NotEmpty(t, w.attempts[0].Client)
	}
}

func TestASettledPaymentWithoutDetailsIsStillSettled(t *testing.T) {
	w := newWorld(t)
	w.outcome = x402.Outcome{Status: x402.Settled, Version: 2, Evidence: "seen"}
	res := send(t, w.server(t), "POST", "/v1/sponsor", "", "PAYMENT-SIGNATURE", "e30=")
	require.Equal(t, 200, res.StatusCode, "the buyer was charged")
	require.Equal(t, "seen", readJSON(t, res)["status"])
}

func TestADefiniteNoIsANewQuoteWithItsReason(t *testing.T) {
	w := newWorld(t)
	w.outcome = x402.Outcome{
		Status: x402.Refused, Version: 2, Reason: "insufficient_funds", Detail: "the payer has 1 USDC",
		Response: &x402.SettleResponse{ErrorReason: "insufficient_funds"},
	}
	s := w.server(t)
	res := send(t, s, "POST", "/v1/sponsor", "", "PAYMENT-SIGNATURE", "e30=")
	require.Equal(t, 402, res.StatusCode)
	require.NotEmpty(t, res.Header.Get("PAYMENT-REQUIRED"))
	decoded := must(base64.StdEncoding.DecodeString(res.Header.Get("PAYMENT-RESPONSE")))(t)
	require.Contains(t, string(decoded), `"success":false`)
	require.Equal(t, "insufficient_funds: the payer has 1 USDC", readJSON(t, res)["error"])

	w.outcome.Response = nil // refused before settlement
	require.NotContains(t, send(t, s, "POST", "/v1/sponsor", "", "PAYMENT-SIGNATURE", "e30=").Header, "Payment-Response")
}

func TestWhatIsNotADefiniteNoIsNeverAQuote(t *testing.T) {
	for _, tc := range []struct {
		status x402.Status
		code   int
		kind   string
		retry  string
		detail string
	}{
		{x402.Open, 503, "open-settlement", "7", "do not sign a new one"},
		{x402.Unavailable, 503, "settlement-unavailable", "7", "Send the same payment again"},
		{x402.Conflict, 409, "payment-conflict", "", "The sentence."},
		{x402.Malformed, 400, "malformed-payment", "", "The payment was not sent"},
		{x402.Limited, 429, "too-many-attempts", "7", "Send the same payment again"},
		{x402.Status(""), 503, "open-settlement", "7", "do not sign a new one"},
	} {
		w := newWorld(t)
		w.outcome = x402.Outcome{Status: tc.status, Version: 2, Reason: "code", Detail: "the sentence", Intent: "intent-1", RetryAfter: 7 * time.Second}
		res := send(t, w.server(t), "POST", "/v1/sponsor", "", "X-PAYMENT", "e30=")
		require.Equal(t, tc.code, res.StatusCode, tc.kind)
		require.Equal(t, "application/problem+json", res.Header.Get("Content-Type"))
		require.Equal(t, "no-store", res.Header.Get("Cache-Control"))
		require.Equal(t, tc.retry, res.Header.Get("Retry-After"), tc.kind)
		require.NotContains(t, res.Header, "Payment-Required")
		body := readJSON(t, res)
		require.Equal(t, "urn:pay-offer:problem:"+tc.kind, body["type"])
		require.Equal(t, float64(tc.code), body["status"])
		require.Equal(t, "code", body["reason"])
		require.Contains(t, body["detail"], "The sentence.")
		require.Contains(t, body["detail"], tc.detail)
	}
}

func TestAnUnreadablePaymentHeaderIsRefusedUnseen(t *testing.T) {
	w := newWorld(t)
	s := w.server(t)
	for _, headers := range [][]string{
		{"PAYMENT-SIGNATURE", "%%%"},
		{"PAYMENT-SIGNATURE", "e30=", "X-PAYMENT", "e30="},
		{"X-PAYMENT", "e30=", "X-PAYMENT", "e30="},
	} {
		res := send(t, s, "POST", "/v1/sponsor", "", headers...)
		require.Equal(t, 400, res.StatusCode)
		require.Equal(t, "urn:pay-offer:problem:malformed-payment", readJSON(t, res)["type"])
	}
	require.Empty(t, w.attempts)
}

func TestGettingTheSponsorAddressTellsHowToPay(t *testing.T) {
	w := newWorld(t)
	var quoted map[string]any
	require.NoError(t, json.Unmarshal(w.quote.Body, &quoted))
	body := readJSON(t, send(t, w.server(t), "GET", "/v1/sponsor", ""))
	for name, value := range quoted {
		require.Equal(t, value, body[name], "the same as in the quote")
	}
	require.Equal(t, baseURL+"/v1/sponsor", body["url"])
	page := read(t, send(t, w.server(t), "GET", "/v1/sponsor", "", "Accept", browser))
	require.Contains(t, page, "POST "+baseURL+"/v1/sponsor")

	w.accepts = nil
	require.NotContains(t, readJSON(t, send(t, w.server(t), "GET", "/v1/sponsor", "")), "accepts")
	require.NotContains(t, read(t, send(t, w.server(t), "GET", "/v1/sponsor", "", "Accept", browser)), "<ol>")
}
