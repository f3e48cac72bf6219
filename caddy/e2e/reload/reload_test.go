// Package reload proves that a reload of the configuration loses nothing: the built binary is reloaded through the admin API.
// Package soak reloads it every second under traffic.
package reload

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// descriptions are those of the changed configurations, in turn.
var descriptions = []string{"First words.", "Other words."}

// Right after a reload in which nothing else happens, all that was known is known.
func TestAReloadKeepsLimitsCircuitsAndHealth(t *testing.T) {
	t.Parallel()
	s := openShop(t, "")
	limited := s.exhaust()
	s.awaitHealth()
	before := s.state(limited)
	require.Equal(t, http.StatusTooManyRequests, before.limited)
	require.NotEmpty(t, before.bitcoin)
	for n := range 6 {
		s.reload(s.config(descriptions[n/3], "")) // the fourth one changes it
		require.Equal(t, before, s.state(limited), "reload %d", n+1)
	}
}

// A settlement goes on while the configuration is replaced, and the new one does not wait for it: the facilitator takes
// longer than the reload, and might take a minute.
func TestAReloadWaitsForNoSettlement(t *testing.T) {
	t.Parallel()
	s := openShop(t, "")
	var transactions []string
	for n, buyer := range s.chain.Buyers {
		release := s.hold()
		paid, payment := make(chan server.Answer, 1), s.sign(buyer)
		go func() { paid <- s.pay(server.Client, payment) }()
		s.facilitator.Await(payoffertest.CallSettle, n+1)
		loaded, err := server.Load(s.admin, s.config(descriptions[n], ""))
		release()
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, loaded.Status, loaded.Body)
		a := <-paid
		require.NotEmpty(t, transaction(a), "%d: %s", a.Status, a.Body)
		transactions = append(transactions, transaction(a))
	}
	s.requireCharged(transactions)
	require.Len(t, s.facilitator.Calls(payoffertest.CallSettle), 2)
}
