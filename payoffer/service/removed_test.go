package service

import (
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/bitcoin"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/evm"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

func TestRemovedUSDCAccountsAreObserved(t *testing.T) {
	const today, before = "0x52908400098527886E0F7030069857D2E4169EE7", "0x8617E340B3D01FA5F11F306F4090FD50E238070D"
	card, err := offer.NewCard("https://checkout.example/pay", nil, 42_00)
	require.NoError(t, err)
	rail := func(network, payTo string) *offer.USDC {
		found := must(offer.LookupNetwork(network))(t)
		return must(offer.NewUSDC("usdc", found, payTo, 42_00))(t)
	}
	sepolia := rail("base-sepolia", today)
	o, err := offer.New(offer.Terms{ID: "one", BaseURL: "http://localhost", Amount: 42_00}, card, sepolia)
	require.NoError(t, err)
	settler, err := x402.NewFacilitator(x402.FacilitatorConfig{URL: "https://settles.example"})
	require.NoError(t, err)
	book := ledger.NewSQLite(filepath.Join(t.TempDir(), "ledger.db"), time.Now)
	configured := USDC{USDC: sepolia, Facilitators: []x402.FacilitatorConfig{{URL: "https://settles.example"}}, RPC: []string{"https://rpc.example"}, Confirm: evm.Latest}
	svc := &Service{
		Settings: &Settings{Offer: o, Rails: []Rail{configured}}, logger: slog.New(slog.DiscardHandler),
		Runtime: NewRuntime(Config{
			Ledger: book, Instruments: &Instruments{Transport: func(string) http.RoundTripper { return nil }},
		}),
		settlements:     []x402.Rail{{USDC: sepolia, Facilitators: []*x402.Facilitator{settler}}},
		removedAccounts: make(map[string]removedAccount),
	}

	changed := rail("base-sepolia", before).Account()
	found, ok := svc.removedRail(changed)
	require.True(t, ok)
	require.Equal(t, changed, found.USDC.Account())
	require.Equal(t, []*x402.Facilitator{settler}, found.Facilitators, "who settles the chain today repeats what is open there")
	require.NotNil(t, found.Chain)

	removed := rail("base", before).Account()
	found, ok = svc.removedRail(removed)
	require.True(t, ok, "a chain that was removed is read at its public endpoint")
	require.Empty(t, found.Facilitators)
	require.NotNil(t, found.Chain)

	_, ok = svc.removedRail("bip122:000000000019d6689c085ae165831e93/1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa")
	require.False(t, ok)

	require.NoError(t, book.Open(t.Context()))
	defer book.Close()
	for _, account := range []string{sepolia.Account(), changed, removed} {
		require.NoError(t, book.Register(t.Context(), ledger.Account{Offer: o.ID, ID: account, Rail: "usdc"}))
	}
	require.NoError(t, book.Register(t.Context(), ledger.Account{Offer: "two", ID: rail("celo", before).Account(), Rail: "usdc"}))
	require.ElementsMatch(t, []string{changed, removed}, watched(t, svc), "those of this offer that are not configured")
}

// watched are the accounts whose observers run.
func watched(t *testing.T, svc *Service) []string {
	t.Helper()
	return slices.Collect(maps.Keys(must(svc.removedObservers(t.Context()))(t)))
}

// refusing is a transport that notes the hosts that were asked, and answers nothing.
type refusing struct {
	mu    sync.Mutex // endpoints are asked at the same time
	hosts map[string]bool
}

func (r *refusing) RoundTrip(request *http.Request) (*http.Response, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hosts[request.URL.Host] = true
	return nil, errors.New("nobody answers")
}

// A Bitcoin key or address that was replaced, and one whose line was removed, is
// read on, by who reads its network today or else by the public endpoints.
func TestRemovedBitcoinAccountsAreObserved(t *testing.T) {
	const single, test = "bc1q3qxu2dmlrw6sdls82tl369t02yu543z6qlp7lj", "tb1q6rz28mcfaxtmd6v789l9rrlrusdprr9pqcpvkl"
	const public = "mempool.space"
	for name, c := range map[string]struct {
		today   string // none where the line was removed
		esplora []string
		former  string
		asked   string // nobody is
	}{
		"a key became an address":      {single, []string{"https://esplora.example"}, zpub, "esplora.example"},
		"an address became a key":      {zpub, []string{"https://esplora.example"}, single, "esplora.example"},
		"the network is another today": {test, []string{"https://esplora.example"}, single, public},
		"the line was removed":         {"", nil, zpub, public},
		"the reading was turned off":   {single, nil, zpub, ""},
	} {
		t.Run(name, func(t *testing.T) {
			card, err := offer.NewCard("https://checkout.example/pay", nil, 42_00)
			require.NoError(t, err)
			var rails []offer.Rail
			if c.today != "" {
				rail := must(offer.NewBitcoin(c.today, "", 42_00))(t)
				rails = append(rails, rail)
			}
			o, err := offer.New(offer.Terms{ID: "one", BaseURL: "http://localhost", Amount: 42_00}, card, rails...)
			require.NoError(t, err)
			book := ledger.NewSQLite(filepath.Join(t.TempDir(), "ledger.db"), time.Now)
			asked := &refusing{hosts: make(map[string]bool)}
			settings := &Settings{Offer: o}
			if b := o.Bitcoin(); b != nil {
				settings.Rails = []Rail{Bitcoin{Bitcoin: b, Esplora: c.esplora, Confirmations: 2, Since: 1}}
			}
			svc := &Service{
				Settings: settings, logger: slog.New(slog.DiscardHandler), removedAccounts: make(map[string]removedAccount),
				Runtime: NewRuntime(Config{
					Ledger: book, Instruments: &Instruments{Transport: func(string) http.RoundTripper { return asked }},
				}),
			}

			require.NoError(t, book.Open(t.Context()))
			defer book.Close()
			account := "bip122:000000000019d6689c085ae165831e93/" + c.former
			require.NoError(t, book.Register(t.Context(), append(settings.Accounts(), ledger.Account{Offer: o.ID, ID: account, Rail: "btc", Since: 1})...))
			require.NoError(t, book.Register(t.Context(), ledger.Account{Offer: "two", ID: "bip122:000000000019d6689c085ae165831e93/1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa", Rail: "btc"}))
			_, usdc := svc.removedRail(account)
			require.False(t, usdc)
			if c.asked == "" {
				require.Empty(t, watched(t, svc))
				return
			}
			require.Equal(t, []string{account}, watched(t, svc), "of this offer alone, and of what is not configured")
			require.Error(t, svc.removed(account).observer.(*bitcoin.Observer).Poll(t.Context()))
			require.True(t, asked.hosts[c.asked], asked.hosts)
		})
	}
}
