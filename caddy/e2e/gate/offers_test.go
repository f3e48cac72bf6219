package gate

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
)

// Two gates of one offer: one payment opens both, each for its own time.
func TestGatesHaveOwnAccessTimes(t *testing.T) {
	t.Parallel()
	s := openStore(t, `
http://site.localhost:{PORT} {
	pay_offer_gate /day/* {
		start /day/
		access 24h
	}
	pay_offer_gate /year/* {
		start /year/here
		access 8760h
	}
	respond "{http.pay_offer.expires} `+secret+`"
}
`, nil)
	v := s.visitor()
	day, year := v.get("/day/x"), v.get("/year/x?y=1")
	requireTerms(t, day, "/day/x")
	requireTerms(t, year, "/year/x")
	require.Equal(t, s.site+"/year/x?y=1", v.wayBack(year, "gates"))
	expires := func(target string) time.Time {
		t.Helper()
		text, _, _ := strings.Cut(v.get(target).Body, " ")
		at := lab.Must(time.Parse(time.RFC3339, text))(t)
		return at
	}
	require.Equal(t, 364*24*time.Hour, expires("/year/x").Sub(expires("/day/y")))
	address, _ := s.visitor().enter(s.sell("nowhere"))
	require.Equal(t, s.site+"/day/", address, "without a wanted address a payer arrives at the first start")
	require.Equal(t, s.site+"/day/x", s.visitor().wayBack(day, "another"))

	// A payment of two days ago opens only the second gate.
	event := strings.Replace(server.CardEvent("checkout.session.completed", "old", server.Checkout("old", "paid", price)),
		`"created":`, `"created":`+strconv.FormatInt(time.Now().Add(-48*time.Hour).Unix(), 10)+`,"was":`, 1)
	old := s.visitor()
	old.enter(s.sellTo(s.base, "old", event, server.CardHeader(event, cardSecret)))
	require.Contains(t, old.get("/year/x").Body, secret)
	requireTerms(t, old.get("/day/x"), "the day is over")
}
