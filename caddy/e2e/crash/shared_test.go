package crash

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/postgres"
)

// Copies of one payment, and servers that get them at the same time.
const (
	copies    = 200
	instances = 4
)

func TestCopiesOfAPaymentAreSettledOnceBySeveralServers(t *testing.T) {
	t.Parallel()
	dsn, storage := postgres.Start(t).DSN(t), t.TempDir()
	m := openMarket(t, 1, purse)
	s := &shop{market: m, payee: chain.NewAddress(t), client: &http.Client{Timeout: time.Minute}}
	defer s.client.CloseIdleConnections()
	var urls []string
	for range instances {
		port := payoffertest.FreePort(t)
		s.url = "http://localhost:" + port
		server.Start(t, s.url, m.caddyfile(port, s.payee, fmt.Sprintf("postgres %q", dsn), storage))
		require.Eventually(t, s.recovered, patience, again, "the ledger is not open")
		urls = append(urls, s.url)
	}

	p := s.payment(t, m.buyers[0])
	answers := make([]answer, copies)
	errs := make([]error, copies)
	var work sync.WaitGroup
	for i := range copies {
		work.Go(func() { answers[i], errs[i] = p.send(s.client, urls[i%instances]) })
	}
	work.Wait()
	for i := range copies {
		require.NoError(t, errs[i])
		require.Equal(t, http.StatusOK, answers[i].status, answers[i].body)
		// The body links to the server that wrote it.
		answers[i].body = strings.ReplaceAll(answers[i].body, urls[i%instances], "")
		require.Equal(t, answers[0], answers[i])
	}
	require.Len(t, m.facilitator.Calls(payoffertest.CallSettle), 1)

	book, err := ledger.NewPostgres(dsn, time.Now)
	require.NoError(t, err)
	s.audit(t, book)
}
