package attack

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// wrong is by how much the clock of a shop is wrong.
const wrong = time.Hour

// The shop's clock is an hour behind, as its chain says by every endpoint. Buyers with the right time are not told that theirs is
// wrong: they come again when it has been set.
func TestAShopWhoseClockIsBehindRefusesNobodyForIt(t *testing.T) {
	t.Parallel()
	m := openMarket(t, chain.BaseSepolia, 1)
	m.chain.Pause()
	m.chain.Elapse(t, wrong)
	endpoint := m.proxy(m.chain.URL, func(http.ResponseWriter, *http.Request, []byte) bool { return false })
	rpc := m.chain.URL + " " + strings.Replace(endpoint, "127.0.0.1", "localhost", 1)
	s := openShop(m, m.payee(), unlimited, rail{"base-sepolia", rpc, []string{m.till().URL()}})
	buyer := s.buyer()
	s.requireNoRefusalForTime(s.sign(buyer, func(a *chain.Authorization) { a.ValidBefore += int64(wrong.Seconds()) }))
	s.requireNoRefusalForTime(s.sign(buyer, func(a *chain.Authorization) {
		a.ValidAfter = time.Now().Add(wrong - 10*time.Minute).Unix()
		a.ValidBefore = time.Now().Add(wrong + 5*time.Minute).Unix()
	}))
}

// The shop's clock is an hour ahead, as the answers of two facilitators say.
func TestAShopWhoseClockIsAheadRefusesNobodyForIt(t *testing.T) {
	t.Parallel()
	m := openMarket(t, chain.BaseSepolia, 1)
	var facilitators []string
	for _, host := range []string{"127.0.0.1", "localhost"} {
		facilitator := payoffertest.NewFacilitator(t)
		late := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Date", time.Now().Add(-wrong).UTC().Format(http.TimeFormat))
			facilitator.ServeHTTP(w, r)
		}))
		t.Cleanup(late.Close)
		facilitators = append(facilitators, strings.Replace(late.URL, "127.0.0.1", host, 1))
	}
	s := openShop(m, m.payee(), unlimited, rail{"base-sepolia", "off", facilitators})
	s.requireNoRefusalForTime(s.sign(s.buyer(), func(a *chain.Authorization) { a.ValidBefore -= int64(wrong.Seconds()) }))
}

// requireNoRefusalForTime requires that a payment is to be sent again later, as soon as the shop has learned the time.
func (s *shop) requireNoRefusalForTime(p payment) {
	s.Helper()
	s.eventually("the shop knows that its clock is wrong", func() bool { return s.pay(p).status == http.StatusServiceUnavailable })
	for range 3 {
		a := s.pay(p)
		require.NoError(s, a.err)
		require.Equal(s, http.StatusServiceUnavailable, a.status, a.text)
		require.True(s, a.again, a.text)
	}
}
