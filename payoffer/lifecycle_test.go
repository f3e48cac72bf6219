package payoffer

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/operator"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/postgres"
)

// While configurations change, no request gets another answer than the offer's.
// A new connection may be reset by the kernel while Caddy hands its listener
// over, with any handler; clients try that again.
func TestReloadUnderTrafficFailsNoRequest(t *testing.T) {
	for name, sites := range map[string]func(n int) string{
		"the same":    func(int) string { return smallest },
		"other gates": func(n int) string { return gated("start /part-" + strconv.Itoa(n)) },
	} {
		t.Run(name, func(t *testing.T) {
			i := newInstance(t)
			require.NoError(t, i.load(sites(0)))
			want := i.get(i.service + "/v1/quote")
			require.Equal(t, http.StatusPaymentRequired, want.status)
			var stop atomic.Bool
			var right, wrong atomic.Int64
			var clients sync.WaitGroup
			for range 4 {
				clients.Go(func() {
					for !stop.Load() {
						response, err := i.client.Get(i.service + "/v1/quote")
						if err != nil {
							continue
						}
						body, err := io.ReadAll(response.Body)
						response.Body.Close()
						if err != nil || response.StatusCode != want.status || string(body) != want.body {
							wrong.Add(1)
						} else {
							right.Add(1)
						}
					}
				})
			}
			for n := range 10 {
				before := right.Load()
				require.NoError(t, i.load(sites(n+1)))
				for right.Load() == before {
					runtime.Gosched() // every configuration answers
				}
			}
			stop.Store(true)
			clients.Wait()
			require.Zero(t, wrong.Load())
			require.NotContains(t, i.log(), "panic")
		})
	}
}

// Caddy does not wait for running requests when it replaces a configuration:
// what they use must outlast it.
func TestRequestDuringReloadIsAnswered(t *testing.T) {
	i := newInstance(t)
	require.NoError(t, i.load(smallest))
	old := activeApp().running()[0]

	require.NoError(t, i.load(strings.Replace(smallest, "checkout.example", "other.example", 1)))

	require.Contains(t, serve(t, old, "/v1/quote").Body.String(), "checkout.example")
	require.Equal(t, http.StatusOK, serve(t, old, "/v1/received").Code)
	for !strings.Contains(i.get(i.service+"/v1/quote").body, "other.example") {
		runtime.Gosched() // until the old listener is closed
	}
}

// withBitcoin is smallest with a Bitcoin rail whose rate standInRate gives.
var withBitcoin = strings.Replace(smallest, "\t\tusdc", `		bitcoin bc1q3qxu2dmlrw6sdls82tl369t02yu543z6qlp7lj {
			rates mempool
		}
		usdc`, 1)

// A reload makes new services, which share what outlives it.
func TestReloadKeepsSharedMembers(t *testing.T) {
	i := newInstance(t)
	standInRate(t)
	require.NoError(t, i.load(withBitcoin))
	before, members := activeApp(), poolMembers()

	require.NoError(t, i.load(withBitcoin+"OTHER {\n\trespond \"another site\"\n}\n"))

	require.NoError(t, awaitUnended(t.Context()))
	require.NotSame(t, before.running()[0], activeApp().running()[0])
	require.Same(t, before.runtime.Ledger, activeApp().runtime.Ledger)
	require.Equal(t, members, poolMembers())
	require.Equal(t, http.StatusOK, i.get(i.service+"/v1/pay/btc.uri").status)
	require.Equal(t, http.StatusOK, i.get(i.service+"/v1/received").status)
}

// poolMembers are the members of the pool with their numbers of references.
func poolMembers() map[any]string {
	members := make(map[any]string)
	sharedPool.Range(func(key, value any) bool {
		references, _ := sharedPool.References(key)
		members[key] = fmt.Sprintf("%p %d", value, references)
		return true
	})
	return members
}

func TestFailedReloadKeepsOldOffer(t *testing.T) {
	i := newInstance(t)
	require.NoError(t, i.load(smallest))
	app := activeApp()

	require.Error(t, i.load(smallest+"OTHER {\n\tpay_offer {\n\t\tbase_url {env.OFFER_TEST_NOTHING}\n\t\tcard https://checkout.example/pay\n\t}\n}\n"))

	require.Same(t, app, activeApp())
	require.Equal(t, http.StatusPaymentRequired, i.get(i.service+"/v1/quote").status)
	require.Equal(t, http.StatusOK, i.get(i.service+"/v1/received").status)
}

// A start that fails must not close or keep what the running configuration
// uses.
func TestFailedStartReleasesItsResources(t *testing.T) {
	i := newInstance(t)
	require.NoError(t, i.load(smallest))
	app, held := activeApp(), pooled()
	blocked := filepath.Join(i.folder, "blocked")
	require.NoError(t, os.WriteFile(blocked, nil, 0o600))
	unusable := filepath.Join(blocked, "ledger.db")

	err := loadCaddyfile(t, strings.Replace(i.caddyfile(smallest), i.ledgerPath(), unusable, 1))
	require.ErrorContains(t, err, unusable)

	require.Same(t, app, activeApp())
	require.NoError(t, awaitUnended(t.Context()))
	require.Equal(t, held, pooled())
	i.untilReceived()
}

func TestStopEndsBackgroundWork(t *testing.T) {
	i := newInstance(t)
	_, _, release := standInRate(t)
	require.NoError(t, i.load(withBitcoin))
	book := activeApp().runtime.Ledger
	for len(ourGoroutines()) == 0 {
		runtime.Gosched() // until the first of them runs
	}

	require.NoError(t, caddy.Stop())
	release()

	require.NoError(t, awaitUnended(t.Context()))
	require.Equal(t, i.held, pooled())
	require.ErrorIs(t, errorOf(book.Totals(t.Context(), "any")), ledger.ErrNotOpen)
	require.Nil(t, activeApp())
	require.Empty(t, ourGoroutines())
}

// A delivery under way at a stop is recorded, so that the next start does not repeat it.
func TestStopKeepsLedgerForDelivery(t *testing.T) {
	i, receiver := newInstance(t), payoffertest.NewReceiver(t)
	release := make(chan struct{})
	receiver.Script(payoffertest.AnnouncedReply{Hang: true, Release: release})
	announced := strings.Replace(smallest, "card https", "announce "+receiver.URL()+"\n\t\tcard https", 1)
	require.NoError(t, i.load(announced))
	i.untilReceived()
	record(t)
	activeApp().runtime.DuePoller.Poll(t.Context())
	receiver.Await(1)
	book := activeApp().runtime.Ledger

	require.NoError(t, caddy.Stop())
	soon, leave := context.WithCancel(t.Context())
	leave()
	require.Error(t, awaitUnended(soon))
	require.True(t, book.IsOpen())
	close(release)
	require.NoError(t, awaitUnended(t.Context()))
	require.False(t, book.IsOpen())

	require.NoError(t, i.load(announced))
	i.untilReceived()
	behind := must(activeApp().runtime.Ledger.Undelivered(t.Context()))(t)
	for subscriber, count := range behind {
		if strings.Contains(subscriber.Name, ":") { // the receiver; events may have been emitted to nobody
			require.Zero(t, count)
		}
	}
	require.Len(t, receiver.Requests(), 1)
}

// ourGoroutines are the stacks of goroutines that this module started in the
// background. None may be left when everything has ended.
func ourGoroutines() []string {
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	var ours []string
	for _, stack := range strings.Split(string(stacks), "\n\n") {
		_, start, _ := strings.Cut(stack, "created by ")
		if strings.Contains(stack, "caddy-pay-offer/payoffer") && !strings.Contains(stack, "testing.tRunner") && !strings.Contains(start, "testing") && !strings.Contains(start, "payoffertest") {
			ours = append(ours, stack)
		}
	}
	return ours
}

func TestValidateDoesNoIO(t *testing.T) {
	i := newInstance(t)
	config := must(adapt(t, i.caddyfile(smallest)))(t)

	require.NoError(t, caddy.Validate(decode(t, config)))

	require.NoFileExists(t, i.ledgerPath())
	require.NoDirExists(t, filepath.Dir(i.ledgerPath()))
	require.NoDirExists(t, filepath.Join(i.folder, "storage", "pay_offer"))
	require.NoError(t, awaitUnended(t.Context()))
	require.Equal(t, i.held, pooled())
}

// A configuration that is loaded and whose app has not started yet answers
// everything but what needs the ledger.
func TestOfferServedBeforeLedgerOpens(t *testing.T) {
	i := newInstance(t)
	app := i.provision(smallest)
	require.NoError(t, app.Acquire())
	svc := app.running()[0]

	require.Equal(t, http.StatusPaymentRequired, serve(t, svc, "/v1/quote").Code)
	ctx, leave := context.WithCancel(t.Context())
	leave() // a client that waits is answered later
	received := httptest.NewRecorder()
	require.True(t, svc.Server.Serve(received, httptest.NewRequestWithContext(ctx, http.MethodGet, "/v1/received", nil)))
	require.Equal(t, http.StatusServiceUnavailable, received.Code)
	require.NotEmpty(t, received.Header().Get("Retry-After"))
}

// blockedLedger is a new PostgreSQL ledger whose migrations another session holds up until it is released.
func blockedLedger(t *testing.T) (dsn string, release func()) {
	t.Helper()
	dsn = postgres.Shared(t).DSN(t)
	db := must(sql.Open("pgx", dsn+""))(t)
	t.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(1)
	must(db.Exec(`SELECT pg_advisory_lock(1885435247, hashtext(current_schema()))`))(t)
	return dsn, func() { require.NoError(t, db.Close()) }
}

// loadOn loads sites on a PostgreSQL ledger in the background, with an admin API at the address.
func (i *instance) loadOn(dsn, address, sites string) (loaded chan error) {
	i.t.Helper()
	caddyfile := strings.NewReplacer("admin off", "admin "+address, "sqlite "+i.ledgerPath(), "postgres "+dsn).Replace(i.caddyfile(sites))
	config := must(adapt(i.t, caddyfile))(i.t)
	loaded = make(chan error, 1)
	go func() { loaded <- caddy.Load([]byte(config), true) }()
	return loaded
}

func TestAdminAPIWhileLedgerOpens(t *testing.T) {
	i := newInstance(t)
	dsn, release := blockedLedger(t)
	o := &operated{i, strings.TrimPrefix(freeOrigin(t), "http://")}
	loaded := i.loadOn(dsn, o.address, books)
	for {
		got, err := i.try(http.MethodGet, "http://"+o.address+operator.PathReceived)
		if err == nil && got.status == http.StatusServiceUnavailable {
			break
		}
		runtime.Gosched() // until the admin API listens and the offers are looked at
	}
	requests := map[string][]string{
		http.MethodGet:  {operator.PathReceived, operator.PathReceipts, operator.PathMovements, operator.PathIntents, operator.PathClaims, operator.PathAnnouncements, operator.PathFeed},
		http.MethodPost: {operator.PathReceipts, operator.PathIntents, operator.PathKeys, operator.PathAnnouncements},
	}
	for method, paths := range requests {
		for _, path := range paths {
			got := o.ask(method, path, "{}")
			require.Equal(t, http.StatusServiceUnavailable, got.status, path)
			require.Contains(t, got.body, "the offers are being started: ", path)
		}
	}

	release()
	require.NoError(t, <-loaded)
	for o.ask(http.MethodGet, operator.PathReceived, "").status != http.StatusOK {
		runtime.Gosched()
	}
}

func TestReloadToNewLedgerKeepsOldOffers(t *testing.T) {
	o := newOperated(t, books)
	dsn, release := blockedLedger(t)
	loaded := o.loadOn(dsn, o.address, strings.Replace(books, "checkout.example", "other.example", 1))
	require.Equal(t, http.StatusPaymentRequired, o.get(o.service+"/v1/quote").status)
	listed := o.ask(http.MethodGet, operator.PathReceived, "")
	require.Equal(t, http.StatusOK, listed.status)
	require.Contains(t, listed.body, `"status":"partial"`)
	require.Empty(t, loaded)

	release()
	require.NoError(t, <-loaded)
	require.Equal(t, http.StatusOK, o.ask(http.MethodGet, operator.PathReceived, "").status)
}

// A server may have other sites, and a reload of theirs is none of the ledger.
func TestStartWithUnreachableLedger(t *testing.T) {
	i := newInstance(t)
	server := postgres.Shared(t)
	far := server.Far(t, 0)
	far.Close()
	o := &operated{i, strings.TrimPrefix(freeOrigin(t), "http://")}
	dsn := far.DSN(t, server.DSN(t))
	sites := books + "http://127.0.0.1:" + payoffertest.FreePort(t) + " {\n\trespond \"another site\"\n}\n"
	for range 2 {
		require.NoError(t, <-i.loadOn(dsn, o.address, sites))
		require.Equal(t, http.StatusPaymentRequired, i.get(i.service+"/v1/quote").status)
		require.Equal(t, http.StatusServiceUnavailable, i.get(i.service+"/v1/received").status)
		listed := o.ask(http.MethodGet, operator.PathReceived, "")
		require.Equal(t, http.StatusServiceUnavailable, listed.status)
		require.Contains(t, listed.body, "the offers are being started: opening the ledger on PostgreSQL: connecting: the server")
	}
	require.NotContains(t, i.log(), "the offer is open")

	far.Open()
	i.untilReceived()
	require.Equal(t, http.StatusOK, o.ask(http.MethodGet, operator.PathReceived, "").status)
	for !strings.Contains(i.log(), "the offer is open") {
		runtime.Gosched() // until its line is written
	}
	require.NotContains(t, i.log(), dsn)

	// Other offers would lose their ledger: nothing comes late then.
	far.Close()
	require.ErrorContains(t, <-i.loadOn(far.DSN(t, server.DSN(t)), o.address, sites), "connecting: the server")
	require.Equal(t, http.StatusOK, i.get(i.service+"/v1/received").status)
}

// loadOnPostgres loads the smallest offer on another ledger.
func (i *instance) loadOnPostgres(dsn string) error {
	i.t.Helper()
	return loadCaddyfile(i.t, strings.Replace(i.caddyfile(smallest), "sqlite "+i.ledgerPath(), "postgres "+dsn, 1))
}

func TestPostgresLedgerSurvivesReload(t *testing.T) {
	dsn := postgres.Shared(t).DSN(t)
	t.Setenv("OFFER_TEST_DSN", dsn)
	i := newInstance(t)
	require.NoError(t, i.loadOnPostgres("{env.OFFER_TEST_DSN}"))
	before := activeApp().runtime.Ledger
	record(t)
	require.NoError(t, i.loadOnPostgres("{env.OFFER_TEST_DSN}"))
	require.Same(t, before, activeApp().runtime.Ledger)
	require.Contains(t, i.get(i.service+"/v1/received").body, "0x01")
	require.NoFileExists(t, i.ledgerPath())

	require.NoError(t, caddy.Stop())
	require.NoError(t, awaitUnended(t.Context()))
	require.ErrorIs(t, errorOf(before.Totals(t.Context(), "any")), ledger.ErrNotOpen)
	require.NotContains(t, i.log(), dsn)
}

func TestUnreachablePostgresKeepsOldConfiguration(t *testing.T) {
	i := newInstance(t)
	require.NoError(t, i.load(smallest))
	dsn := "postgres://hiddenrole:hiddenword@127.0.0.1:1/hiddenbase"
	err := i.loadOnPostgres(dsn)
	require.ErrorContains(t, err, "the server cannot be reached: connection refused")
	require.NotContains(t, err.Error(), "hidden")
	i.untilReceived()
	log := i.log()
	require.Contains(t, log, "secrets are in the configuration")
	require.NotContains(t, log, "hiddenword")
}

func TestLedgerConfigHasPassword(t *testing.T) {
	for dsn, literal := range map[string]bool{
		"postgres://u:word@h/base":    true,
		"host=h password=word":        true,
		"postgres:///base?host=/run":  false,
		"postgres://u@h/base":         false,
		"{env.OFFER_TEST_DSN}":        false,
		"postgres://u:{env.WORD}@h/b": false,
	} {
		require.Equal(t, literal, (&LedgerConfig{Driver: driverPostgres, DSN: dsn}).hasPassword(), dsn)
	}
}
