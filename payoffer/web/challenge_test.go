package web

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

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

func TestEvery402OfThePayableAddressChallengesAndNothingElseDoes(t *testing.T) {
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
	for _, other := range []string{"GET " + offer.PathSponsor, "POST " + offer.PathQuote, "GET " + offer.PathQuote, "GET " + offer.PathOffer, "POST " + offer.PathOffer} {
		method, path, _ := strings.Cut(other, " ")
		require.Empty(t, send(t, s, method, path, "").Header["Www-Authenticate"], other)
	}
	o := *w.offer
	o.MPP, w.offer = "", &o
	require.Empty(t, send(t, w.server(t), "POST", offer.PathSponsor, "").Header["Www-Authenticate"])
}

func TestACredentialIsPaidAsItsChallengeSays(t *testing.T) {
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

func TestWhatBecameOfACredentialIsSaidInTheWordsOfItsScheme(t *testing.T) {
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

func TestACredentialThatCannotBeTakenReachesNobody(t *testing.T) {
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

func TestNobodyIsChallengedBeforeTheKeyIsLoaded(t *testing.T) {
	w := newWorld(t)
	w.key = nil
	res := send(t, w.server(t), "POST", offer.PathSponsor, "")
	require.Equal(t, http.StatusPaymentRequired, res.StatusCode)
	require.Empty(t, res.Header["Www-Authenticate"])
}
