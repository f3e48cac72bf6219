package web

import (
	"errors"
	"io"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

func TestAQuoteSpeaksBothDialectsAndIsNotStored(t *testing.T) {
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

func TestABrowserIsLedFromTheQuoteToTheCheckout(t *testing.T) {
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

func TestAnOfferWithoutUSDCQuotesWithoutPaymentHeader(t *testing.T) {
	w := newWorld(t)
	w.quote = &x402.Quote{Body: []byte(`{"error":"payment required"}`)}
	res := send(t, w.server(t), "GET", "/v1/offer", "")
	require.Equal(t, 402, res.StatusCode)
	require.NotContains(t, res.Header, "Payment-Required")
}

func TestAPaymentSentToTheQuoteIsNotRead(t *testing.T) {
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

func TestAnOversizedOrBrokenBodyIsRefusedBeforePayment(t *testing.T) {
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

func TestANewStandingQuoteReplacesTheRenderedOne(t *testing.T) {
	w := newWorld(t)
	s := w.server(t)
	require.Contains(t, read(t, send(t, s, "GET", "/v1/offer", "")), "accepts")
	w.quote = &x402.Quote{HeaderStart: "bmV3", Body: []byte(`{"error":"new terms"}`)}
	res := send(t, s, "GET", "/v1/offer", "")
	require.Contains(t, res.Header.Get("PAYMENT-REQUIRED"), "bmV3")
	require.Equal(t, "new terms", readJSON(t, res)["error"])
}
