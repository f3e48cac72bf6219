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

func (u *unsteady) Load(ctx context.Context, path string) ([]byte, error) {
	if u.away(path) {
		return nil, errNoStorage
	}
	return u.Storage.Load(ctx, path)
}

// Whatever cannot be reached: the start returns, what is fixed is served, whatever needs
// the ledger says when to come again, and the offers come by themselves.
func TestOfferOpensLateAfterOutage(t *testing.T) {
	for name, c := range map[string]struct {
		trouble string
		// build returns what is to be called when the trouble is over.
		build func(t *testing.T, h *house) (*Runtime, func())
	}{
		"a ledger": {"connecting: the server", func(t *testing.T, h *house) (*Runtime, func()) {
			server := postgres.Shared(t)
			far := server.Far(t, 0)
			far.Close()
			dsn := far.DSN(t, server.DSN(t))
			return h.runtimeOn(h.log, func() (*ledger.Ledger, error) { return ledger.NewPostgres(dsn, time.Now) }), far.Open
		}},
		"a storage": {errNoStorage.Error(), func(_ *testing.T, h *house) (*Runtime, func()) {
			var back atomic.Bool
			h.storage = &unsteady{h.storage, func(string) bool { return !back.Load() }}
			return h.runtime(h.log), func() { back.Store(true) }
		}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			runtime, over := c.build(t, h)
			defer h.release(runtime)
			one, other := h.acquire(runtime, "one"), h.many(runtime, 1)[0]
			require.NoError(t, runtime.Start(t.Context(), false))

			for _, svc := range []*Service{one, other} {
				require.False(t, svc.IsOpen())
				require.Eventually(t, func() bool { return strings.Contains(svc.Trouble(), c.trouble) }, time.Minute, time.Millisecond)
				require.Equal(t, http.StatusPaymentRequired, h.ask(svc, http.MethodGet, offer.PathQuote, nil, "").Code)
				refused := h.pays(svc)
				require.Equal(t, http.StatusServiceUnavailable, refused.Code)
				require.NotEmpty(t, refused.Header().Get("Retry-After"))
				require.False(t, svc.Operator.Diagnose(t.Context()).Ledger.Writable)
			}
			require.Eventually(t, func() bool { return strings.Contains(h.log.String(), "the offers are not open yet") }, time.Minute, time.Millisecond)
			require.Contains(t, h.log.String(), c.trouble)
			require.NotContains(t, h.log.String(), "the offer is open")

			over()
			h.untilOpen(one, other)
			for _, svc := range []*Service{one, other} {
				require.Empty(t, svc.Trouble())
				require.Equal(t, http.StatusBadRequest, h.pays(svc).Code, "it is looked at")
				require.Contains(t, h.ask(svc, http.MethodGet, offer.PathDID, nil, "").Body.String(), "publicKeyJwk")
				require.True(t, svc.Operator.Diagnose(t.Context()).Ledger.Writable)
			}
			require.Eventually(t, func() bool { return strings.Count(h.log.String(), "the offer is open") == 2 }, time.Minute, time.Millisecond)
		})
	}
}

// A reload while the ledger is away ends what the configuration before had begun, and opens when the ledger is back.
func TestReloadDuringLedgerOutage(t *testing.T) {
	h := newHouse(t)
	server := postgres.Shared(t)
	far := server.Far(t, 0)
	far.Close()
	dsn := far.DSN(t, server.DSN(t))
	on := func() *Runtime {
		return h.runtimeOn(h.log, func() (*ledger.Ledger, error) { return ledger.NewPostgres(dsn, time.Now) })
	}
	first := on()
	former := h.acquire(first, "one")
	require.NoError(t, first.Start(t.Context(), false))
	second := on()
	defer h.release(second)
	svc := h.acquire(second, "one")
	require.NoError(t, second.Start(t.Context(), false))
	h.release(first)
	require.False(t, svc.IsOpen())
	far.Open()
	h.untilOpen(svc)
	require.False(t, former.IsOpen())
}

// A fatal error that is found at once is returned. One that is found later is logged.
func TestFatalErrorsAreReturnedOrLogged(t *testing.T) {
	for name, c := range map[string]struct {
		breaks func(t *testing.T, h *house, l *ledger.Ledger)
		want   string
	}{
		"an account of another offer": {func(t *testing.T, h *house, l *ledger.Ledger) {
			account := h.numbered(1).Accounts()[1]
			account.Offer = "elsewhere.example"
			require.NoError(t, l.Register(t.Context(), account))
		}, `belongs to offer "elsewhere.example"`},
		"keys of another storage": {func(t *testing.T, h *house, l *ledger.Ledger) {
			require.NoError(t, l.RememberKeys(t.Context(), map[string][]string{h.numbered(1).Offer.DID(): {"other"}}))
		}, "this ledger was used with other signing keys"},
		"damaged keys": {func(t *testing.T, h *house, _ *ledger.Ledger) {
			require.NoError(t, h.storage.Store(t.Context(), h.numbered(1).KeysPath, []byte("{}")))
		}, "the signing keys in Caddy's storage"},
		"another key of addresses": {func(t *testing.T, _ *house, l *ledger.Ledger) {
			require.NoError(t, l.RememberKeys(t.Context(), map[string][]string{qrName: {"other"}}))
		}, "another key of QR addresses"},
		"the ledger of a demo": {func(t *testing.T, _ *house, l *ledger.Ledger) {
			require.NoError(t, l.Register(t.Context(), ledger.Account{Offer: "demo", ID: offer.DemoAccount, Rail: "card"}))
		}, "simulated payments of a demo"},
	} {
		for _, late := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, late %v", name, late), func(t *testing.T) {
				h := newHouse(t)
				server := postgres.Shared(t)
				dsn, far := server.DSN(t), server.Far(t, 0)
				l := must(ledger.NewPostgres(dsn, time.Now))(t)
				require.NoError(t, l.Open(t.Context()))
				c.breaks(t, h, l)
				require.NoError(t, l.Close())
				if late {
					far.Close()
				}
				// The keys wait for the ledger, too, so that their error is found late.
				h.storage = &unsteady{h.storage, func(string) bool { return late && far.Trips() == 0 }}
				runtime := h.runtimeOn(h.log, func() (*ledger.Ledger, error) { return ledger.NewPostgres(far.DSN(t, dsn), time.Now) })
				defer h.release(runtime)
				svc := h.many(runtime, 2)[1]
				err := runtime.Start(t.Context(), false)
				if !late {
					require.ErrorContains(t, err, c.want)
					return
				}
				require.NoError(t, err)
				far.Open()
				require.Eventually(t, func() bool {
					return strings.Contains(h.log.String(), `msg="the offer takes no payments" offer=o1.example`)
				}, time.Minute, time.Millisecond)
				require.Contains(t, svc.Trouble(), c.want)
				require.Equal(t, http.StatusServiceUnavailable, h.pays(svc).Code)
				require.False(t, svc.Operator.Diagnose(t.Context()).Ledger.Writable)
				received := must(svc.Operator.Received(t.Context()))(t)
				require.Contains(t, received.Trouble, c.want)
			})
		}
	}
}

// An offer that is found late to be wrong does not stop the others.
func TestBrokenOfferDoesNotStopOthers(t *testing.T) {
	h := newHouse(t)
	server := postgres.Shared(t)
	dsn, far := server.DSN(t), server.Far(t, 0)
	l := must(ledger.NewPostgres(dsn, time.Now))(t)
	require.NoError(t, l.Open(t.Context()))
	account := h.numbered(1).Accounts()[1]
	account.Offer = "elsewhere.example"
	require.NoError(t, l.Register(t.Context(), account))
	require.NoError(t, l.Close())
	far.Close()
	runtime := h.runtimeOn(h.log, func() (*ledger.Ledger, error) { return ledger.NewPostgres(far.DSN(t, dsn), time.Now) })
	defer h.release(runtime)
	all := h.many(runtime, 3)
	require.NoError(t, runtime.Start(t.Context(), false))
	far.Open()
	h.untilOpen(all[0], all[2])
	require.False(t, all[1].IsOpen())
	require.Contains(t, all[1].Trouble(), `belongs to offer "elsewhere.example"`)
	require.Equal(t, http.StatusServiceUnavailable, h.pays(all[1]).Code)
	require.Equal(t, http.StatusBadRequest, h.pays(all[2]).Code, "it is looked at")
	require.Contains(t, h.log.String(), "offer=o1.example error=")
}

// What answers neither yes nor no is not waited for, unless other offers would be replaced.
func TestStartTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := new(lockedBuffer)
		hangs := func() *Runtime {
			r := NewRuntime(Config{
				Open:   func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
				Logger: slog.New(slog.NewTextHandler(log, nil)),
			})
			t.Cleanup(r.Stop)
			return r
		}
		began := time.Now()
		require.NoError(t, hangs().Start(t.Context(), false))
		require.Equal(t, startWait, time.Since(began))
		require.Contains(t, log.String(), "the ledger or the storage is slow")

		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		require.ErrorIs(t, hangs().Start(ctx, true), context.DeadlineExceeded)
	})
}

// Where other offers would be replaced, nothing comes late.
func TestReloadFailsIfNewLedgerUnreachable(t *testing.T) {
	h := newHouse(t)
	runtime := h.runtimeOn(h.log, func() (*ledger.Ledger, error) {
		return ledger.NewPostgres("postgres://role@127.0.0.1:1/base", time.Now)
	})
	defer h.release(runtime)
	h.acquire(runtime, "one")
	require.ErrorContains(t, runtime.Start(t.Context(), true), "the server cannot be reached: connection refused")
}
