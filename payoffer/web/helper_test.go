package web

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/mpp"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

const (
	baseURL  = "https://pay.example.org"
	checkout = payoffertest.Checkout
	payTo    = payoffertest.PayTo
)

// at is the time of the tests.
var at = time.Date(2026, 11, 21, 13, 14, 15, 0, time.UTC)

var qrKey = []byte("0123456789abcdef0123456789abcdef")

func terms() offer.Terms {
	return offer.Terms{
		ID: "pay.example.org", BaseURL: baseURL, SiteURL: "https://www.example.org",
		Name: "Example Offer", Operator: "Example Org", Description: "One fixed payment.", Contact: "pay@example.org",
		SourceURL: "https://code.example.net/offer", Account: "pay", Amount: 42_00, Updated: "2026-11-21",
		MPP: "Authorization",
	}
}

// world is what a server under test stands in.
type world struct {
	offer   *offer.Offer
	live    offer.Live
	key     []byte
	outcome x402.Outcome
	// charge, if not nil, is the charge of a payment that Verify returns; released counts those that were released.
	charge   func(context.Context) x402.Outcome
	released int
	attempts []x402.Attempt
	written  []bool // whether all of each response to Pay was written
	accepts  []x402.Requirements
	quote    *x402.Quote
	totals   []ledger.Total
	accounts []ledger.Account
	receipts []ledger.Receipt
	intents  []ledger.Intent
	invoices []ledger.Invoice
	changes  []ledger.Transition
	err      error
	// changed says how often what follows may have changed; nil is that it always
	// may have.
	changed  func() uint64
	sessions map[string]ledger.Receipt
	// reads counts the readings of the ledger, and lookUps those by a session.
	reads, lookUps atomic.Int64
	always         atomic.Uint64
	health         []observe.Health
	hooks          map[string]observe.Hook
	hooksOff       []string
	identity       x402.Identity
	browsers       []string // that entered
	prices         []int64  // at the time of every payment
	// busy says that no invoice can be made now, refusal, if not nil, is the error of a new one, and watched are the invoices whose pages were read.
	refusal error
	watched []string
	busy    bool
	limiter *x402.Limiter
	now     func() time.Time
	// older, if not nil, is what a read of older receipts or of changes waits for.
	older chan struct{}
	// delivered is what Config.OnDelivery was told.
	delivered  []string
	delivering sync.Mutex // guards delivered
}

func newWorld(t testing.TB) *world {
	quoted := x402.PaymentRequiredV1{
		X402Version: 1, CardQuote: x402.CardQuote{Error: "payment required", Fallback: offer.Fallback{AmountUSD: 42_00}},
		Accepts: []x402.RequirementsV1{{Scheme: "exact"}},
	}
	w := &world{
		offer: payoffertest.Offer(t, terms(), "base"), key: qrKey, now: func() time.Time { return at },
		limiter: x402.NewLimiter(x402.Limit{Attempts: 1000, Period: time.Second}),
		live:    offer.Live{Satoshis: 45_678, RateAt: at},
		accepts: []x402.Requirements{{Scheme: "exact", Network: "eip155:8453", Amount: "42000000", PayTo: payTo}},
		quote:   &x402.Quote{HeaderStart: "cXVvdGUg", Body: encode(quoted), Terms: quoted},
		health: []observe.Health{
			{Rail: "card", Source: "webhook", At: at.Unix() - 3}, {Rail: "usdc", Source: "chain", ObservedThrough: "block 7", At: at.Unix() - 9},
			{Rail: "btc", Source: "chain", At: at.Unix()}, {Rail: "lightning", Source: "provider", At: at.Unix()}, {Rail: "tip-jar", Source: "webhook"}, {Rail: "pack", Source: "webhook"},
		},
	}
	for _, rail := range w.offer.Rails {
		if rail.Source() == offer.SourceSeller {
			w.health = append(w.health, observe.Health{Rail: rail.Name(), Source: "operator"})
		}
	}
	return w
}

// healthOf is the health of a rail.
func (w *world) healthOf(rail string) *observe.Health {
	return &w.health[slices.IndexFunc(w.health, func(h observe.Health) bool { return h.Rail == rail })]
}

func (w *world) Quote() *x402.Quote           { return w.quote }
func (w *world) Accepts() []x402.Requirements { return w.accepts }
func (w *world) Refusal(reason string) *x402.Quote {
	body, _ := json.Marshal(map[string]string{"error": reason})
	return &x402.Quote{HeaderStart: w.quote.HeaderStart, Body: body}
}

func (w *world) QuoteFor(resource offer.Resource, deferred bool, reason string) *x402.Quote {
	body, _ := json.Marshal(map[string]any{"error": reason, "resource": resource.URL, "deferred": deferred})
	return &x402.Quote{HeaderStart: w.quote.HeaderStart, Body: body}
}

func (w *world) Identify(x402.Attempt) (x402.Identity, error) { return w.identity, w.err }

func (w *world) Returns(context.Context, string, string, string) ([]ledger.Return, error) {
	return nil, w.err
}

func (w *world) Pass(context.Context, string, string) (p ledger.Pass, found bool, err error) {
	return p, false, w.err
}

func (w *world) Enter(_ context.Context, _, _, browser string) error {
	w.browsers = append(w.browsers, browser)
	return w.err
}

func (w *world) Browsers(context.Context, string, string) ([]string, error) { return w.browsers, w.err }

func (w *world) Prices(context.Context, string, int64, int64) ([]int64, error) {
	return w.prices, w.err
}

func (w *world) EndBrowsers(context.Context, string, string) error {
	w.browsers = nil
	return w.err
}

func (w *world) Pay(ctx context.Context, a x402.Attempt) x402.Outcome {
	w.attempts = append(w.attempts, a)
	a.Response.OnEnd(ctx, func(complete bool) { w.written = append(w.written, complete) })
	return w.outcome
}

func (w *world) Verify(_ context.Context, a x402.Attempt) (*x402.Verified, x402.Outcome) {
	w.attempts = append(w.attempts, a)
	if w.charge == nil {
		return nil, w.outcome
	}
	return &x402.Verified{Rail: "usdc", Payer: payer, Charge: w.charge, Release: func() { w.released++ }}, x402.Outcome{}
}

func (w *world) Changes() uint64 {
	if w.changed != nil {
		return w.changed()
	}
	return w.always.Add(1)
}

func (w *world) SessionReceipt(_ context.Context, offerID, session string) (ledger.Receipt, bool, error) {
	w.lookUps.Add(1)
	r, found := w.sessions[offerID+" "+session]
	return r, found, w.err
}

func (w *world) Totals(context.Context, string) ([]ledger.Total, error) { return w.totals, w.err }

func (w *world) TotalsAndReceipts(_ context.Context, _ string, before int64, limit int) ([]ledger.Total, []ledger.Receipt, error) {
	w.reads.Add(1)
	if before > 0 && w.older != nil {
		w.older <- struct{}{}
	}
	var page []ledger.Receipt
	for _, r := range w.receipts {
		if (before == 0 || r.ID < before) && len(page) < limit {
			page = append(page, r)
		}
	}
	return w.totals, page, w.err
}

func (w *world) Invoice(_ context.Context, offerID, account, hash string) (found ledger.Invoice, known bool, err error) {
	for _, i := range w.invoices {
		if i.Offer == offerID && i.Account == account && i.Hash == hash {
			found, known = i, true
		}
	}
	return found, known && w.err == nil, w.err
}

// NewInvoice makes the invoice number len(w.invoices) of the rail lightning, which the server can monitor.
func (w *world) NewInvoice(context.Context) (ledger.Invoice, error) {
	if w.refusal != nil {
		return ledger.Invoice{}, w.refusal
	}
	hash := fmt.Sprintf("%064x", len(w.invoices))
	i := ledger.Invoice{
		Hash: hash, Offer: w.offer.ID, Account: "lightning/alice@wallet.example", Rail: "lightning", Request: "lnbc456780n1" + hash,
		Verify: "https://wallet.example/verify/" + hash, Satoshis: w.live.Satoshis, USDCents: 4200, CreatedAt: at.Unix(), ExpireAt: at.Unix() + 600,
	}
	w.invoices = append(w.invoices, i)
	return i, nil
}

func (w *world) IsReady() bool { return !w.busy }

func (w *world) Accounts(context.Context, string) ([]ledger.Account, error) { return w.accounts, w.err }

func (w *world) Payment(_ context.Context, offerID, account, name string) (p ledger.Payment, found bool, err error) {
	for _, r := range w.receipts {
		if r.Offer == offerID && r.Account == account && r.Name() == name {
			p.Receipt, found = r, true
		}
	}
	for _, i := range w.intents {
		if i.Offer == offerID && i.Account == account && i.Receipt().Name() == name {
			p.Intent = &i
			if !found || p.Status == ledger.StatusDropped && i.State != ledger.IntentRefused {
				p.Receipt, found = i.Receipt(), true
			}
		}
	}
	return p, found && w.err == nil, w.err
}

func (w *world) SignReceipt(network, payer, transaction string, _ int64) *x402.Artifact {
	return &x402.Artifact{Format: "jws", Signature: strings.Join([]string{"eyJ", network, payer, transaction}, ".")}
}

func (w *world) Feed(_ context.Context, _ string, after ledger.Bookmark, limit int) ([]ledger.Transition, error) {
	if w.older != nil {
		w.older <- struct{}{}
	}
	var page []ledger.Transition
	for _, t := range w.changes {
		if t.Seq > after.Seq && len(page) < limit {
			page = append(page, t)
		}
	}
	return page, w.err
}

func (w *world) deliver(rail string, v observe.Verdict) {
	w.delivering.Lock()
	defer w.delivering.Unlock()
	w.delivered = append(w.delivered, rail+" "+string(v))
}

func (w *world) config() Config {
	return Config{
		Hooks: w.hooks, HooksOff: w.hooksOff, OnDelivery: w.deliver,
		Offer: w.offer, Payments: w, Receipts: w,
		Challenges: mpp.New(w.offer, w.offer.BaseURL, func() []byte { return w.key }, func() time.Time { return at }, func() offer.Live { return w.live }),
		Agent: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(rw, `{"jsonrpc":"2.0"}`)
		}),
		Live: func() offer.Live { return w.live }, Health: func() []observe.Health { return w.health },
		WaitStarted: func(context.Context) {}, ClockOffset: func() time.Duration { return 0 },
		QRKey: func() []byte { return w.key }, ClientIP: func(r *http.Request) string { return r.RemoteAddr },
		Now: func() time.Time { return w.now() }, Logger: slog.New(slog.DiscardHandler),
		Invoices: map[string]Invoicer{"lightning": w}, Limiter: w.limiter,
		WatchInvoice: func(account, hash string) { w.watched = append(w.watched, account+" "+hash) },
	}
}

func (w *world) server(t testing.TB) *Server {
	t.Helper()
	return must(New(w.config()))(t)
}

// send makes a request with headers given as name and value in turn.
func send(t testing.TB, s *Server, method, target, body string, headers ...string) *http.Response {
	t.Helper()
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	require.True(t, s.Serve(w, r), "%s %s is not ours", method, target)
	return w.Result()
}

func read(t testing.TB, res *http.Response) string {
	t.Helper()
	body := must(io.ReadAll(res.Body))(t)
	return string(body)
}

func readJSON(t testing.TB, res *http.Response) map[string]any {
	t.Helper()
	var v map[string]any
	require.NoError(t, json.Unmarshal([]byte(read(t, res)), &v))
	return v
}

// served are the methods and paths of the offer as the description has them:
// the QR images are one path, a template, and so are the webhooks of the
// storefronts.
func served(s *Server) (all []path) {
	for _, row := range table(s.Offer) {
		if row.Summary != "" { // else it is part of a page
			all = append(all, path{row.Method, row.Path})
		}
	}
	storefronts := len(s.Hooks)
	if s.Hooks[offer.RailCard] != nil {
		all = append(all, path{http.MethodPost, offer.PathHookCard})
		storefronts--
	}
	if storefronts > 0 {
		all = append(all, path{http.MethodPost, offer.PathHook + "/{storefront}/{secret}"})
	}
	return all
}

type path struct{ method, path string }

// serves reports whether the server has something at an address.
func serves(t testing.TB, s *Server, target string) bool {
	t.Helper()
	w := httptest.NewRecorder()
	return s.Serve(w, httptest.NewRequest("GET", target, nil)) && w.Code != http.StatusNotFound
}

const browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"

// must fails the test if a call fails, and returns its value: must(call())(t).
func must[T any](value T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		require.NoError(t, err)
		return value
	}
}
