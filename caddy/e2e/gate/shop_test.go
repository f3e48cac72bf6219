// Package gate tests gates in the built server: when they charge a payment, for each way in which an application answers,
// fails or is too late; how they work among the other directives of Caddy; and that nobody gets behind one without a
// payment, and no payer pays twice.
package gate

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/ethereum/go-ethereum/common"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

const (
	cardSecret = "whsec_of_the_card_rail_0123"
	price      = 4_200 // in US cents
	// secret is in everything that must be paid, and nowhere else.
	secret = "only-payers-read-this"
)

// caddyfile has the snippets "offer", whose arguments are its id, host, payee, rpc and price in USD, and "gate", whose
// arguments are the host of a site and options of its gate. SITES has the sites of a test.
const caddyfile = `{
	admin off
	persist_config off
	default_bind 127.0.0.1
	grace_period 1s
	storage file_system {DIR}/storage
	servers {
		protocols h1 h2c
	}
	pay_offer {
		ledger sqlite {DIR}/ledger.db
	}
}
(offer) {
	pay_offer {
		id {args[0]}
		base_url http://{args[1]}:{PORT}
		site_url http://site.localhost:{PORT}
		amount {args[4]}
		rate_limit 10000 1m
		card https://checkout.example/{args[0]} {
			payment_link plink_{args[0]}
			webhook_secret {env.CARD_SECRET}
		}
		usdc base-sepolia {args[2]} {
			facilitator {FACILITATOR}
			rpc {args[3]}
			confirm latest
		}
	}
	respond 404
}
http://localhost:{PORT} {
	import offer shop localhost {PAYEE} off 42
}
{SITES}
`

// shop is a running server with an offer on localhost and gated sites.
type shop struct {
	*testing.T
	process     *server.Process
	port        string
	payee       common.Address
	facilitator *facilitator
	app         *app
}

// openShop starts the server. Replace are pairs of a text in the sites and its value. APP is the address of the application.
func openShop(t *testing.T, sites string, replace ...string) *shop {
	t.Helper()
	s := &shop{T: t, port: payoffertest.FreePort(t), payee: chain.NewAddress(t), facilitator: newFacilitator(t), app: newApp(t)}
	dir := t.TempDir()
	s.start(dir, sites, replace...)
	return s
}

// start starts the server with its files in a folder.
func (s *shop) start(dir, sites string, replace ...string) {
	s.Helper()
	values := append(replace, "{DIR}", dir, "{PORT}", s.port, "{PAYEE}", s.payee.Hex(), "{FACILITATOR}", s.facilitator.url, "{APP}", s.app.URL)
	text := strings.NewReplacer(values...).Replace(strings.Replace(caddyfile, "{SITES}", sites, 1))
	s.process = server.Start(s, "http://localhost:"+s.port, text, "CARD_SECRET="+cardSecret)
}

// in is the shop in a subtest.
func (s *shop) in(t *testing.T) *shop {
	c := *s
	c.T = t
	return &c
}

// url is an address of a site, which is named without ".localhost".
func (s *shop) url(site, target string) string {
	return "http://" + site + ".localhost:" + s.port + target
}

// facilitator is the fake one, which fails for single payments.
type facilitator struct {
	*payoffertest.Facilitator
	url string

	mu     sync.Mutex
	asked  map[string]int // calls of settle, by nonce
	faults map[string]fault
}

// fault answers a call of settle; act is what the facilitator would do without it.
type fault func(w http.ResponseWriter, act func(http.ResponseWriter))

// refuses is the fault of a facilitator that says no.
func refuses(w http.ResponseWriter, _ func(http.ResponseWriter)) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"success":false,"errorReason":"invalid_exact_evm_insufficient_balance","transaction":"","network":"eip155:84532"}`)
}

func newFacilitator(t testing.TB) *facilitator {
	f := &facilitator{Facilitator: payoffertest.NewFacilitator(t), asked: map[string]int{}, faults: map[string]fault{}}
	front := httptest.NewServer(f)
	t.Cleanup(front.Close)
	f.url = front.URL
	return f
}

func (f *facilitator) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	act := func(w http.ResponseWriter) {
		r.Body = io.NopCloser(bytes.NewReader(body))
		f.Facilitator.ServeHTTP(w, r)
	}
	if r.URL.Path == payoffertest.CallSettle {
		var request struct {
			PaymentPayload struct {
				Payload struct{ Authorization struct{ Nonce string } }
			}
		}
		_ = json.Unmarshal(body, &request)
		nonce := strings.ToLower(request.PaymentPayload.Payload.Authorization.Nonce)
		f.mu.Lock()
		f.asked[nonce]++
		fails := f.faults[nonce]
		f.mu.Unlock()
		if fails != nil {
			fails(w, act)
			return
		}
	}
	act(w)
}

// fail sets the fault of a payment, or removes it.
func (f *facilitator) fail(p *payment, with fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults[p.nonce()] = with
}

// settles is how often the facilitator was asked to settle a payment.
func (f *facilitator) settles(p *payment) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked[p.nonce()]
}

// app is the application behind the gates. Each path has its own handler, and content without one.
type app struct {
	*httptest.Server
	mu       sync.Mutex
	handlers map[string]http.HandlerFunc
	seen     map[string][]*http.Request
}

func newApp(t testing.TB) *app {
	a := &app{handlers: map[string]http.HandlerFunc{}, seen: map[string][]*http.Request{}}
	a.Server = httptest.NewUnstartedServer(a)
	a.Server.Config.ErrorLog = log.New(io.Discard, "", 0) // its panics are on purpose
	a.Server.Start()
	t.Cleanup(a.Server.Close)
	return a
}

func (a *app) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body) // only then net/http notices that the client leaves
	a.mu.Lock()
	a.seen[r.URL.Path] = append(a.seen[r.URL.Path], r.Clone(context.Background()))
	handle := a.handlers[r.URL.Path]
	a.mu.Unlock()
	if handle == nil {
		handle = answers(http.StatusOK)
	}
	handle(w, r)
}

// on sets the handler of a path.
func (a *app) on(path string, handle http.HandlerFunc) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.handlers[path] = handle
}

// requests are those of a path that reached the application.
func (a *app) requests(path string) []*http.Request {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]*http.Request(nil), a.seen[path]...)
}

func (a *app) runs(path string) int { return len(a.requests(path)) }

// answers is an application that answers with a status. A success has content in its headers and its body.
func answers(status int, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for n := 0; n < len(headers); n += 2 {
			w.Header().Set(headers[n], headers[n+1])
		}
		if status >= http.StatusBadRequest {
			http.Error(w, "the application's own error", status)
			return
		}
		w.Header().Set("X-Content", secret)
		w.Header().Set("Etag", `"`+secret+`"`)
		w.Header().Add("Set-Cookie", "app="+secret)
		w.Header().Set("Link", "</"+secret+">; rel=preload")
		w.WriteHeader(status)
		if status == http.StatusOK {
			_, _ = io.WriteString(w, secret)
		}
	}
}
