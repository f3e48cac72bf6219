package service

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/announce"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/cases"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/postgres"
	"github.com/payoffer/caddy-pay-offer/payoffer/pool"
)

// numbered is one of many offers, each with accounts and receivers of its own.
func (h *house) numbered(n int) *Settings {
	h.t.Helper()
	id := fmt.Sprintf("o%d.example", n)
	card, err := offer.NewCard("https://checkout.example/pay", nil, 42_00)
	require.NoError(h.t, err)
	card.PaymentLink = fmt.Sprintf("plink_%d", n)
	network := must(offer.LookupNetwork("base-sepolia"))(h.t)
	usdc := must(offer.NewUSDC("usdc", network, fmt.Sprintf("0x%040d", n+1), 42_00))(h.t)
	o, err := offer.New(offer.Terms{
		ID: id, BaseURL: "https://" + id, SiteURL: "https://example", Name: "An offer", Operator: "An operator",
		Description: "one of many", Account: "pay", SourceURL: "https://example/source", Amount: 42_00, Updated: "2026-11-21",
	}, card, usdc)
	require.NoError(h.t, err)
	s := h.settings("one of many")
	s.Key, s.Offer, s.KeysPath = pool.KeyOf("numbered", n), o, "pay_offer/signing/"+id+".json"
	s.Rails = []Rail{Card{Card: card, WebhookSecret: "whsec_0123456789abcdef"}, USDC{USDC: usdc, Facilitators: RailsOf[USDC](s)[0].Facilitators}}
	s.Announce = []announce.Endpoint{announce.Webhook{URL: fmt.Sprintf("%s/%d", h.down, n)}}
	return s
}

// many puts numbered offers to work.
func (h *house) many(runtime *Runtime, offers int) (all []*Service) {
	h.t.Helper()
	for n := range offers {
		all = append(all, h.acquireWith(runtime, h.numbered(n)))
	}
	return all
}

// The number of ledger queries of a start does not depend on the number of offers.
func TestAStartAsksTheLedgerAsOftenForAnyNumberOfOffers(t *testing.T) {
	server := postgres.Shared(t)
	var first, again []int64
	for _, offers := range []int{1, 10, cases.Of(40, 200, 200)} {
		h, far := newHouse(t), server.Far(t, 0)
		dsn := far.DSN(t, server.DSN(t))
		start := func() int64 {
			runtime := h.runtimeOn(new(lockedBuffer), func() (*ledger.Ledger, error) { return ledger.NewPostgres(dsn, time.Now) })
			defer h.release(runtime)
			all := h.many(runtime, offers)
			runtime.Attach()
			require.NoError(t, runtime.Ledger.Open(t.Context()))
			before := far.Trips() // the number of queries of a migration varies
			s := &startup{runtime: runtime, offers: all, closed: all, logger: all[0].logger}
			require.NoError(t, s.open(t.Context()))
			s.warnForgotten(t.Context())
			runtime.Pulse.Poll(t.Context())
			return far.Trips() - before
		}
		first, again = append(first, start()), append(again, start())
	}
	t.Log("new offers:", first, "known offers:", again)
	require.Equal(t, []int64{first[0], first[0], first[0]}, first)
	require.Equal(t, []int64{again[0], again[0], again[0]}, again)
}

// A thousand offers on a server that is far away start as one does.
func TestManyOffersOnALedgerFarAwayArePayable(t *testing.T) {
	h := newHouse(t)
	server := postgres.Shared(t)
	far := server.Far(t, 15*time.Millisecond)
	dsn := far.DSN(t, server.DSN(t))
	runtime := h.runtimeOn(h.log, func() (*ledger.Ledger, error) { return ledger.NewPostgres(dsn, time.Now) })
	defer h.release(runtime)
	all := h.many(runtime, 100)
	require.NoError(t, h.start(runtime, false, all...))
	h.untilOpen(all...)
	for _, svc := range all {
		require.Equal(t, http.StatusBadRequest, h.pays(svc).Code)
	}
}
