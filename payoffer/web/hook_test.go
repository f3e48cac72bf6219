package web

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
)

// hookSecret is what the address of a storefront's webhook ends in.
const hookSecret = "5f0c-secret.of~the_storefront"

// receiver is a hook with a verdict of the test's choice. Like a real one it
// says nothing of what it received.
type receiver struct {
	verdict    observe.Verdict
	detail     string
	deliveries []observe.Delivery
	receive    func(ctx context.Context)
	refusal    string // of what is not admitted
}

func (r *receiver) Admit(http.Header, string) (string, bool) { return r.refusal, r.refusal == "" }

func (r *receiver) Receive(ctx context.Context, d observe.Delivery) (observe.Verdict, string) {
	r.deliveries = append(r.deliveries, d)
	if r.receive != nil {
		r.receive(ctx)
	}
	return r.verdict, r.detail
}

func allHooks(r *receiver) map[string]observe.Hook {
	return map[string]observe.Hook{"card": r, "tip-jar": r, "pack": r}
}

// hookTargets are the addresses of webhooks by rail.
var hookTargets = map[string]string{"card": "/v1/hook/card", "tip-jar": "/v1/hook/tip-jar/" + hookSecret}

func TestWebhookStatusPerVerdict(t *testing.T) {
	for verdict, want := range map[observe.Verdict]struct {
		status      int
		kind, retry string
	}{
		observe.Recorded:     {status: 200},
		observe.Ignored:      {status: 200},
		observe.Unverified:   {403, "unverified-delivery", ""},
		observe.Malformed:    {400, "malformed-delivery", ""},
		observe.Unavailable:  {503, "delivery-unavailable", "60"},
		observe.Verdict(""):  {503, "delivery-unavailable", "60"},
		observe.Verdict("x"): {503, "delivery-unavailable", "60"},
	} {
		for rail, target := range hookTargets {
			w, r := newWorld(t), &receiver{verdict: verdict, detail: "what the hook says"}
			w.hooks = allHooks(r)
			s := w.server(t)
			res := send(t, s, "POST", target, "a=1&b=\x00\xff", "Stripe-Signature", "t=1,v1=ab", "Content-Type", "application/x-www-form-urlencoded")
			require.Equal(t, want.status, res.StatusCode, verdict)
			require.Equal(t, "no-store", res.Header.Get("Cache-Control"))
			require.Equal(t, want.retry, res.Header.Get("Retry-After"))
			body := readJSON(t, res)
			if want.kind == "" {
				require.Equal(t, map[string]any{"received": true}, body)
			} else {
				require.Equal(t, "application/problem+json", res.Header.Get("Content-Type"))
				require.Equal(t, "urn:pay-offer:problem:"+want.kind, body["type"])
				require.Equal(t, "What the hook says.", body["detail"])
			}
			require.Len(t, r.deliveries, 1)
			require.Equal(t, "a=1&b=\x00\xff", string(r.deliveries[0].Body), "the signature is over the bytes as they came")
			require.Equal(t, "t=1,v1=ab", r.deliveries[0].Header.Get("Stripe-Signature"))
			require.Equal(t, []string{rail + " " + string(verdict)}, w.delivered)
		}
	}
}

// othersHooks look like webhooks of the offer and are not: they belong to the site.
var othersHooks = []string{
	"/V1/hook/card", "/v1/Hook/card", "/v1/HOOK/card", "/v1/HOOK/tip-jar/" + hookSecret, "/v1/hooks/card", "/v1/hooks", "/v1/hookcard",
	"/v1/hook%5Ccard", "/v1%5Chook%5Ccard", "/%5Cv1%5chook%5ccard", "/v1/%2568ook/card", "/v1/hook%252Fcard", "/v1/hook%255Ccard", "/v1/x/../Hook/card",
	"/v1/webhook/card", "/v1/webhooks", "/v1/webhooks/stripe", "/V1/WebHook/card", "/v1/hook%20/card", "//V1//Hooks//card",
}

// Caddy answers what is nobody's with an empty 200, which a provider takes for a
// receipt. Everything below the webhooks' prefix is refused instead, in whatever
// spelling it comes.
func TestWebhookPathIsExact(t *testing.T) {
	w, r := newWorld(t), new(receiver)
	w.hooks, w.hooksOff = map[string]observe.Hook{"card": r, "tip-jar": r}, []string{"pack"}
	s := w.server(t)
	for _, path := range []string{
		"/v1/hook", "/v1/hook/", "/v1/hook/card/", "/v1/hook/card/" + hookSecret, "/v1/hook%2Fcard", "/v1%2fhook/card",
		"/v1/%68ook/card", "/v1/hook/%63ard", "//v1/hook/card", "/v1//hook/card", "/v1/./hook/card", "/v1/x/../hook/card", "/v1/hook/../offer",
		"/v1/hook/transfer/" + hookSecret, "/v1/hook/none/" + hookSecret, "/v1/hook//" + hookSecret, "/v1/hook/Card", "/v1/hook/card%00",
		"/v1/hook/tip-jar", "/v1/hook/tip-jar/", "/v1/hook/tip-jar/" + hookSecret + "/", "/v1/hook/tip-jar/" + hookSecret + "/more",
		"/v1/hook/tip-jar//" + hookSecret, "/v1/hook/tip-jar/a%2Fb", "/v1/hook/tip-jar/a%2fb", "/v1/hook/tip-jar%2F" + hookSecret,
		"/v1/%68ook/tip-jar/" + hookSecret, "/v1/hook/tip%2Djar/" + hookSecret,
		"/v1/hook/Tip-Jar/" + hookSecret, "/v1/hook/{storefront}/{secret}", "/v1/hook/pack", "/v1/hook/pack/a/b",
	} {
		for _, method := range []string{"POST", "GET"} {
			res := send(t, s, method, path, "x")
			require.Equal(t, 404, res.StatusCode, path)
			require.Equal(t, "application/problem+json", res.Header.Get("Content-Type"))
			require.Equal(t, "no-store", res.Header.Get("Cache-Control"))
			require.NotContains(t, read(t, res), hookSecret)
		}
	}
	for _, path := range append([]string{"/hook/card", "/v2/v1/hook/card", "/", "/v1/offers", "/v1/x/webhook", "/v1/%252e%252e/hook/card"}, othersHooks...) {
		require.False(t, serves(t, s, path), "a page of the site: %s", path)
		w := httptest.NewRecorder()
		require.False(t, s.Serve(w, httptest.NewRequest("POST", path, strings.NewReader("x"))), path)
	}
	require.Empty(t, r.deliveries)
	require.Empty(t, w.delivered)

	send(t, s, "POST", "/v1/hook/tip-jar/"+hookSecret+"?utm=1", "")
	send(t, s, "POST", "/v1/hook/tip-jar/5f0c%2Dsecret%20x", "")
	send(t, s, "POST", "/v1/hook/tip-jar/it's(!)", "")
	require.Equal(t, hookSecret, r.deliveries[0].Secret)
	require.Equal(t, "5f0c-secret x", r.deliveries[1].Secret)
	require.Equal(t, "it's(!)", r.deliveries[2].Secret)

	none := newWorld(t).server(t)
	for _, path := range hookTargets {
		require.Equal(t, 404, send(t, none, "POST", path, "x").StatusCode, "a hook that is not configured")
	}
}

// A provider repeats what it sent while a secret had no value, and nobody outside
// raises an alert by asking.
func TestWebhookWithEmptySecretIs503(t *testing.T) {
	w := newWorld(t)
	w.hooksOff = []string{"card", "tip-jar"}
	s := w.server(t)
	for _, target := range hookTargets {
		res := send(t, s, "POST", target, "x")
		require.Equal(t, 503, res.StatusCode)
		require.Equal(t, "60", res.Header.Get("Retry-After"))
		require.Equal(t, "application/problem+json", res.Header.Get("Content-Type"))
		body := readJSON(t, res)
		require.Equal(t, "urn:pay-offer:problem:delivery-unavailable", body["type"])
		require.Contains(t, body["detail"], "is empty")
	}
	require.Empty(t, w.delivered)
}

// unread is a body that nobody may touch.
type unread struct{ t *testing.T }

func (u unread) Read([]byte) (int, error) {
	u.t.Error("the body was read")
	return 0, io.EOF
}

func TestWebhookRefusedDeliveryIsNotRead(t *testing.T) {
	for rail, target := range hookTargets {
		w, r := newWorld(t), &receiver{refusal: "it shows nothing"}
		w.hooks = allHooks(r)
		rec := httptest.NewRecorder()
		require.True(t, w.server(t).Serve(rec, httptest.NewRequest("POST", target, unread{t})))
		require.Equal(t, 403, rec.Code)
		require.Contains(t, rec.Body.String(), "It shows nothing.")
		require.Empty(t, r.deliveries)
		require.Equal(t, []string{rail + " unverified"}, w.delivered)
	}
}

func TestWebhookAllowsOnlyPOST(t *testing.T) {
	w, r := newWorld(t), &receiver{verdict: observe.Recorded}
	w.hooks = allHooks(r)
	s := w.server(t)
	for _, target := range hookTargets {
		for _, method := range []string{"GET", "HEAD", "OPTIONS", "PUT", "DELETE"} {
			res := send(t, s, method, target, "", "Origin", "https://app.example", "Access-Control-Request-Method", "POST")
			require.Equal(t, 405, res.StatusCode, method)
			require.Equal(t, "POST", res.Header.Get("Allow"))
			require.Equal(t, method == "HEAD", read(t, res) == "")
		}
		require.Empty(t, r.deliveries)
		for _, method := range []string{"OPTIONS", "POST"} {
			header := send(t, s, method, target, "", "Origin", "https://app.example").Header
			for name := range header {
				require.False(t, strings.HasPrefix(name, "Access-Control-"), name)
			}
			require.Equal(t, "nosniff", header.Get("X-Content-Type-Options"))
		}
		r.deliveries = nil
	}
}

func TestWebhookResponsesHideSecret(t *testing.T) {
	target := "/v1/hook/tip-jar/" + hookSecret
	for _, verdict := range []observe.Verdict{observe.Recorded, observe.Unverified, observe.Malformed, observe.Unavailable} {
		w := newWorld(t)
		w.hooks = allHooks(&receiver{verdict: verdict, detail: "a sentence"})
		s := w.server(t)
		for _, res := range []*http.Response{
			send(t, s, "POST", target, "a=1"), send(t, s, "GET", target, ""), send(t, s, "POST", target, strings.Repeat("x", observe.MaxDelivery+1)),
		} {
			require.NotContains(t, fmt.Sprint(res.Header)+read(t, res), hookSecret)
		}
		require.NotContains(t, fmt.Sprint(served(s), w.delivered)+read(t, send(t, s, "GET", "/openapi.json", "")), hookSecret)
	}
}

func TestWebhookBodyLimit(t *testing.T) {
	for _, target := range hookTargets {
		w, r := newWorld(t), &receiver{verdict: observe.Recorded}
		w.hooks = allHooks(r)
		s := w.server(t)
		require.Equal(t, 200, send(t, s, "POST", target, strings.Repeat("x", observe.MaxDelivery)).StatusCode)
		require.Len(t, r.deliveries[0].Body, observe.MaxDelivery)
		res := send(t, s, "POST", target, strings.Repeat("x", observe.MaxDelivery+1))
		require.Equal(t, 413, res.StatusCode)
		require.Equal(t, "urn:pay-offer:problem:body-too-large", readJSON(t, res)["type"])
		require.Len(t, r.deliveries, 1)
		require.Contains(t, w.delivered[1], " malformed")
	}
}

func TestWebhookRecordingOutlivesRequest(t *testing.T) {
	for rail, patience := range map[string]time.Duration{"card": 10 * time.Second, "tip-jar": 4 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			w, r := newWorld(t), &receiver{verdict: observe.Unavailable}
			w.hooks = allHooks(r)
			start := time.Now()
			r.receive = func(ctx context.Context) {
				<-ctx.Done()
				require.ErrorIs(t, ctx.Err(), context.DeadlineExceeded, "not canceled by the provider that left")
				require.Equal(t, patience, time.Since(start))
			}
			left, leave := context.WithCancel(t.Context())
			leave()
			rec := httptest.NewRecorder()
			require.True(t, w.server(t).Serve(rec, httptest.NewRequest("POST", hookTargets[rail], strings.NewReader("x")).WithContext(left)))
			require.Equal(t, 503, rec.Code)
		})
	}
}

// pipeListener accepts connections in memory, where synctest has the clock.
type pipeListener struct {
	waiting chan net.Conn
	closed  chan struct{}
}

func newPipeListener() *pipeListener {
	return &pipeListener{waiting: make(chan net.Conn), closed: make(chan struct{})}
}

func (p *pipeListener) dial() net.Conn {
	client, server := net.Pipe()
	p.waiting <- server
	return client
}

func (p *pipeListener) Accept() (net.Conn, error) {
	select {
	case conn := <-p.waiting:
		return conn, nil
	case <-p.closed:
		return nil, errors.New("closed")
	}
}

func (p *pipeListener) Close() error { close(p.closed); return nil }

func (p *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "memory"} }

// stalled is a body that says when it is read, and ends when it is told to or given up.
type stalled struct{ read, end, drop chan struct{} }

func (s stalled) Read([]byte) (int, error) {
	s.read <- struct{}{}
	select {
	case <-s.end:
		return 0, io.EOF
	case <-s.drop:
		return 0, os.ErrDeadlineExceeded
	}
}

// interruptible is a response whose body can be given up.
type interruptible struct {
	*httptest.ResponseRecorder
	drop func()
}

func (i interruptible) SetReadDeadline(at time.Time) error {
	if !at.After(time.Now()) {
		i.drop()
	}
	return nil
}

func TestWebhookStalledBodyLimit(t *testing.T) {
	for rail, target := range hookTargets {
		w, r := newWorld(t), &receiver{verdict: observe.Recorded}
		w.hooks = allHooks(r)
		s := w.server(t)
		var dropped []string
		post := func(client string, body io.Reader) *http.Response {
			rec, request := httptest.NewRecorder(), httptest.NewRequest("POST", target, body)
			request.RemoteAddr = client
			require.True(t, s.Serve(interruptible{rec, func() {
				dropped = append(dropped, client)
				close(body.(stalled).drop)
			}}, request))
			return rec.Result()
		}
		read, end, done := make(chan struct{}), make(chan struct{}), make(chan int)
		stall := func(client string) {
			go func() { done <- post(client, stalled{read, end, make(chan struct{})}).StatusCode }()
			select {
			case <-read:
			case status := <-done:
				t.Fatalf("%s is refused with %d", client, status)
			}
		}
		refused := func(client string) {
			res := post(client, unread{t})
			require.Equal(t, 503, res.StatusCode)
			require.Equal(t, "60", res.Header.Get("Retry-After"))
			require.Equal(t, "urn:pay-offer:problem:delivery-unavailable", readJSON(t, res)["type"])
		}
		for range 16 {
			stall("2001:db8::1")
		}
		refused("2001:db8::1")
		refused("2001:db8::2") // one client has the whole network
		for range 16 {
			stall("2001:db8:0:1::1")
		}
		refused("2001:db8:0:2::1") // and often all networks of a /48
		for n := range 224 {
			stall(fmt.Sprintf("192.0.2.%d", n/16))
		}
		require.Equal(t, slices.Repeat([]string{rail + " limited"}, 3), w.delivered)
		require.Empty(t, dropped)
		for range 2 { // the provider is not kept out: the oldest body makes room
			require.Equal(t, 200, post("198.51.100.1", strings.NewReader("{}")).StatusCode)
		}
		require.Equal(t, []string{"2001:db8::1"}, dropped)
		require.Equal(t, 503, <-done, "it may have been a provider's")
		require.ElementsMatch(t, []string{rail + " recorded", rail + " recorded", rail + " limited"}, w.delivered[3:])
		w.delivered = nil
		for range 255 {
			end <- struct{}{}
			require.Equal(t, 200, <-done)
		}
		require.Len(t, w.delivered, 255)
		require.Equal(t, rail+" recorded", w.delivered[0])
		require.Empty(t, s.bodies.open)
		require.Equal(t, 200, post("2001:db8::1", http.NoBody).StatusCode)
	}
}
