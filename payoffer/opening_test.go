package payoffer

import (
	"database/sql"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/operator"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/postgres"
)

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

func TestWhileTheLedgerOpensTheAdminAPISaysSo(t *testing.T) {
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
		http.MethodPost: {operator.PathReceipts, operator.PathIntents, operator.PathKeys},
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

func TestWhileAReloadOpensAnotherLedgerTheOffersOfBeforeAnswer(t *testing.T) {
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
func TestCaddyStartsWhileTheLedgerIsAwayAndTheOffersComeLater(t *testing.T) {
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
