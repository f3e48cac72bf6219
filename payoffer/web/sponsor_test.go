package web

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

func TestSponsorSettledResponseVersion(t *testing.T) {
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

// lostResponse is a connection that ends before the response is sent.
type lostResponse struct{ http.ResponseWriter }

func (lostResponse) FlushError() error { return io.ErrClosedPipe }

func TestSponsorAcknowledgesOnlyWholeResponse(t *testing.T) {
	for name, whole := range map[string]bool{"whole": true, "lost": false} {
		w := newWorld(t)
		w.outcome = x402.Outcome{Status: x402.Settled, Version: 2, Evidence: "seen", ByPayer: true}
		s, rec := w.server(t), http.ResponseWriter(httptest.NewRecorder())
		if !whole {
			rec = lostResponse{rec}
		}
		r := httptest.NewRequest(http.MethodPost, "/v1/sponsor", nil)
		r.Header.Set(x402.HeaderSignature, base64.StdEncoding.EncodeToString([]byte(`{"a":1}`)))
		require.True(t, s.Serve(rec, r))
		require.Equal(t, []bool{whole}, w.written, name)
	}
}

func TestSponsorSettledWithoutDetails(t *testing.T) {
	w := newWorld(t)
	w.outcome = x402.Outcome{Status: x402.Settled, Version: 2, Evidence: "seen"}
	res := send(t, w.server(t), "POST", "/v1/sponsor", "", "PAYMENT-SIGNATURE", "e30=")
	require.Equal(t, 200, res.StatusCode, "the buyer was charged")
	require.Equal(t, "seen", readJSON(t, res)["status"])
}

func TestSponsorRefusalIs402WithReason(t *testing.T) {
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

func TestSponsorOnlyRefusalIs402(t *testing.T) {
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

func TestSponsorMalformedHeaderIs400(t *testing.T) {
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

func TestSponsorGETDescribesPayment(t *testing.T) {
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

var parameter = regexp.MustCompile(`([a-z]+)="([^"]*)"`)

// credential answers a challenge as a value of Authorization. Its signature is of
// nobody.
func credential(t *testing.T, challenge string) string {
	t.Helper()
	echoed := map[string]string{}
	for _, found := range parameter.FindAllStringSubmatch(challenge, -1) {
		echoed[found[1]] = found[2]
	}
	text, err := json.Marshal(map[string]any{"challenge": echoed, "payload": map[string]string{"type": "authorization", "from": payTo}})
	require.NoError(t, err)
	return "Payment " + base64.RawURLEncoding.EncodeToString(text)
}

// challenge is that of a 402 for who has not paid.
func challenge(t *testing.T, s *Server) string {
	t.Helper()
	values := send(t, s, "POST", offer.PathSponsor, "").Header["Www-Authenticate"]
	require.Len(t, values, 1)
	return values[0]
}

func TestSponsorChallengesOnlyWith402(t *testing.T) {
	w := newWorld(t)
	s := w.server(t)
	first, second := challenge(t, s), challenge(t, s)
	require.NotEqual(t, first, second)
	for status, want := range map[x402.Status]struct {
		code       int
		challenges bool
	}{
		x402.Refused: {402, true}, x402.Settled: {200, false}, x402.Open: {503, false}, x402.Unavailable: {503, false},
		x402.Conflict: {409, false}, x402.Malformed: {400, false}, x402.Limited: {429, false},
	} {
		w.outcome = x402.Outcome{Status: status, Reason: "reason"}
		res := send(t, s, "POST", offer.PathSponsor, "", "PAYMENT-SIGNATURE", "e30=")
		require.Equal(t, want.code, res.StatusCode, status)
		require.Equal(t, want.challenges, len(res.Header["Www-Authenticate"]) > 0, status)
	}
	for _, headers := range [][]string{{"PAYMENT-SIGNATURE", "e30="}, {"X-PAYMENT", "e30="}, {"Authorization", "Payment e30"}} {
		for _, accept := range []string{"*/*", browser} {
			res := send(t, s, "GET", offer.PathSponsor, "", append(headers, "Accept", accept)...)
			require.Equal(t, 402, res.StatusCode, "a 200 could be taken for a receipt")
			require.Contains(t, read(t, res), "POST "+s.Offer.URL(offer.PathSponsor))
		}
	}
	for _, other := range []string{"GET " + offer.PathSponsor, "POST " + offer.PathQuote, "GET " + offer.PathQuote, "GET " + offer.PathOffer, "POST " + offer.PathOffer} {
		method, path, _ := strings.Cut(other, " ")
		require.Empty(t, send(t, s, method, path, "").Header["Www-Authenticate"], other)
	}
	o := *w.offer
	o.MPP, w.offer = "", &o
	require.Empty(t, send(t, w.server(t), "POST", offer.PathSponsor, "").Header["Www-Authenticate"])
}

func TestMPPCredentialIsSettled(t *testing.T) {
	for field, named := range map[string]string{"Authorization": "Authorization", "Payment-Authorization": "Payment-Authorization"} {
		w := newWorld(t)
		o := *w.offer
		o.MPP, w.offer = named, &o
		s := w.server(t)
		w.outcome = x402.Outcome{
			Status: x402.Settled, Version: 2, Evidence: "seen", AmountUSD: 42_00, Intent: "0xnonce", At: at,
			Response: &x402.SettleResponse{Success: true, Network: "eip155:8453", Transaction: "0xabc", Payer: payTo},
		}
		res := send(t, s, "POST", offer.PathSponsor, "", field, credential(t, challenge(t, s)))
		require.Equal(t, 200, res.StatusCode)
		require.Equal(t, "private, no-store", res.Header.Get("Cache-Control"))
		require.Empty(t, res.Header["Payment-Response"], "that is of x402")
		receipt := must(base64.RawURLEncoding.DecodeString(res.Header.Get("Payment-Receipt")))(t)
		require.Contains(t, string(receipt), `"status":"success","method":"evm","timestamp":"`+at.UTC().Format(time.RFC3339)+`","reference":"0xabc"`)
		require.Equal(t, "0xabc", readJSON(t, res)["transaction"])
		require.Len(t, w.attempts, 1)
		require.Contains(t, string(w.attempts[0].Payload), `"network":"eip155:8453"`)
		require.NotNil(t, w.attempts[0].Refuse)
	}
}

func TestMPPCredentialProblemTypes(t *testing.T) {
	const problems = "https://paymentauth.org/problems/"
	for status, want := range map[x402.Status]struct {
		code    int
		problem string
	}{
		x402.Refused:     {402, problems + "verification-failed"},
		x402.Malformed:   {402, problems + "malformed-credential"},
		x402.Open:        {503, "urn:pay-offer:problem:open-settlement"},
		x402.Unavailable: {503, "urn:pay-offer:problem:settlement-unavailable"},
		x402.Conflict:    {409, "urn:pay-offer:problem:payment-conflict"},
		x402.Limited:     {429, "urn:pay-offer:problem:too-many-attempts"},
	} {
		w := newWorld(t)
		s := w.server(t)
		answer := credential(t, challenge(t, s))
		w.outcome = x402.Outcome{Status: status, Reason: "insufficient_funds", Detail: "There is too little.", RetryAfter: time.Second}
		if status == x402.Refused {
			// The nonce is of no challenge: what the scheme finds is what explains it.
			w.outcome.Reason, w.outcome.Detail = "verification-failed", "There is too little."
		}
		res := send(t, s, "POST", offer.PathSponsor, "", "Authorization", answer, "Accept", "text/html")
		require.Equal(t, want.code, res.StatusCode, status)
		challenges := want.code == 402
		require.Equal(t, challenges, len(res.Header["Www-Authenticate"]) > 0, status)
		require.Equal(t, challenges, res.Header.Get("PAYMENT-REQUIRED") != "", status)
		require.Empty(t, res.Header["Payment-Receipt"])
		if challenges {
			require.Equal(t, "application/problem+json", res.Header.Get("Content-Type"))
			require.Equal(t, "no-store", res.Header.Get("Cache-Control"))
			body := readJSON(t, res)
			require.Equal(t, want.problem, body["type"])
			require.Equal(t, 402., body["status"])
			require.Contains(t, body["detail"], "There is too little.")
			require.NotEmpty(t, body["fallback"])
		}
	}
}

func TestMPPInvalidCredentialIsNotPaid(t *testing.T) {
	w := newWorld(t)
	s := w.server(t)
	answer := credential(t, challenge(t, s))
	unsupported := credential(t, strings.Replace(challenge(t, s), `"evm"`, `"tempo"`, 1))
	for name, c := range map[string]struct {
		path       string
		header     []string
		code       int
		challenges int
		problem    string
	}{
		"not base64":              {offer.PathSponsor, []string{"Authorization", "Payment !"}, 402, 1, "problems/malformed-credential"},
		"of another method":       {offer.PathSponsor, []string{"Authorization", unsupported}, 400, 0, "problems/method-unsupported"},
		"two":                     {offer.PathSponsor, []string{"Authorization", answer, "Authorization", answer}, 400, 0, "malformed-payment"},
		"beside version 2":        {offer.PathSponsor, []string{"Authorization", answer, "PAYMENT-SIGNATURE", "e30="}, 400, 0, "malformed-payment"},
		"beside version 1":        {offer.PathSponsor, []string{"Authorization", answer, "X-PAYMENT", "e30="}, 400, 0, "malformed-payment"},
		"garbage beside x402":     {offer.PathSponsor, []string{"Authorization", "Payment !", "PAYMENT-SIGNATURE", "e30="}, 400, 0, "malformed-payment"},
		"in the field of another": {offer.PathSponsor, []string{"Payment-Authorization", answer}, 402, 1, ""},
		"a login":                 {offer.PathSponsor, []string{"Authorization", "Basic dXNlcjpwYXNz"}, 402, 1, ""},
		"at the quote":            {offer.PathQuote, []string{"Authorization", answer}, 402, 0, ""},
	} {
		res := send(t, s, "POST", c.path, "", c.header...)
		require.Equal(t, c.code, res.StatusCode, name)
		require.Len(t, res.Header["Www-Authenticate"], c.challenges, name)
		body := readJSON(t, res)
		if c.problem != "" {
			require.Contains(t, body["type"], c.problem, name)
		}
		if c.path == offer.PathQuote {
			require.Contains(t, body["error"], "the payment was not sent", name)
		}
	}
	require.Empty(t, w.attempts)
}

func TestMPPChallengeNeedsLoadedKey(t *testing.T) {
	w := newWorld(t)
	w.key = nil
	res := send(t, w.server(t), "POST", offer.PathSponsor, "")
	require.Equal(t, http.StatusPaymentRequired, res.StatusCode)
	require.Empty(t, res.Header["Www-Authenticate"])
}

func TestQuoteBothVersionsNoStore(t *testing.T) {
	w := newWorld(t)
	s := w.server(t)
	for _, path := range []string{"/v1/offer", "/v1/quote", "/v1/sponsor"} {
		for _, body := range []string{"", "{}", "not json", strings.Repeat("x", 64<<10)} {
			res := send(t, s, "POST", path, body, "Accept", browser)
			require.Equal(t, 402, res.StatusCode, path)
			require.Contains(t, res.Header.Get("PAYMENT-REQUIRED"), w.quote.HeaderStart)
			require.Equal(t, "no-store", res.Header.Get("Cache-Control"))
			require.Equal(t, string(w.quote.Body), read(t, res))
		}
	}
}

func TestQuoteRedirectsBrowserToCheckout(t *testing.T) {
	s := newWorld(t).server(t)
	for _, path := range []string{"/v1/offer", "/v1/quote"} {
		res := send(t, s, "GET", path, "", "Accept", browser)
		require.Equal(t, 302, res.StatusCode)
		require.Equal(t, checkout, res.Header.Get("Location"))
		require.Equal(t, "Accept", res.Header.Get("Vary"))
		require.Equal(t, "no-store", res.Header.Get("Cache-Control"))
		require.Contains(t, read(t, res), `href="https://checkout.example/pay?a=1&amp;b=2"`)
		require.Equal(t, "Accept", send(t, s, "GET", path, "").Header.Get("Vary"))
	}
}

func TestQuoteWithoutUSDC(t *testing.T) {
	w := newWorld(t)
	w.quote = &x402.Quote{Body: []byte(`{"error":"payment required"}`)}
	res := send(t, w.server(t), "GET", "/v1/offer", "")
	require.Equal(t, 402, res.StatusCode)
	require.NotContains(t, res.Header, "Payment-Required")
}

func TestQuoteIgnoresPaymentHeader(t *testing.T) {
	w := newWorld(t)
	s := w.server(t)
	for _, header := range []string{"PAYMENT-SIGNATURE", "X-PAYMENT"} {
		for _, method := range []string{"GET", "POST"} {
			res := send(t, s, method, "/v1/quote", "", header, "!!! not base64")
			require.Equal(t, 402, res.StatusCode)
			reason := readJSON(t, res)["error"]
			require.Contains(t, reason, "the payment was not sent")
			require.Contains(t, reason, baseURL+"/v1/sponsor")
		}
	}
	require.Empty(t, w.attempts)
}

func TestSponsorRefusesBadBodyBeforePayment(t *testing.T) {
	w := newWorld(t)
	s := w.server(t)
	r := httptest.NewRequest("POST", "/v1/sponsor", brokenBody{})
	r.Header.Set("PAYMENT-SIGNATURE", "e30=")
	rec := httptest.NewRecorder()
	s.Serve(rec, r)
	require.Equal(t, 400, rec.Code)
	big := strings.Repeat("x", 64<<10+1)
	for _, path := range []string{"/v1/offer", "/v1/quote", "/v1/sponsor"} {
		res := send(t, s, "POST", path, big, "PAYMENT-SIGNATURE", "e30=")
		require.Equal(t, 413, res.StatusCode, path)
		require.Equal(t, "urn:pay-offer:problem:body-too-large", readJSON(t, res)["type"])
	}
	require.Empty(t, w.attempts)
}

// brokenBody ends before its time.
type brokenBody struct{ io.Reader }

func (brokenBody) Read([]byte) (int, error) { return 0, errors.New("cut off") }

func TestNewQuoteReplacesCached(t *testing.T) {
	w := newWorld(t)
	s := w.server(t)
	require.Contains(t, read(t, send(t, s, "GET", "/v1/offer", "")), "accepts")
	w.quote = &x402.Quote{HeaderStart: "bmV3", Body: []byte(`{"error":"new terms"}`)}
	res := send(t, s, "GET", "/v1/offer", "")
	require.Contains(t, res.Header.Get("PAYMENT-REQUIRED"), "bmV3")
	require.Equal(t, "new terms", readJSON(t, res)["error"])
}
