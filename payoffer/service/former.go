package service

import (
	"context"
	"log/slog"
	"slices"
	"sync"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe/evm"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// formerRails are the USDC rails that were removed from the configuration, or
// whose address was changed. Nobody is quoted to pay there, but what was sent
// before is resolved and followed all the same.
type formerRails struct {
	settings    *Settings
	parts       *parts
	instruments *Instruments
	logger      *slog.Logger

	mu    sync.Mutex
	known map[string]formerRail
}

// formerRail is a rail of an account, or none.
type formerRail struct {
	rail     x402.Rail
	observer *evm.Observer
	found    bool
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

// make puts a rail together from its account. Who reads and settles its chain
// today does so for the former address too; a chain that is not configured any
// more is read at its public endpoint.
func (f *formerRails) make(account string) formerRail {
	network, payTo, err := offer.ParseUSDCAccount(account)
	if err != nil {
		return formerRail{}
	}
	today := USDC{RPC: []string{network.RPC}, Confirm: evm.Safe}
	if i := slices.IndexFunc(f.settings.USDC, func(u USDC) bool { return u.Rail.Network.ChainID == network.ChainID }); i >= 0 {
		today = f.settings.USDC[i]
	}
	if today.Rail, err = offer.NewUSDC("usdc", network, payTo, f.settings.Offer.Amount); err != nil {
		return formerRail{}
	}
	former := formerRail{rail: x402.Rail{USDC: today.Rail, Facilitators: f.parts.facilitatorsOf(today)}, found: true}
	if len(today.RPC) == 0 {
		return former
	}
	config := chain(f.settings, today, f.parts.ledger, f.parts.clock, f.instruments, f.logger)
	config.FollowOnly = true // nobody is told to pay there any more
	if former.observer, err = evm.New(config); err != nil {
		return formerRail{}
	}
	former.rail.Chain = former.observer
	return former
}

// observers are those of the former accounts that the ledger remembers.
func (f *formerRails) observers(ctx context.Context) []*evm.Observer {
	remembered, err := f.parts.ledger.Accounts(ctx, f.settings.Offer.ID)
	if err != nil {
		return nil // the ledger says so wherever it is needed
	}
	configured := make(map[string]bool)
	for _, account := range f.settings.Accounts() {
		configured[account.ID] = true
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
