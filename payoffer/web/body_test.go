package web

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// A body of which a byte arrives, and no more, is waited for at no address and
// over no protocol.
func TestASlowBodyIsNotWaitedFor(t *testing.T) {
	for _, protocol := range []string{"HTTP/1.1", "HTTP/2.0"} {
		w, r := newWorld(t), new(receiver)
		w.hooks = allHooks(r)
		c := w.config()
		c.OnDelivery = nil
		c.BodyTimeout = 50 * time.Millisecond
		c.Agent = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, err := io.ReadAll(r.Body)
			require.ErrorIs(t, err, os.ErrDeadlineExceeded)
			w.WriteHeader(http.StatusRequestTimeout)
		})
		s := must(New(c))(t)
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.Serve(w, r) }))
		server.EnableHTTP2 = protocol == "HTTP/2.0"
		server.StartTLS()
		defer server.Close()

		targets := []string{hookTargets["card"], hookTargets["tip-jar"]}
		for _, row := range table(s.Offer) {
			if row.Method == http.MethodPost {
				targets = append(targets, row.Path)
			}
		}
		require.Contains(t, targets, offer.PathMCP)
		for _, target := range append(targets, offer.PathInvoice) { // which takes none, and is answered after it
			body, arriving := io.Pipe()
			go func() { _, _ = arriving.Write([]byte("{")) }()
			request := must(http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+target, body))(t)
			request.ContentLength = 100
			request.Header.Set(x402.HeaderSignature, "e30=")
			res, err := server.Client().Do(request)
			require.NoError(t, err, target)
			require.Equal(t, protocol, res.Proto)
			switch target {
			case offer.PathInvoice:
				require.Equal(t, http.StatusMethodNotAllowed, res.StatusCode)
			case offer.PathMCP:
				require.Equal(t, http.StatusRequestTimeout, res.StatusCode)
			default:
				require.Equal(t, http.StatusRequestTimeout, res.StatusCode, target)
				require.Equal(t, "application/problem+json", res.Header.Get("Content-Type"))
				require.Equal(t, "urn:pay-offer:problem:slow-body", readJSON(t, res)["type"])
			}
			require.NoError(t, res.Body.Close())
			require.NoError(t, arriving.CloseWithError(errors.New("given up")))
		}
		require.Empty(t, w.attempts)
		require.Empty(t, r.deliveries)
	}
}

// patient is a settlement that takes a minute.
type patient struct {
	*world
	t *testing.T
}

func (p patient) Pay(ctx context.Context, a x402.Attempt) x402.Outcome {
	time.Sleep(time.Minute)
	require.NoError(p.t, ctx.Err(), "the buyer is there")
	return p.world.Pay(ctx, a)
}

func TestASettlementMayTakeLongerThanItsBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.outcome = x402.Outcome{Status: x402.Settled}
		c := w.config()
		c.Payments = patient{w, t}
		s := must(New(c))(t)
		listener := newPipeListener()
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.Serve(w, r) })}
		go func() { _ = server.Serve(listener) }()
		defer server.Close()
		conn := listener.dial()
		defer conn.Close()
		answers := bufio.NewReader(conn)
		for range 2 { // by one connection, after a rest
			for _, body := range []string{"Content-Length: 2\r\n\r\n{}", "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", "Content-Length: 0\r\n\r\n"} {
				_, err := io.WriteString(conn, "POST /v1/sponsor HTTP/1.1\r\nHost: pay.example.org\r\nPAYMENT-SIGNATURE: e30=\r\n"+body)
				require.NoError(t, err)
				res := must(http.ReadResponse(answers, nil))(t)
				require.Equal(t, http.StatusOK, res.StatusCode)
				require.False(t, res.Close)
				require.Contains(t, read(t, res), `"success": true`)
			}
			time.Sleep(time.Minute)
		}
		require.Len(t, w.attempts, 6)
	})
}
