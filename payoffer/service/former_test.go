package service

import (
	"log/slog"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/clock"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/evm"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/pool"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

func TestFormerAccountsAreStillWatched(t *testing.T) {
	const today, before = "0x52908400098527886E0F7030069857D2E4169EE7", "0x8617E340B3D01FA5F11F306F4090FD50E238070D"
	card, err := offer.NewCard("https://checkout.example/pay", nil, 42_00)
	require.NoError(t, err)
	rail := func(network, payTo string) *offer.USDC {
		found, err := offer.LookupNetwork(network)
		require.NoError(t, err)
		usdc, err := offer.NewUSDC("usdc", found, payTo, 42_00)
		require.NoError(t, err)
		return usdc
	}
	sepolia := rail("base-sepolia", today)
	o, err := offer.New(offer.Terms{ID: "one", BaseURL: "http://localhost", Amount: 42_00}, card, sepolia)
	require.NoError(t, err)
	settler, err := x402.NewFacilitator(x402.FacilitatorConfig{URL: "https://settles.example"})
	require.NoError(t, err)
	book := ledger.NewSQLite(filepath.Join(t.TempDir(), "ledger.db"), time.Now)
	usdc := USDC{Rail: sepolia, Facilitators: []x402.FacilitatorConfig{{URL: "https://settles.example"}}, RPC: []string{"https://rpc.example"}, Confirm: evm.Latest}
	former := &formerRails{
		settings:    &Settings{Offer: o, USDC: []USDC{usdc}},
		parts:       &parts{ledger: book, clock: clock.New(time.Now, slog.New(slog.DiscardHandler)), facilitators: map[pool.Key]*x402.Facilitator{facilitatorKey(usdc.Facilitators[0]): settler}},
		instruments: &Instruments{Transport: func(string) http.RoundTripper { return nil }},
		logger:      slog.New(slog.DiscardHandler), known: make(map[string]formerRail),
	}

	changed := rail("base-sepolia", before).Account()
	found, ok := former.find(changed)
	require.True(t, ok)
	require.Equal(t, changed, found.USDC.Account())
	require.Equal(t, []*x402.Facilitator{settler}, found.Facilitators, "who settles the chain today repeats what is open there")
	require.NotNil(t, found.Chain)

	removed := rail("base", before).Account()
	found, ok = former.find(removed)
	require.True(t, ok, "a chain that was removed is read at its public endpoint")
	require.Empty(t, found.Facilitators)
	require.NotNil(t, found.Chain)

	_, ok = former.find("bip122:000000000019d6689c085ae165831e93/1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa")
	require.False(t, ok)

	require.NoError(t, book.Open(t.Context()))
	defer book.Close()
	for _, account := range []string{sepolia.Account(), changed, removed} {
		require.NoError(t, book.Register(t.Context(), ledger.Account{Offer: o.ID, ID: account, Rail: "usdc"}))
	}
	require.NoError(t, book.Register(t.Context(), ledger.Account{Offer: "two", ID: rail("celo", before).Account(), Rail: "usdc"}))
	require.Len(t, former.observers(t.Context()), 2, "those of this offer that are not configured")
}
