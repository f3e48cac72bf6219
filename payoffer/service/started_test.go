package service

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/announce"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/operator"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/cases"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/postgres"
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
func TestRequestsWaitForLedgerAtStart(t *testing.T) {
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

func TestWaitEndsIfClientLeaves(t *testing.T) {
	h := newHouse(t)
	synctest.Test(t, func(t *testing.T) {
		h.t = t
		runtime := h.runtime(h.log)
		svc := h.acquire(runtime, "one")
		defer h.release(runtime)
		ctx, leave := context.WithCancel(t.Context())
		answered := make(chan bool, 1)
		go func() { answered <- svc.waitStarted(ctx) }()
		synctest.Wait()
		require.Empty(t, answered)
		leave()
		require.False(t, <-answered)
	})
}

// numbered is one of many offers, each with accounts and receivers of its own.
func (h *house) numbered(n int) *Settings {
	h.t.Helper()
	id := fmt.Sprintf("o%d.example", n)
	card, err := offer.NewCard("https://checkout.example/pay", nil, 42_00)
	require.NoError(h.t, err)
	card.PaymentLink = fmt.Sprintf("plink_%d", n)
	network := must(offer.LookupNetwork("base-sepolia"))(h.t)
	usdc := must(offer.NewUSDC("usdc", network, fmt.Sprintf("0x%040d", n+1), 42_00))(h.t)
	o, err := offer.New(offer.Terms{
		ID: id, BaseURL: "https://" + id, SiteURL: "https://example", Name: "An offer", Operator: "An operator",
		Description: "one of many", Account: "pay", SourceURL: "https://example/source", Amount: 42_00, Updated: "2026-11-21",
	}, card, usdc)
	require.NoError(h.t, err)
	s := h.settings("one of many")
	s.Key, s.Offer, s.KeysPath = KeyOf("numbered", n), o, "pay_offer/signing/"+id+".json"
	s.Rails = []Rail{Card{Card: card, WebhookSecret: "whsec_0123456789abcdef"}, USDC{USDC: usdc, Facilitators: RailsOf[USDC](s)[0].Facilitators}}
	s.Announce = []announce.Endpoint{announce.Webhook{URL: fmt.Sprintf("%s/%d", h.down, n)}}
	return s
}

// many puts numbered offers to work.
func (h *house) many(runtime *Runtime, offers int) (all []*Service) {
	h.t.Helper()
	for n := range offers {
		all = append(all, h.acquireWith(runtime, h.numbered(n)))
	}
	return all
}

// The number of ledger queries of a start does not depend on the number of offers.
func TestStartQueriesIndependentOfOfferCount(t *testing.T) {
	server := postgres.Shared(t)
	var first, again []int64
	for _, offers := range []int{1, 10, cases.Of(40, 200, 200)} {
		h, far := newHouse(t), server.Far(t, 0)
		dsn := far.DSN(t, server.DSN(t))
		start := func() int64 {
			runtime := h.runtimeOn(new(lockedBuffer), func() (*ledger.Ledger, error) { return ledger.NewPostgres(dsn, time.Now) })
			defer h.release(runtime)
			all := h.many(runtime, offers)
			require.NoError(t, runtime.Ledger.Open(t.Context()))
			before := far.Trips() // the number of queries of a migration varies
			require.NoError(t, runtime.openOffers(0, all...))
			runtime.warnForgotten()
			runtime.DuePoller.Poll(t.Context())
			return far.Trips() - before
		}
		first, again = append(first, start()), append(again, start())
	}
	t.Log("new offers:", first, "known offers:", again)
	require.Equal(t, []int64{first[0], first[0], first[0]}, first)
	require.Equal(t, []int64{again[0], again[0], again[0]}, again)
}

// A thousand offers on a server that is far away start as one does.
func TestManyOffersOnSlowLedgerStart(t *testing.T) {
	h := newHouse(t)
	server := postgres.Shared(t)
	far := server.Far(t, 15*time.Millisecond)
	dsn := far.DSN(t, server.DSN(t))
	runtime := h.runtimeOn(h.log, func() (*ledger.Ledger, error) { return ledger.NewPostgres(dsn, time.Now) })
	defer h.release(runtime)
	all := h.many(runtime, 100)
	require.NoError(t, runtime.Start(t.Context(), false))
	h.untilOpen(all...)
	for _, svc := range all {
		require.Equal(t, http.StatusBadRequest, h.pays(svc).Code)
	}
}

// aPayment may have been sent before.
var aPayment = x402.Attempt{Payload: []byte(`{"x402Version":1,"scheme":"exact","network":"base-sepolia","payload":{
	"signature":"0x` + strings.Repeat("11", 64) + `1b","authorization":{"from":"0x` + strings.Repeat("22", 20) + `","to":"0x` + strings.Repeat("33", 20) + `",
	"value":"42000000","validAfter":"0","validBefore":"99999999999","nonce":"0x` + strings.Repeat("44", 32) + `"}}}`)}

// Whoever paid before would be told another address of the receipt later.
func TestPaymentWaitsForStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var counted []x402.Status
		svc := &Service{Settings: &Settings{Offer: new(offer.Offer)}, Runtime: new(Runtime), memory: newMemory()}
		svc.Instruments = &Instruments{Attempt: func(_ string, status x402.Status) { counted = append(counted, status) }}
		p := countedPayments{new(x402.Service), svc}
		began := time.Now()
		outcome := p.Pay(t.Context(), aPayment)
		require.Equal(t, x402.Open, outcome.Status)
		require.Equal(t, startRetry, outcome.RetryAfter)
		require.Equal(t, startWait, time.Since(began), "a start is waited for")

		left, leave := context.WithCancel(t.Context())
		leave()
		began = time.Now()
		require.Equal(t, x402.Open, p.Pay(left, aPayment).Status)
		require.Zero(t, time.Since(began), "nobody waits for who has left")

		err := errors.New("the ledger is away")
		svc.trouble.Store(&err)
		began = time.Now()
		require.Equal(t, x402.Open, p.Pay(t.Context(), aPayment).Status)
		require.Zero(t, time.Since(began), "nobody waits for what is not soon")
		require.Len(t, counted, 3)
	})
}

func TestUntrustedProxyWarnedOnce(t *testing.T) {
	for name, c := range map[string]struct {
		peer, counted, header string
		direct, warned        bool
	}{
		"a proxy on this machine":           {peer: "127.0.0.1:1234", counted: "127.0.0.1", warned: true},
		"one by IPv6":                       {peer: "[::1]:1234", counted: "::1", warned: true},
		"one in the network":                {peer: "10.1.2.3:1234", counted: "10.1.2.3", warned: true},
		"one that is trusted":               {peer: "127.0.0.1:1234", counted: "198.51.100.7"},
		"one whose buyer is in the network": {peer: "127.0.0.1:1234", counted: "10.1.2.3"},
		"a buyer who forwards himself":      {peer: "198.51.100.7:1234", counted: "198.51.100.7"},
		"nobody forwards":                   {peer: "127.0.0.1:1234", counted: "127.0.0.1", direct: true},
		"a socket":                          {peer: "@", counted: "", warned: true},
		"a socket that does not forward":    {peer: "@", counted: "@", direct: true, warned: true},
		"a socket that is trusted":          {peer: "@", counted: "198.51.100.7"},
		"a CDN":                             {peer: "203.0.113.9:1234", counted: "203.0.113.9", header: "CDN-Loop", warned: true},
		"a CDN with another name":           {peer: "203.0.113.9:1234", counted: "203.0.113.9", header: "Via", warned: true},
		"a CDN that is trusted":             {peer: "203.0.113.9:1234", counted: "198.51.100.7", header: "CDN-Loop"},
	} {
		t.Run(name, func(t *testing.T) {
			var log lockedBuffer
			svc := &Service{Settings: &Settings{Offer: &offer.Offer{Terms: offer.Terms{BaseURL: "https://pay.example"}}}, logger: slog.New(slog.NewTextHandler(&log, nil))}
			clientIP := svc.clientIP(func(*http.Request) string { return c.counted })
			for range 3 {
				r := httptest.NewRequest(http.MethodPost, offer.PathSponsor, nil)
				r.RemoteAddr = c.peer
				if !c.direct {
					r.Header.Set("X-Forwarded-For", "198.51.100.7")
				}
				if c.header != "" {
					r.Header.Set(c.header, "cdn.example")
				}
				require.Equal(t, c.counted, clientIP(r))
			}
			want := 0
			if c.warned {
				want = 1
				require.Contains(t, log.String(), "servers { trusted_proxies static private_ranges }")
			}
			require.Equal(t, want, strings.Count(log.String(), "\n"))
		})
	}
}

func TestDiagnosticsOfRunningOffer(t *testing.T) {
	h := newHouse(t)
	runtime := h.runtime(new(lockedBuffer))
	svc := h.acquire(runtime, "")
	h.open(runtime, svc)
	got := svc.Operator.Diagnose(t.Context())
	require.Equal(t, "pay.example", got.ID)
	require.Equal(t, svc.Key, got.Settings)
	require.Len(t, got.Keys, 1)
	require.True(t, strings.HasPrefix(got.Keys[0], svc.Offer.DID()+"#"))
	require.True(t, got.Ledger.Writable)
	require.Empty(t, got.Ledger.Lost)
	require.Equal(t, []string{}, got.WebhooksOff)
	require.Len(t, got.Rails, len(svc.Health()))
	require.Contains(t, got.Rails, operator.RailState{Rail: "card"})
	waiting, err := svc.Operator.Announcements(t.Context())
	require.NoError(t, err)
	require.NotEmpty(t, waiting.Receivers)
	require.Equal(t, waiting.Receivers, got.Receivers)
	must(runtime.Ledger.Record(t.Context(), nil, ledger.Observation{
		Offer: svc.Offer.ID, Account: svc.Offer.AccountOf(svc.Offer.Card), Rail: "card", ExternalID: "pi_1", Asset: "EUR", Amount: 39_00,
		State: ledger.StatusConfirmed, EvidenceLevel: ledger.LevelSigned, OccurredAt: time.Now().Unix(), Cause: "webhook",
	}))(t)
	require.Contains(t, svc.Operator.Diagnose(t.Context()).Rails, operator.RailState{Rail: "card", Foreign: true})
	h.release(runtime)
}
