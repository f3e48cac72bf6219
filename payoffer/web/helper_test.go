package web

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/mpp"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

const (
	baseURL  = "https://pay.example.org"
	checkout = "https://checkout.example/pay?a=1&b=2"
	payTo    = "0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045"
	address  = "bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq"
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

// makeOffer is an offer with every rail, its chains named, its text as given.
func makeOffer(t testing.TB, terms offer.Terms, usdcNetwork string) *offer.Offer {
	t.Helper()
	card := must(offer.NewCard(checkout, nil, terms.Amount))(t)
	network := must(offer.LookupNetwork(usdcNetwork))(t)
	usdc := must(offer.NewUSDC("usdc", network, payTo, terms.Amount))(t)
	btc := must(offer.NewBitcoin(address, terms.Name, terms.Amount))(t)
	transfer, err := offer.NewBankTransfer("transfer", "bank@example.org", terms.Name+" 42", terms.Operator, terms.Amount)
	require.NoError(t, err)
	tip, err := offer.NewStorefront("tip-jar", "https://shop.example/tip", terms.Amount)
	require.NoError(t, err)
	pack, err := offer.NewStorefront("pack", "https://shop.example/pack", terms.Amount)
	require.NoError(t, err)
	return must(offer.New(terms, card, usdc, btc, transfer, tip, pack))(t)
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
	accepts  []x402.Requirements
	quote    *x402.Quote
	totals   []ledger.Total
	accounts []ledger.Account
	receipts []ledger.Receipt
	intents  []ledger.Intent
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
	// older, if not nil, is what a read of older receipts or of changes waits for.
	older chan struct{}
	// delivered is what Config.OnDelivery was told.
	delivered []string
}

func newWorld(t testing.TB) *world {
	quoted := x402.PaymentRequiredV1{
		X402Version: 1, CardQuote: x402.CardQuote{Error: "payment required", Fallback: offer.Fallback{AmountUSD: 42_00}},
		Accepts: []x402.RequirementsV1{{Scheme: "exact"}},
	}
	return &world{
		offer: makeOffer(t, terms(), "base"), key: qrKey,
		live:    offer.Live{Satoshis: 45_678, RateAt: at},
		accepts: []x402.Requirements{{Scheme: "exact", Network: "eip155:8453", Amount: "42000000", PayTo: payTo}},
		quote:   &x402.Quote{HeaderStart: "cXVvdGUg", Body: encode(quoted), Terms: quoted},
		health: []observe.Health{
			{Rail: "card", Source: "webhook", At: at.Unix() - 3}, {Rail: "usdc", Source: "chain", ObservedThrough: "block 7", At: at.Unix() - 9},
			{Rail: "btc", Source: "chain", At: at.Unix()}, {Rail: "transfer", Source: "operator"},
			{Rail: "tip-jar", Source: "webhook"}, {Rail: "pack", Source: "webhook"},
		},
	}
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

func (w *world) Pay(_ context.Context, a x402.Attempt) x402.Outcome {
	w.attempts = append(w.attempts, a)
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

func (w *world) config() Config {
	return Config{
		Hooks: w.hooks, HooksOff: w.hooksOff, OnDelivery: func(rail string, v observe.Verdict) { w.delivered = append(w.delivered, rail+" "+string(v)) },
		Offer: w.offer, Payments: w, Receipts: w,
		Challenges: mpp.New(w.offer, w.offer.BaseURL, func() []byte { return w.key }, func() time.Time { return at }, func() offer.Live { return w.live }),
		Agent: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(rw, `{"jsonrpc":"2.0"}`)
		}),
		Live: func() offer.Live { return w.live }, Health: func() []observe.Health { return w.health },
		Started: func(context.Context) {}, ClockOffset: func() time.Duration { return 0 },
		QRKey: func() []byte { return w.key }, ClientIP: func(r *http.Request) string { return r.RemoteAddr },
		Now: func() time.Time { return at }, Logger: slog.New(slog.DiscardHandler),
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
