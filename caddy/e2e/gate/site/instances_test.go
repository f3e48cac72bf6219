package site

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/postgres"
)

// Two instances have one database and one storage: what happens at one is valid at the other.
func TestTwoInstancesOpenAndCloseTogether(t *testing.T) {
	database := postgres.Start(t)
	s := openShop(t, `
http://site.localhost:{PORT} {
	root {ROOT}
	pay_offer_gate {
		start {SITE}/
	}
	file_server
	handle_errors {
		file_server
	}
}
`, map[string]string{"index.html": secret}, "{LEDGER}", `postgres "`+database.DSN(t)+`"`)
	second := payoffertest.FreePort(t)
	s.start(second)

	receipt := s.sell("instances")
	v, other := s.visitor(), s.visitorAt(second)
	_, a := v.enter(receipt)
	require.Equal(t, secret, a.Body)
	v.move(second)
	require.Equal(t, secret, v.get("/").Body, "entered at the first, a pass at the second")
	_, a = other.enter(receipt)
	require.Equal(t, secret, a.Body)
	other.move(s.port)
	require.Equal(t, secret, other.get("/").Body, "entered at the second, a pass at the first")

	// Half of the way in at each: a code of one instance is used at the other, once.
	a = v.do(http.MethodGet, receipt+"/enter", "", nil)
	third := s.visitor()
	require.Equal(t, http.StatusSeeOther, third.do(http.MethodGet, a.Header.Get("Location"), "", nil).Status)
	requireTerms(t, s.visitorAt(second).do(http.MethodGet, a.Header.Get("Location"), "", nil), "a code twice")

	a = s.visitor().do(http.MethodPost, receipt+"/sign-out", "", nil)
	require.Less(t, a.Status, 400, a.Body)
	requireTerms(t, other.get("/"), "the instance of the sign-out")
	requireTerms(t, third.get("/"), "the instance of the sign-out")
	server.Eventually(t, "the sign-out closes the other instance", func() bool { return v.get("/").Status == http.StatusPaymentRequired })
	_, a = v.enter(receipt)
	require.Equal(t, secret, a.Body, "the payer can enter again")

	// Without the database, the instance that knows the browser keeps the gate open.
	unknown := s.entered("unknown")
	database.Stop(t)
	unknown.move(second)
	require.Equal(t, secret, v.get("/").Body)
	a = unknown.get("/")
	require.Equal(t, http.StatusServiceUnavailable, a.Status)
	require.NotContains(t, a.Body, secret, "no error route serves the file")
	require.NotEmpty(t, a.Header.Get("Retry-After"))
	require.Equal(t, []string{"no-store"}, a.Header.Values("Cache-Control"))
	requireTerms(t, s.visitor().get("/"), "a stranger")
	database.Start(t)
	server.Eventually(t, "the gate opens again", func() bool { return unknown.get("/").Body == secret })
}
