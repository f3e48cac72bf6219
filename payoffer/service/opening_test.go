package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/postgres"
	"github.com/payoffer/caddy-pay-offer/payoffer/signature"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// untilOpen waits for offers that come late.
func (h *house) untilOpen(all ...*Service) {
	h.t.Helper()
	for _, svc := range all {
		require.Eventually(h.t, svc.IsOpen, time.Minute, time.Millisecond)
	}
}

// start starts offers in the background, as a server does.
func (h *house) start(share *Share, whole bool, all ...*Service) error {
	h.t.Helper()
	share.Attach()
	return share.Start(h.t.Context(), whole, all...)
}

// pays is how a payment is answered that cannot be read.
func (h *house) pays(svc *Service) *httptest.ResponseRecorder {
	h.t.Helper()
	return h.ask(svc, http.MethodPost, offer.PathSponsor, http.Header{http.CanonicalHeaderKey(x402.HeaderSignature): {"e30="}}, "")
}

var errNoStorage = errors.New("no route to the storage")

// unsteady is a storage that fails for what it says is away.
type unsteady struct {
	signature.Storage
	away func(path string) bool
}

func (s *unsteady) Load(ctx context.Context, path string) ([]byte, error) {
	if s.away(path) {
		return nil, errNoStorage
	}
	return s.Storage.Load(ctx, path)
}

// Whatever cannot be reached: the start returns, what is fixed is served, whatever needs
// the ledger says when to come again, and the offers come by themselves.
func TestAnOfferWhoseLedgerOrStorageIsAwayComesLate(t *testing.T) {
	for name, c := range map[string]struct {
		trouble string
		// build returns what is to be called when the trouble is over.
		build func(t *testing.T, h *house) (*Share, func())
	}{
		"a ledger": {"connecting: the server", func(t *testing.T, h *house) (*Share, func()) {
			server := postgres.Shared(t)
			far := server.Far(t, 0)
			far.Close()
			dsn := far.DSN(t, server.DSN(t))
			return h.shareOn(h.log, func() (*ledger.Ledger, error) { return ledger.NewPostgres(dsn, time.Now) }), far.Open
		}},
		"a storage": {errNoStorage.Error(), func(_ *testing.T, h *house) (*Share, func()) {
			var back atomic.Bool
			h.storage = &unsteady{h.storage, func(string) bool { return !back.Load() }}
			return h.share(h.log), func() { back.Store(true) }
		}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			share, over := c.build(t, h)
			defer h.release(share)
			one, other := h.acquire(share, "one"), h.many(share, 1)[0]
			require.NoError(t, h.start(share, false, one, other))

			for _, svc := range []*Service{one, other} {
				require.False(t, svc.IsOpen())
				require.Eventually(t, func() bool { return strings.Contains(svc.Trouble(), c.trouble) }, time.Minute, time.Millisecond)
				require.Equal(t, http.StatusPaymentRequired, h.ask(svc, http.MethodGet, offer.PathQuote, nil, "").Code)
				refused := h.pays(svc)
				require.Equal(t, http.StatusServiceUnavailable, refused.Code)
				require.Equal(t, http.StatusServiceUnavailable, h.ask(svc, http.MethodGet, offer.PathReceived, nil, "").Code, "a load balancer sees it")
				require.NotEmpty(t, refused.Header().Get("Retry-After"))
				require.False(t, svc.Operator.Diagnose(t.Context()).Ledger.Writable)
			}
			require.Contains(t, h.log.String(), "offers come later")
			require.Contains(t, h.log.String(), c.trouble)
			require.NotContains(t, h.log.String(), "the offer is open")

			over()
			h.untilOpen(one, other)
			for _, svc := range []*Service{one, other} {
				require.Empty(t, svc.Trouble())
				require.Equal(t, http.StatusBadRequest, h.pays(svc).Code, "it is looked at")
				require.Equal(t, http.StatusOK, h.ask(svc, http.MethodGet, offer.PathReceived, nil, "").Code)
				require.Contains(t, h.ask(svc, http.MethodGet, offer.PathDID, nil, "").Body.String(), "publicKeyJwk")
				require.True(t, svc.Operator.Diagnose(t.Context()).Ledger.Writable)
			}
			require.Eventually(t, func() bool { return strings.Count(h.log.String(), "the offer is open") == 2 }, time.Minute, time.Millisecond)
		})
	}
}

// A webhook that arrives before the ledger is open is sent again.
func TestAWebhookBeforeTheLedgerIsOpenIsToBeSentAgain(t *testing.T) {
	h := newHouse(t)
	share := h.shareOn(h.log, func() (*ledger.Ledger, error) {
		return ledger.NewPostgres("postgres://role@127.0.0.1:1/base", time.Now)
	})
	defer h.release(share)
	svc := h.acquire(share, "one")
	require.NoError(t, h.start(share, false, svc))
	processor := payoffertest.NewProcessor("", time.Now)
	processor.Pay("plink_1", 42_00, false)
	for _, event := range processor.Events() {
		signed := http.Header{"Stripe-Signature": {payoffertest.SignDelivery(event, time.Now(), svc.Card.WebhookSecret)}}
		require.Equal(t, http.StatusServiceUnavailable, h.ask(svc, http.MethodPost, offer.PathHookCard, signed, string(event)).Code)
	}
}

// One slow key keeps its own offer waiting, and neither another nor the start.
func TestASlowKeyKeepsItsOwnOfferWaitingAlone(t *testing.T) {
	h := newHouse(t)
	var held atomic.Bool
	held.Store(true)
	slow := h.numbered(1).KeysPath
	h.storage = &unsteady{h.storage, func(path string) bool { return path == slow && held.Load() }}
	share := h.share(h.log)
	defer h.release(share)
	all := h.many(share, 3)
	require.NoError(t, h.start(share, false, all...))
	h.untilOpen(all[0], all[2])
	require.False(t, all[1].IsOpen())
	require.Equal(t, http.StatusBadRequest, h.pays(all[0]).Code)
	require.Equal(t, http.StatusServiceUnavailable, h.pays(all[1]).Code)
	held.Store(false)
	h.untilOpen(all[1])
}

// A reload while the ledger is away leaves nothing behind, and goes on with what was
// begun.
func TestAReloadWhileTheLedgerIsAwayGoesOnWaiting(t *testing.T) {
	h := newHouse(t)
	server := postgres.Shared(t)
	far := server.Far(t, 0)
	far.Close()
	dsn := far.DSN(t, server.DSN(t))
	on := func() *Share {
		return h.shareOn(h.log, func() (*ledger.Ledger, error) { return ledger.NewPostgres(dsn, time.Now) })
	}
	first := on()
	svc := h.acquire(first, "one")
	require.NoError(t, h.start(first, false, svc))
	second := on()
	require.Same(t, svc, h.acquire(second, "one"))
	require.NoError(t, h.start(second, false, svc))
	h.release(first)
	require.False(t, svc.IsOpen())
	far.Open()
	h.untilOpen(svc)
	h.release(second)
	require.Zero(t, h.pool.Len())
	require.False(t, second.Ledger.IsOpen())
}

// What somebody has to mend is refused by the start where it is found there. Found
// later it keeps the offers that it is about from running, and no other.
func TestWhatHasToBeMendedIsRefusedAndFoundLateKeepsItsOwnOfferAlone(t *testing.T) {
	for name, c := range map[string]struct {
		breaks func(t *testing.T, h *house, book *ledger.Ledger)
		want   string
		all    bool // it is about every offer
	}{
		"an account of another offer": {func(t *testing.T, h *house, book *ledger.Ledger) {
			account := h.numbered(1).Accounts()[1]
			account.Offer = "elsewhere.example"
			require.NoError(t, book.Register(t.Context(), account))
		}, `belongs to offer "elsewhere.example"`, false},
		"keys of another storage": {func(t *testing.T, h *house, book *ledger.Ledger) {
			require.NoError(t, book.RememberKeys(t.Context(), map[string][]string{h.numbered(1).Offer.DID(): {"other"}}))
		}, "this ledger was used with other signing keys", false},
		"damaged keys": {func(t *testing.T, h *house, _ *ledger.Ledger) {
			require.NoError(t, h.storage.Store(t.Context(), h.numbered(1).KeysPath, []byte("{}")))
		}, "it has no private key", false},
		"another key of addresses": {func(t *testing.T, _ *house, book *ledger.Ledger) {
			require.NoError(t, book.RememberKeys(t.Context(), map[string][]string{qrName: {"other"}}))
		}, "another key of QR addresses", true},
		"the ledger of a demo": {func(t *testing.T, _ *house, book *ledger.Ledger) {
			require.NoError(t, book.Register(t.Context(), ledger.Account{Offer: "demo", ID: offer.DemoAccount, Rail: "card"}))
		}, "pretend payments of a demo", true},
	} {
		for _, late := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, late %v", name, late), func(t *testing.T) {
				h := newHouse(t)
				server := postgres.Shared(t)
				dsn, far := server.DSN(t), server.Far(t, 0)
				book, err := ledger.NewPostgres(dsn, time.Now)
				require.NoError(t, err)
				require.NoError(t, book.Open(t.Context()))
				c.breaks(t, h, book)
				require.NoError(t, book.Close())
				if late {
					far.Close()
				}
				// The keys wait for the ledger, too: what is wrong is found late.
				h.storage = &unsteady{h.storage, func(string) bool { return late && far.Trips() == 0 }}
				share := h.shareOn(h.log, func() (*ledger.Ledger, error) { return ledger.NewPostgres(far.DSN(t, dsn), time.Now) })
				defer h.release(share)
				all := h.many(share, 3)
				err = h.start(share, false, all...)
				if !late {
					require.ErrorContains(t, err, c.want)
					return
				}
				require.NoError(t, err)
				far.Open()
				require.Eventually(t, func() bool { return strings.Contains(all[1].Trouble(), c.want) }, time.Minute, time.Millisecond)
				require.Eventually(t, func() bool { return strings.Contains(h.log.String(), "offers take no payments until this is mended") }, time.Minute, time.Millisecond)
				if c.all {
					require.Eventually(t, func() bool { return strings.Contains(all[0].Trouble(), c.want) }, time.Minute, time.Millisecond)
					return
				}
				h.untilOpen(all[0], all[2])
				require.Equal(t, http.StatusServiceUnavailable, h.pays(all[1]).Code)
				require.Equal(t, http.StatusBadRequest, h.pays(all[0]).Code)
				require.False(t, all[1].Operator.Diagnose(t.Context()).Ledger.Writable)
				told, err := all[1].Operator.Received(t.Context())
				require.NoError(t, err)
				require.Contains(t, told.Trouble, c.want)
			})
		}
	}
}

// What answers neither yes nor no is not waited for, unless other offers would be replaced.
func TestAStartWaitsOnlySoLongForWhatDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := new(lockedBuffer)
		hangs := func(whole bool) *opening {
			return &opening{
				share: &Share{Ledger: ledger.NewSQLite("none", time.Now)}, whole: whole, verdict: make(chan error, 1),
				logger: slog.New(slog.NewTextHandler(log, nil)), stop: func() {},
			}
		}
		began, late := time.Now(), hangs(false)
		require.NoError(t, late.wait(t.Context()))
		require.GreaterOrEqual(t, time.Since(began), startWait)
		require.LessOrEqual(t, time.Since(began), startWait+2*startLook)
		require.Contains(t, log.String(), "the ledger or the storage is slow")
		require.True(t, late.refuses(errNoStorage), "the others go on")
		require.Contains(t, log.String(), "offers take no payments until this is mended")

		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		whole := hangs(true)
		require.ErrorIs(t, whole.wait(ctx), context.DeadlineExceeded)
		require.False(t, whole.refuses(errNoStorage))
	})
}

// Where other offers would be replaced, nothing comes late.
func TestAStartThatMustBeWholeIsRefusedWhereTheLedgerIsAway(t *testing.T) {
	h := newHouse(t)
	share := h.shareOn(h.log, func() (*ledger.Ledger, error) {
		return ledger.NewPostgres("postgres://role@127.0.0.1:1/base", time.Now)
	})
	defer h.release(share)
	require.ErrorContains(t, h.start(share, true, h.acquire(share, "one")), "the server cannot be reached: connection refused")
}
