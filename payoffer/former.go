package payoffer

import (
	"context"
	"sync"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/evm"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// formerRails are the USDC rails that were removed from the configuration, or
// whose address was changed. Nobody is quoted to pay there, but what was sent
// before is resolved and followed all the same.
type formerRails struct {
	settings *settings
	// configured are the rails of today by chain id: who reads and settles a
	// chain now does so for its former addresses too.
	configured map[int64]configuredRail

	mu    sync.Mutex
	known map[string]formerRail
}

// configuredRail is a rail of today with its facilitators.
type configuredRail struct {
	usdcSettings
	facilitators []*x402.Facilitator
}

// formerRail is a rail of an account, or none.
type formerRail struct {
	rail     x402.Rail
	observer *evm.Observer
	found    bool
}

func newFormerRails(s *settings) *formerRails {
	return &formerRails{settings: s, configured: make(map[int64]configuredRail), known: make(map[string]formerRail)}
}

// find is the rail of an account that is not configured any more.
func (f *formerRails) find(account string) (x402.Rail, bool) {
	former := f.of(account)
	return former.rail, former.found
}

func (f *formerRails) of(account string) formerRail {
	f.mu.Lock()
	defer f.mu.Unlock()
	former, known := f.known[account]
	if !known {
		former = f.make(account)
		f.known[account] = former
	}
	return former
}

// make puts a rail together from its account. A chain that is not configured
// any more is read at its public endpoint.
func (f *formerRails) make(account string) formerRail {
	network, payTo, err := offer.ParseUSDCAccount(account)
	if err != nil {
		return formerRail{}
	}
	today, configured := f.configured[network.ChainID]
	if !configured {
		today.usdcSettings = usdcSettings{rpc: []string{network.RPC}, confirm: evm.Safe}
	}
	usdc, err := offer.NewUSDC("usdc", network, payTo, f.settings.offer.Amount)
	if err != nil {
		return formerRail{}
	}
	former := formerRail{rail: x402.Rail{USDC: usdc, Facilitators: today.facilitators}, found: true}
	if len(today.rpc) == 0 {
		return former
	}
	today.rail = usdc
	config := f.settings.chain(today.usdcSettings)
	config.FollowOnly = true // nobody is told to pay there any more
	if former.observer, err = evm.New(config); err != nil {
		return formerRail{}
	}
	former.rail.Chain = former.observer
	return former
}

// observers are those of the former accounts that the ledger remembers.
func (f *formerRails) observers(ctx context.Context, book *ledger.Ledger) []*evm.Observer {
	remembered, err := book.Accounts(ctx, f.settings.offer.ID)
	if err != nil {
		return nil // the ledger says so wherever it is needed
	}
	configured := make(map[string]bool)
	for _, rail := range f.settings.offer.USDC() {
		configured[rail.Account()] = true
	}
	var found []*evm.Observer
	for _, account := range remembered {
		if configured[account.ID] {
			continue
		}
		if former := f.of(account.ID); former.observer != nil {
			found = append(found, former.observer)
		}
	}
	return found
}
