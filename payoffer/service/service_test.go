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
	"github.com/payoffer/caddy-pay-offer/payoffer/pool"
	"github.com/payoffer/caddy-pay-offer/payoffer/signature"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// zpub is an extended public key whose addresses nobody asked for.
const zpub = "zpub6rFR7y4Q2AijBEqTUquhVz398htDFrtymD9xYYfG1m4wAcvPhXNfE3EfH1r1ADqtfSdVCToUG868RvUUkgDKf31mGDtKsAYz2oz2AGutZYs"

// house is where offers are put to work without a server.
type house struct {
	t       *testing.T
	pool    *pool.Pool[Environment]
	folder  string
	down    string // an upstream that refuses everything
	counted []string
	log     *lockedBuffer
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
	return &house{t: t, pool: pool.New[Environment](), folder: folder, down: down.URL, log: new(lockedBuffer), storage: &certmagic.FileStorage{Path: folder}}
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
	transfer := must(offer.NewBankTransfer("transfer", "pay@example.com", "memo", "An operator", 42_00))(h.t)
	shop, err := offer.NewStorefront("pack", "https://pack.example/42", 42_00)
	require.NoError(h.t, err)
	shop.Product = "p"
	o, err := offer.New(offer.Terms{
		ID: "pay.example", BaseURL: "https://pay.example", SiteURL: "https://example", Name: "An offer", Operator: "An operator",
		Description: description, Account: "pay", SourceURL: "https://example/source", Amount: 42_00, Updated: "2026-11-21",
	}, card, usdc, unread, bitcoin, transfer, shop)
	require.NoError(h.t, err)
	facilitator := x402.FacilitatorConfig{URL: h.down, Timeout: time.Second}
	return &Settings{
		Key: pool.KeyOf("test", description), Offer: o, KeysPath: "pay_offer/signing/pay.example.json",
		Rails: []Rail{
			USDC{USDC: usdc, Facilitators: []x402.FacilitatorConfig{facilitator}, RPC: []string{h.down}, Confirm: evm.Safe},
			USDC{USDC: unread, Facilitators: []x402.FacilitatorConfig{facilitator}},
			Bitcoin{Bitcoin: bitcoin, Rates: []string{"mempool"}, Esplora: []string{h.down}, Confirmations: 2},
			Card{Card: card, WebhookSecret: "whsec_0123456789abcdef"},
			Storefront{Storefront: shop, HookSecret: "0123456789abcdef"},
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

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.log.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.log.String()
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
	use := h.pool.Use(Environment{
		Logger: slog.NewTextHandler(log, nil), Storage: h.storage, Emit: func(string, map[string]any) error { return nil },
	})
	runtime := must(NewRuntime(use, pool.KeyOf("ledger"), pool.KeyOf("storage"), newLedger, &Instruments{
		Transport: func(string) http.RoundTripper { return h.upstream },
		Attempt:   func(offerID string, status x402.Status) { h.counted = append(h.counted, offerID+" "+string(status)) },
		Delivery: func(offerID, rail string, v observe.Verdict) {
			h.counted = append(h.counted, offerID+" "+rail+" "+string(v))
		},
		ClientIP: func(*http.Request) string { return "192.0.2.1" },
	}))(h.t)
	return runtime
}

// acquire puts an offer to work.
func (h *house) acquire(runtime *Runtime, description string) *Service {
	h.t.Helper()
	return h.acquireWith(runtime, h.settings(description))
}

func (h *house) acquireWith(runtime *Runtime, s *Settings, gates ...offer.Gate) *Service {
	h.t.Helper()
	prepared := must(Prepare(runtime, s))(h.t)
	return must(prepared.Acquire(gates...))(h.t)
}

// all chooses every member.
func all(any) bool { return true }

// open starts a configuration but for its work in the background.
func (h *house) open(runtime *Runtime, svc *Service) {
	h.t.Helper()
	runtime.Attach()
	require.NoError(h.t, runtime.Ledger.Open(h.t.Context()))
	require.NoError(h.t, (&startup{runtime: runtime, closed: []*Service{svc}}).open(h.t.Context()))
	svc.setOpen()
}

// release ends a configuration and waits for what ends with it.
func (h *house) release(runtime *Runtime) {
	h.t.Helper()
	runtime.Release(func(err error) { h.t.Error(err) })
	require.NoError(h.t, h.pool.Wait(context.WithoutCancel(h.t.Context())))
}

func (h *house) ask(svc *Service, method, path string, header http.Header, body string) *httptest.ResponseRecorder {
	h.t.Helper()
	request := httptest.NewRequest(method, path, strings.NewReader(body))
	request.Header = header
	recorder := httptest.NewRecorder()
	require.True(h.t, svc.Server.Serve(recorder, request))
	return recorder
}

func TestOfferGoesOnWhileItsSettingsAreTheSame(t *testing.T) {
	h := newHouse(t)
	var log lockedBuffer
	first := h.runtime(&log)
	svc := h.acquire(first, "one")
	h.open(first, svc)
	first.Run(all)
	held := h.pool.Len()

	second := h.runtime(&log)
	require.Same(t, svc, h.acquire(second, "one"))
	require.Same(t, first.Ledger, second.Ledger)
	second.Attach()
	second.Run(all)
	h.release(first)
	require.Equal(t, held, h.pool.Len())

	third := h.runtime(&log)
	changed := h.acquire(third, "another description")
	require.NotSame(t, svc, changed)
	require.Equal(t, held+1, h.pool.Len(), "its parts are the same")
	require.Same(t, svc.observers["usdc"], changed.observers["usdc"])
	require.Same(t, svc.limiter, changed.limiter)
	quote := h.ask(changed, http.MethodGet, offer.PathQuote, nil, "")
	require.NotEmpty(t, x402.FindSigned(quote.Body.Bytes()), "it signs before it has started")
	gate := offer.Gate{Start: "https://example.org/course/", Access: time.Hour}
	gated := h.acquireWith(third, h.settings("one"), gate)
	require.NotSame(t, svc, gated, "documents describe the gates")
	require.Same(t, gated, h.acquireWith(third, h.settings("one"), gate))
	require.NotEqual(t, svc.Key, gated.Key, "'check --live' compares the gates, too")
	require.Equal(t, held+2, h.pool.Len(), "its parts are the same")
	h.release(third)
	h.release(second)
	require.Zero(t, h.pool.Len())
	_, err := first.Ledger.Totals(t.Context(), "pay.example")
	require.ErrorIs(t, err, ledger.ErrNotOpen)
}

// A request of a configuration that has ended may still take a payment.
func TestThePaymentsOfAnEndedConfigurationHoldTheLedger(t *testing.T) {
	h := newHouse(t)
	runtime := h.runtime(new(lockedBuffer))
	svc := h.acquire(runtime, "one")
	h.open(runtime, svc)
	release, held := svc.payments.Hold()
	require.True(t, held)
	runtime.Release(func(err error) { t.Error(err) })
	require.Eventually(t, func() bool { return h.pool.Len() == 1 }, time.Minute, time.Millisecond)
	require.True(t, runtime.Ledger.IsOpen())

	require.NoError(t, release())
	require.False(t, runtime.Ledger.IsOpen())
	require.Zero(t, h.pool.Len())
	_, held = svc.payments.Hold()
	require.False(t, held)
}

func TestOpenLoadsWhatRequestsNeed(t *testing.T) {
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
func TestAStartStoresThePrice(t *testing.T) {
	h := newHouse(t)
	runtime := h.runtime(new(lockedBuffer))
	defer h.release(runtime)
	svc := h.acquire(runtime, "one")
	runtime.Attach()
	require.NoError(t, runtime.Ledger.Open(t.Context()))
	for _, c := range []struct {
		at    int64
		price offer.USD
		all   []int64
	}{{1_000, 42_00, []int64{42_00}}, {2_000, 42_00, []int64{42_00}}, {3_000, 50_00, []int64{50_00, 42_00}}} {
		svc.Offer.Amount = c.price
		require.NoError(t, (&startup{runtime: runtime, closed: []*Service{svc}, since: c.at}).open(t.Context()))
		require.Equal(t, c.all, must(runtime.Ledger.Prices(t.Context(), svc.Offer.ID, 0, 9_000))(t))
	}
	require.Equal(t, []int64{42_00}, must(runtime.Ledger.Prices(t.Context(), svc.Offer.ID, 0, 2_999))(t))
}

func TestWhatHappensIsCounted(t *testing.T) {
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

func TestEachRailSaysHowWellItIsObserved(t *testing.T) {
	h := newHouse(t)
	runtime := h.runtime(new(lockedBuffer))
	svc := h.acquire(runtime, "one")
	defer h.release(runtime)
	sources := make(map[string]string)
	for _, health := range svc.Health() {
		sources[health.Rail] = health.Source
	}
	require.Equal(t, map[string]string{
		"usdc": "chain", "usdc-42220": "facilitator", "btc": "chain", "card": "webhook", "pack": "", "transfer": "operator",
	}, sources)
	require.Len(t, svc.Announcements(nil), 3, "the events of the server, its log, and one address")
	require.Len(t, svc.Facilitators(), 2, "one for each rail")
}

func TestTwoRailsOfOneAccountAreRefused(t *testing.T) {
	h := newHouse(t)
	s := h.settings("one")
	require.NoError(t, s.Check())
	twin, err := offer.NewStorefront("tip-jar", "https://tip-jar.example/42", 42_00)
	require.NoError(t, err)
	twin.Product = "p"
	s.Offer.Rails = append(s.Offer.Rails, twin)
	require.ErrorContains(t, s.Check(), `"pack" and "tip-jar" both receive money at the account gumroad/p`)
}

// What outlives a configuration writes to the log of the one that started last.
func TestLogFollowsTheConfigurations(t *testing.T) {
	h := newHouse(t)
	var one, two lockedBuffer
	first, second := h.runtime(&one), h.runtime(&two)
	svc := h.acquire(first, "one")
	h.acquire(second, "one")
	first.Attach()
	log := svc.logger.WithGroup("payment").With("nonce", 7)
	log.Info("first")
	second.Attach()
	log.Info("second")
	h.release(second)
	log.Info("third")
	h.release(first)
	require.Contains(t, one.String(), "msg=first offer=pay.example payment.nonce=7")
	require.Contains(t, one.String(), "msg=third")
	require.NotContains(t, one.String(), "msg=second")
	require.Contains(t, two.String(), "msg=second offer=pay.example payment.nonce=7")
}

// Observers and announcements begin at the same moment: what one of them
// records at once has its place in the outbox all the same.
func TestWhatIsRecordedRightAfterTheStartIsAnnounced(t *testing.T) {
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

// dated answers every call with a Date an hour ago.
type dated struct{}

func (dated) RoundTrip(r *http.Request) (*http.Response, error) {
	date := time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat)
	return &http.Response{StatusCode: http.StatusNotFound, Body: http.NoBody, Request: r, Header: http.Header{"Date": {date}}}, nil
}

func TestUpstreamsShowThatTheClockIsWrong(t *testing.T) {
	h := newHouse(t)
	h.upstream = dated{}
	runtime := h.runtime(h.log)
	defer h.release(runtime)
	svc := h.acquire(runtime, "one")
	h.open(runtime, svc)
	require.False(t, svc.payments.ClockWrong())
	for _, upstream := range []string{"https://one.example", "https://two.example"} {
		must(runtime.transport("rpc").RoundTrip(httptest.NewRequest(http.MethodGet, upstream, nil)))(t)
	}
	require.True(t, svc.payments.ClockWrong())
	require.Regexp(t, `"clockOffsetSeconds":(3599|3600|3601),`, h.ask(svc, http.MethodGet, offer.PathReceived, nil, "").Body.String())
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
func TestTheSellerReadsWhyAPaymentOpensNothing(t *testing.T) {
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
