package service

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/announce"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/evm"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/operator"
	"github.com/payoffer/caddy-pay-offer/payoffer/signature"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// zpub is an extended public key whose addresses nobody asked for.
const zpub = "zpub6rFR7y4Q2AijBEqTUquhVz398htDFrtymD9xYYfG1m4wAcvPhXNfE3EfH1r1ADqtfSdVCToUG868RvUUkgDKf31mGDtKsAYz2oz2AGutZYs"

// house is where offers are put to work without a server.
type house struct {
	t       *testing.T
	folder  string
	down    string // an upstream that refuses everything
	counted []string
	log     *lockedBuffer
	// loads are the configurations that are not released, which share a ledger and values by their keys.
	loads  int
	ledger *ledger.Ledger
	poller *ledger.DuePoller
	shared map[string]any
	// storage keeps the keys.
	storage signature.Storage
	// upstream carries the calls to upstreams; nil is the default.
	upstream http.RoundTripper
}

func newHouse(t *testing.T) *house {
	t.Helper()
	down := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }))
	t.Cleanup(down.Close)
	folder := t.TempDir()
	return &house{t: t, shared: make(map[string]any), folder: folder, down: down.URL, log: new(lockedBuffer), storage: &certmagic.FileStorage{Path: folder}}
}

// settings are those of an offer with every kind of rail.
func (h *house) settings(description string) *Settings {
	h.t.Helper()
	card, err := offer.NewCard("https://checkout.example/pay", nil, 42_00)
	require.NoError(h.t, err)
	card.PaymentLink = "plink_1"
	network := must(offer.LookupNetwork("base-sepolia"))(h.t)
	usdc := must(offer.NewUSDC("usdc", network, "0x52908400098527886E0F7030069857D2E4169EE7", 42_00))(h.t)
	celo := must(offer.LookupNetwork("celo"))(h.t)
	unread := must(offer.NewUSDC("usdc-42220", celo, "0x52908400098527886E0F7030069857D2E4169EE7", 42_00))(h.t)
	bitcoin := must(offer.NewBitcoin(zpub, "An offer", 42_00))(h.t)
	wallet := must(offer.NewLightning("alice@wallet.example", 42_00))(h.t)
	transfer := must(offer.NewBankTransfer("transfer", "pay@example.com", "memo", "An operator", 42_00))(h.t)
	shop, err := offer.NewStorefront("pack", "https://pack.example/42", 42_00)
	require.NoError(h.t, err)
	shop.Product = "p"
	o, err := offer.New(offer.Terms{
		ID: "pay.example", BaseURL: "https://pay.example", SiteURL: "https://example", Name: "An offer", Operator: "An operator",
		Description: description, Account: "pay", SourceURL: "https://example/source", Amount: 42_00, Updated: "2026-11-21",
	}, card, usdc, unread, bitcoin, wallet, transfer, shop)
	require.NoError(h.t, err)
	facilitator := x402.FacilitatorConfig{URL: h.down, Timeout: time.Second}
	return &Settings{
		Key: KeyOf("test", description), Offer: o, KeysPath: "pay_offer/signing/pay.example.json",
		Rails: []Rail{
			USDC{USDC: usdc, Facilitators: []x402.FacilitatorConfig{facilitator}, RPC: []string{h.down}, Confirm: evm.Safe},
			USDC{USDC: unread, Facilitators: []x402.FacilitatorConfig{facilitator}},
			Bitcoin{Bitcoin: bitcoin, Rates: []string{"mempool"}, Esplora: []string{h.down}, Confirmations: 2},
			Card{Card: card, WebhookSecret: "whsec_0123456789abcdef"},
			Storefront{Storefront: shop, HookSecret: "0123456789abcdef"},
			Lightning{wallet},
			Manual{Rail: transfer},
		},
		Announce: []announce.Endpoint{announce.Webhook{URL: h.down}},
		Limit:    x402.Limit{Attempts: 10, Period: time.Minute},
	}
}

// lockedBuffer is a log that is read while others write it.
type lockedBuffer struct {
	mu  sync.Mutex
	log bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.log.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.log.String()
}

// runtime is one configuration's.
func (h *house) runtime(log *lockedBuffer) *Runtime {
	h.t.Helper()
	return h.runtimeOn(log, func() (*ledger.Ledger, error) {
		return ledger.NewSQLite(filepath.Join(h.folder, "ledger.db"), time.Now), nil
	})
}

// runtimeOn is one whose ledger is elsewhere.
func (h *house) runtimeOn(log *lockedBuffer, newLedger func() (*ledger.Ledger, error)) *Runtime {
	h.t.Helper()
	if h.loads++; h.ledger == nil {
		h.ledger = must(newLedger())(h.t)
		h.poller = ledger.NewDuePoller(h.ledger)
	}
	return NewRuntime(Config{
		Ledger: h.ledger, DuePoller: h.poller, Open: h.ledger.Open, LedgerKey: "ledger", StorageKey: "storage",
		Hold:    func() (func(), bool) { return func() {}, true },
		Storage: func() signature.Storage { return h.storage },
		Share: func(key string, made any) any {
			if h.shared[key] == nil {
				h.shared[key] = made
			}
			return h.shared[key]
		},
		Logger: slog.New(slog.NewTextHandler(log, nil)), Emit: func(string, map[string]any) error { return nil },
		Instruments: &Instruments{
			Transport:       func(string) http.RoundTripper { return h.upstream },
			PublicTransport: func(string) http.RoundTripper { return h.upstream },
			Attempt:         func(offerID string, status x402.Status) { h.counted = append(h.counted, offerID+" "+string(status)) },
			Delivery: func(offerID, rail string, v observe.Verdict) {
				h.counted = append(h.counted, offerID+" "+rail+" "+string(v))
			},
			ClientIP: func(*http.Request) string { return "192.0.2.1" },
		},
	})
}

// acquire puts an offer to work.
func (h *house) acquire(runtime *Runtime, description string) *Service {
	h.t.Helper()
	return h.acquireWith(runtime, h.settings(description))
}

func (h *house) acquireWith(runtime *Runtime, s *Settings, gates ...offer.Gate) *Service {
	h.t.Helper()
	svc := must(runtime.Prepare(s))(h.t)
	require.NoError(h.t, svc.Complete(gates...))
	return svc
}

// open opens an offer and starts none of its work.
func (h *house) open(runtime *Runtime, svc *Service) {
	h.t.Helper()
	require.NoError(h.t, runtime.openOffers(time.Now().Unix(), svc))
	svc.open.Store(true)
	svc.memory.opened(svc)
}

// release ends a configuration, and with the last one what they shared.
func (h *house) release(runtime *Runtime) {
	h.t.Helper()
	runtime.Stop()
	runtime.Wait()
	if h.loads--; h.loads == 0 {
		require.NoError(h.t, h.ledger.Close())
		h.ledger = nil
		clear(h.shared)
	}
}

func (h *house) ask(svc *Service, method, path string, header http.Header, body string) *httptest.ResponseRecorder {
	h.t.Helper()
	request := httptest.NewRequest(method, path, strings.NewReader(body))
	request.Header = header
	recorder := httptest.NewRecorder()
	require.True(h.t, svc.Server.Serve(recorder, request))
	return recorder
}

func TestOpenLoadsKeys(t *testing.T) {
	h := newHouse(t)
	runtime := h.runtime(new(lockedBuffer))
	svc := h.acquire(runtime, "one")
	defer h.release(runtime)
	require.Equal(t, http.StatusServiceUnavailable, h.ask(svc, http.MethodGet, offer.PNGPath("usdc"), nil, "").Code)
	require.NotContains(t, h.ask(svc, http.MethodGet, offer.PathDID, nil, "").Body.String(), "publicKeyJwk")

	h.open(runtime, svc)

	image := h.ask(svc, http.MethodGet, offer.PNGPath("usdc"), nil, "").Header().Get("Location")
	require.Equal(t, http.StatusOK, h.ask(svc, http.MethodGet, image, nil, "").Code)
	did := h.ask(svc, http.MethodGet, offer.PathDID, nil, "").Body.String()
	require.Contains(t, did, "publicKeyJwk")
	require.Equal(t, http.StatusOK, h.ask(svc, http.MethodGet, offer.PathReceived, nil, "").Code)

	key := must(svc.Operator.RotateKey(t.Context(), operator.KeyRotation{Revoke: true}))(t)
	require.Contains(t, h.ask(svc, http.MethodGet, offer.PathDID, nil, "").Body.String(), key.KeyID)
	require.NotEqual(t, did, h.ask(svc, http.MethodGet, offer.PathDID, nil, "").Body.String(), "the document follows at once")
}

// A start stores the price from when on the offers are tried to open, so that a payment
// during an outage of the ledger has the price that was published then.
func TestStartStoresPrice(t *testing.T) {
	h := newHouse(t)
	runtime := h.runtime(new(lockedBuffer))
	defer h.release(runtime)
	svc := h.acquire(runtime, "one")
	for _, c := range []struct {
		at    int64
		price offer.USD
		all   []int64
	}{{1_000, 42_00, []int64{42_00}}, {2_000, 42_00, []int64{42_00}}, {3_000, 50_00, []int64{50_00, 42_00}}} {
		svc.Offer.Amount = c.price
		require.NoError(t, runtime.openOffers(c.at, svc))
		require.Equal(t, c.all, must(runtime.Ledger.Prices(t.Context(), svc.Offer.ID, 0, 9_000))(t))
	}
	require.Equal(t, []int64{42_00}, must(runtime.Ledger.Prices(t.Context(), svc.Offer.ID, 0, 2_999))(t))
}

func TestAttemptAndWebhookCounters(t *testing.T) {
	h := newHouse(t)
	runtime := h.runtime(new(lockedBuffer))
	svc := h.acquire(runtime, "one")
	defer h.release(runtime)
	h.open(runtime, svc)

	require.Equal(t, http.StatusBadRequest, h.ask(svc, http.MethodPost, offer.PathSponsor, http.Header{http.CanonicalHeaderKey(x402.HeaderSignature): {"e30="}}, "").Code)
	require.Equal(t, http.StatusForbidden, h.ask(svc, http.MethodPost, offer.PathHookCard, http.Header{}, "{}").Code)

	require.Equal(t, []string{"pay.example malformed", "pay.example card unverified"}, h.counted)
	require.Equal(t, []string{"card", "pack"}, slices.Sorted(maps.Keys(svc.Server.Hooks)))
}

func TestRailObservationStates(t *testing.T) {
	h := newHouse(t)
	runtime := h.runtime(new(lockedBuffer))
	svc := h.acquire(runtime, "one")
	defer h.release(runtime)
	sources := make(map[string]string)
	for _, health := range svc.Health() {
		sources[health.Rail] = health.Source
	}
	require.Equal(t, map[string]string{
		"usdc": "chain", "usdc-42220": "facilitator", "btc": "chain", "card": "webhook", "lightning": "provider", "pack": "", "transfer": "operator",
	}, sources)
	require.Len(t, svc.announcer.Health(nil), 3, "the events of the server, its log, and one address")
	require.Len(t, svc.payments.Facilitators(), 2, "one for each rail")
	require.NotNil(t, svc.settlements[0].Chain, "settlements ask the chain that is read")
	require.Nil(t, svc.settlements[1].Chain)
}

func TestDuplicateAccountIsRefused(t *testing.T) {
	h := newHouse(t)
	s := h.settings("one")
	require.NoError(t, s.Check())
	twin, err := offer.NewStorefront("tip-jar", "https://tip-jar.example/42", 42_00)
	require.NoError(t, err)
	twin.Product = "p"
	s.Offer.Rails = append(s.Offer.Rails, twin)
	require.ErrorContains(t, s.Check(), `"pack" and "tip-jar" both receive money at the account gumroad/p`)
}

// Observers and announcements begin at the same moment: what one of them
// records at once has its place in the outbox all the same.
func TestPaymentRightAfterStartIsNotified(t *testing.T) {
	h := newHouse(t)
	runtime := h.runtime(new(lockedBuffer))
	svc := h.acquire(runtime, "one")
	defer h.release(runtime)
	h.open(runtime, svc)
	account, cents := svc.Accounts()[1], int64(4200)
	must(runtime.Ledger.Record(t.Context(), nil, ledger.Observation{
		Offer: account.Offer, Account: account.ID, Rail: account.Rail, ExternalID: "eip155:84532:0x01:0", Transaction: "0x01", Asset: "USDC",
		Amount: 42_000_000, USDCents: &cents, State: ledger.StatusConfirmed, EvidenceLevel: ledger.LevelChain, Evidence: []byte("{}"), Testnet: true,
		OccurredAt: time.Now().Unix(), Cause: "test",
	}))(t)
	for _, receiver := range []string{"events", "log"} {
		now := time.Now().Unix()
		after, held, err := runtime.Ledger.LeaseSubscriber(t.Context(), svc.Offer.ID, receiver, "test", now, now)
		require.NoError(t, err)
		require.True(t, held)
		require.Zero(t, after, "the receipt is still to be announced")
	}
}

// must fails the test if a call fails, and returns its value: must(call())(t).
func must[T any](value T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		require.NoError(t, err)
		return value
	}
}

// The seller is told why a payment opens nothing.
func TestNotificationExplainsClosedGate(t *testing.T) {
	messages := make(chan string, 9)
	seller := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		messages <- string(body)
	}))
	t.Cleanup(seller.Close)
	h := newHouse(t)
	runtime := h.runtime(new(lockedBuffer))
	defer h.release(runtime)
	s := h.settings("one")
	s.Announce = []announce.Endpoint{announce.Ntfy{URL: seller.URL + "/topic"}}
	svc := h.acquireWith(runtime, s, offer.Gate{Start: "https://example/members/", Access: time.Hour})
	h.open(runtime, svc)
	ctx, stop := context.WithCancel(t.Context())
	var work sync.WaitGroup
	work.Go(func() { svc.announcer.Run(ctx) })
	for cents, why := range map[int64]string{41_99: "opens nothing, because it is less than the price", 42_00: "", 42_01: "opens nothing, because it was a test"} {
		must(runtime.Ledger.Record(t.Context(), nil, ledger.Observation{
			Offer: svc.Offer.ID, Account: s.Offer.AccountOf(s.Offer.Card), Rail: "card", ExternalID: fmt.Sprint("pi_", cents), Asset: "USD", Amount: cents,
			USDCents: &cents, State: ledger.StatusConfirmed, EvidenceLevel: ledger.LevelSigned, OccurredAt: time.Now().Unix(), Cause: "webhook",
			Testnet: cents == 42_01,
		}))(t)
		svc.announcer.Notify()
		message := <-messages
		require.Equal(t, why != "", strings.Contains(message, "opens nothing"), message)
		require.Contains(t, message, why)
	}
	stop()
	work.Wait()
}
