package service

import (
	"context"
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// needsLedger are requests to all paths that read or write the ledger.
var needsLedger = map[string]struct {
	method, path string
	header       func() http.Header
	body         func() string
	// status and body are the answer of an open ledger, without is in that of one which is not open.
	status  int
	has     string
	without string
}{
	"report":  {method: "GET", path: offer.PathReceived, status: 200, has: `"goalUsd"`, without: "ledger-unavailable"},
	"feed":    {method: "GET", path: offer.PathReceived + "?after=0", status: 200, has: `"transitions"`, without: "ledger-unavailable"},
	"thanks":  {method: "GET", path: offer.PathThanks + "?session_id=cs_1", status: 200, has: `"state"`, without: "ledger-unavailable"},
	"receipt": {method: "GET", path: offer.PathReceipt + "/QQ.QQ", status: 404, has: "not-found", without: "starting"},
	"payment": {method: "POST", path: offer.PathSponsor, header: func() http.Header {
		return http.Header{http.CanonicalHeaderKey(x402.HeaderSignature): {base64.StdEncoding.EncodeToString(aPayment.Payload)}}
	}, status: 402, has: `"error"`, without: "ledger_unavailable"},
	"payment by an agent": {method: "POST", path: offer.PathMCP, body: func() string {
		return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"first_42_sponsor","_meta":{"x402/payment":` + string(aPayment.Payload) + `}}}`
	}, status: 200, has: `accepts`, without: "ledger_unavailable"},
	"card webhook": {method: "POST", path: offer.PathHookCard, header: func() http.Header {
		return http.Header{"Stripe-Signature": {payoffertest.SignDelivery([]byte(checkoutEvent()), time.Now(), "whsec_0123456789abcdef")}}
	}, body: checkoutEvent, status: 200, has: `"received"`, without: "delivery-unavailable"},
}

// checkoutEvent is a card payment of the offer.
func checkoutEvent() string {
	processor := payoffertest.NewProcessor("", time.Now)
	processor.Pay("plink_1", 42_00, false)
	return string(processor.Events()[0])
}

// Caddy serves a little before the ledger is open. Requests that need it wait for that, for a limited time.
func TestRequestsWaitForTheLedgerAtAStart(t *testing.T) {
	for name, c := range needsLedger {
		for _, opens := range []bool{true, false} {
			if !opens {
				name += ", never open"
			}
			t.Run(name, func(t *testing.T) {
				h := newHouse(t) // whose server is outside of the bubble
				synctest.Test(t, func(t *testing.T) {
					h.t = t
					runtime := h.runtime(h.log)
					svc := h.acquire(runtime, "one")
					defer time.Sleep(time.Minute) // until the storage's locks have ended
					defer h.release(runtime)
					header, body := http.Header{}, ""
					if c.header != nil {
						header = c.header()
					}
					if c.body != nil {
						body = c.body()
					}
					began, answered := time.Now(), make(chan *httptest.ResponseRecorder, 1)
					go func() { answered <- h.ask(svc, c.method, c.path, header, body) }()
					time.Sleep(3 * time.Second)
					require.Empty(t, answered, "it waits")
					if opens {
						h.open(runtime, svc)
						got := <-answered
						require.Equal(t, c.status, got.Code, got.Body.String())
						require.Contains(t, got.Body.String(), c.has)
						require.NotContains(t, got.Body.String(), c.without)
						return
					}
					got := <-answered
					if c.path != offer.PathMCP {
						require.Equal(t, http.StatusServiceUnavailable, got.Code, got.Body.String())
					}
					require.Contains(t, got.Body.String(), c.without)
					require.Equal(t, startWait, time.Since(began))
				})
			})
		}
	}
}

func TestNoRequestWaitsWhoseClientHasLeft(t *testing.T) {
	h := newHouse(t)
	synctest.Test(t, func(t *testing.T) {
		h.t = t
		runtime := h.runtime(h.log)
		svc := h.acquire(runtime, "one")
		defer h.release(runtime)
		ctx, leave := context.WithCancel(t.Context())
		answered := make(chan bool, 1)
		go func() { answered <- svc.started(ctx) }()
		synctest.Wait()
		require.Empty(t, answered)
		leave()
		require.False(t, <-answered)
	})
}
