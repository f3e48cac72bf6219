package web

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// A body of which a byte arrives, and no more, is waited for at no address and
// over no protocol.
func TestBodyReadTimeout(t *testing.T) {
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

func TestSettlementMayOutlastBodyTimeout(t *testing.T) {
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

// longHost is as long as two challenges, each of which names it, have room for.
var longHost = strings.Repeat("h", 62) + "." + strings.Repeat("h", 37)

// fiveTags are as many and as long as directories take.
var fiveTags = slices.Repeat([]string{strings.Repeat("t", 32)}, 5)

// longCard is a checkout's address of 200 characters.
var longCard = "https://checkout.example.com/" + strings.Repeat("c", 171)

// signer signs as the service does.
type signer struct{ did string }

func (s signer) Sign(payload any) string {
	text, err := json.Marshal(payload)
	if err != nil {
		panic(err)
	}
	b64 := base64.RawURLEncoding.EncodeToString
	return b64([]byte(`{"alg":"EdDSA","kid":"`+s.did+"#"+strings.Repeat("k", 43)+`"}`)) + "." + b64(text) + "." + b64(make([]byte, ed25519.SignatureSize))
}

// shop is a server with the service's own quotes, for an offer on chains.
func shop(t *testing.T, terms offer.Terms, card string, chains ...string) *Server {
	t.Helper()
	var rails []offer.Rail
	config := x402.Config{Signer: signer{offer.DIDWeb(terms.BaseURL)}, Now: time.Now, Logger: slog.New(slog.DiscardHandler)}
	for _, chain := range chains {
		network := must(offer.LookupNetwork(chain))(t)
		usdc := must(offer.NewUSDC("usdc-"+strconv.Itoa(len(rails)), network, payTo, terms.Amount))(t)
		facilitator := must(x402.NewFacilitator(x402.FacilitatorConfig{URL: x402.DefaultTestFacilitator}))(t)
		rails = append(rails, usdc)
		config.Rails = append(config.Rails, x402.Rail{USDC: usdc, Facilitators: []*x402.Facilitator{facilitator}})
	}
	checkout := must(offer.NewCard(card, nil, terms.Amount))(t)
	config.Offer = must(offer.New(terms, checkout, rails...))(t)
	w := newWorld(t)
	w.offer = config.Offer
	c := w.config()
	c.Payments = must(x402.New(config))(t)
	return must(New(c))(t)
}

// headOf is the size of the header block of a 402 as net/http and Caddy write it.
func headOf(t *testing.T, res http.Handler) int {
	t.Helper()
	rec := httptest.NewRecorder()
	res.ServeHTTP(rec, httptest.NewRequest("POST", "/", nil))
	require.Equal(t, 402, rec.Code)
	rec.Header().Set("Server", "Caddy")
	rec.Header().Set("Date", time.Now().UTC().Format(http.TimeFormat))
	rec.Header().Set("Alt-Svc", `h3=":65535"; ma=2592000`)
	var head bytes.Buffer
	fmt.Fprintf(&head, "HTTP/1.1 402 %s\r\n", http.StatusText(http.StatusPaymentRequired))
	require.NoError(t, rec.Header().Write(&head))
	return head.Len() + len("\r\n")
}

// maxHead is the largest header block in bytes that every proxy passes on. nginx reads it
// into a buffer of 4 KB by default (proxy_buffer_size) and answers 502 if it is larger.
const maxHead = 3900

// Whatever the operator wrote and a facilitator says, a 402 passes through a proxy with the
// smallest buffer in use.
func TestStatus402FitsProxyBuffer(t *testing.T) {
	long := "https://" + longHost + ":65535"
	for name, c := range map[string]struct{ base, card, name string }{
		"usual":              {"https://pay.example.org", "https://buy.example.com/14k5nD0aB1cd2ef3gh", "Example Offer"},
		"long":               {long, longCard, strings.Repeat("n", 80)},
		"in 4 bytes each":    {long, longCard, strings.Repeat("\U0001F600", 80)},
		"escaped in 6 bytes": {long, longCard, strings.Repeat("<", 80)},
	} {
		for _, chains := range [][]string{nil, {"arbitrum-sepolia"}, {"avalanche", "arbitrum-sepolia"}} {
			t.Run(fmt.Sprintf("%s, %d chains", name, len(chains)), func(t *testing.T) {
				terms := terms()
				terms.BaseURL, terms.Name, terms.Amount, terms.Tags = c.base, c.name, 99_999_999, fiveTags
				s := shop(t, terms, c.card, chains...)
				for answer, res := range every402(s) {
					require.LessOrEqual(t, headOf(t, res), maxHead, answer)
				}
			})
		}
	}
}

// every402 are the responses with status 402, at their longest.
func every402(s *Server) map[string]http.Handler {
	paidToQuote := httptest.NewRequest("POST", "/v1/quote", nil)
	paidToQuote.Header.Set("X-PAYMENT", "e30=")
	longest := strings.Repeat("r", 100)
	refused := x402.Outcome{
		Status: x402.Refused, Version: 2, Reason: longest,
		Detail: "The facilitator does not accept this payment; nothing was charged. It says: " + strings.Repeat("\u2028", 120),
	}
	all := map[string]http.Handler{
		"quote": s.currentQuote().challenging, "payment sent to /v1/quote": s.postQuote(paidToQuote), "refused by verify": s.till().challenge(s.till().outcome(refused)),
	}
	for _, rail := range s.Offer.USDC() {
		for version, network := range map[int]string{1: rail.Network.Name, 2: rail.Network.CAIP2()} {
			settled := refused
			settled.Version = version
			settled.Response = &x402.SettleResponse{ErrorReason: longest, Network: network, Payer: payTo}
			all[fmt.Sprintf("refused by settle on %s, version %d", rail.Network.Name, version)] = s.till().challenge(s.till().outcome(settled))
		}
	}
	return all
}
