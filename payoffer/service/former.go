package service

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/bitcoin"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/evm"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/source"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// formerRails are the USDC and Bitcoin rails that were removed from the
// configuration, or whose address or key was changed. Nobody is told to pay there,
// but what was sent before is resolved and followed all the same, and so is what
// comes late to a Bitcoin address that was published once. How well they are read
// is in the log alone: the rails of today are as sure without them.
type formerRails struct {
	settings    *Settings
	parts       *parts
	instruments *Instruments
	logger      *slog.Logger
	loop        source.Loop
	// running are the accounts that are followed, and underWay counts them.
	running  map[string]bool
	underWay sync.WaitGroup
	// remembered are the accounts that the ledger knew when the offer was opened; nil once
	// they were looked at.
	remembered []ledger.Account

	mu    sync.Mutex
	known map[string]formerRail
}

// observer reads a chain for one account until its context ends.
type observer interface {
	Begin(ctx context.Context, ended func())
}

// formerRail is what is left of an account: the USDC rail, if it was found to be
// one, and who reads its chain, if anybody does.
type formerRail struct {
	rail     x402.Rail
	found    bool
	observer observer
}

func newFormerRails(s *Settings, p *parts, i *Instruments, logger *slog.Logger) *formerRails {
	f := &formerRails{settings: s, parts: p, instruments: i, logger: logger, known: make(map[string]formerRail)}
	f.loop.Round = f.follow
	return f
}

// find is the USDC rail of an account that is not configured any more.
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
// more is read at its public endpoints.
func (f *formerRails) make(account string) formerRail {
	if rail, err := offer.ParseBitcoinAccount(account, f.settings.Offer.Amount); err == nil {
		return f.bitcoin(rail)
	}
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
	config := chain(f.settings, today, f.parts.readers[network.ChainID], f.parts.ledger, f.parts.clock, f.logger)
	config.FollowOnly = true // nobody is told to pay there any more
	if config.Chain == nil {
		own := reader(today, f.parts.ledger, f.parts.clock, f.instruments, f.logger)
		config.Endpoints, config.HeadTime, config.Transport = own.Endpoints, own.HeadTime, own.Transport
	}
	observer, err := evm.New(config)
	if err != nil {
		return formerRail{}
	}
	former.observer, former.rail.Chain = observer, observer
	return former
}

// bitcoin is a former Bitcoin account, which is read in full: wallets keep
// addresses, and who pays to one that was published has paid. Without a Bitcoin rail
// there is no price: the operator states the value of what still comes.
func (f *formerRails) bitcoin(rail *offer.Bitcoin) formerRail {
	var indexes *bitcoin.Indexes
	today := Bitcoin{Esplora: bitcoin.DefaultEndpoints(rail), Confirmations: bitcoin.DefaultConfirmations}
	if configured := f.settings.Offer.Bitcoin(); configured != nil && configured.CAIP2() == rail.CAIP2() {
		today, indexes = f.settings.Bitcoin, f.parts.indexes
	}
	today.Since = 0 // it says from when on the money of today's account counts
	if len(today.Esplora) == 0 {
		return formerRail{}
	}
	logger := f.logger.With("rail", rail.Name(), "account", "a former one")
	reader, err := bitcoin.New(coins(f.settings, today, rail, f.parts.rates, indexes, f.parts.ledger, f.parts.clock, f.instruments, logger))
	if err != nil {
		return formerRail{}
	}
	return formerRail{observer: reader}
}

// observers are those of the former accounts that the ledger remembers, by account.
func (f *formerRails) observers(ctx context.Context) (map[string]observer, error) {
	remembered := f.remembered
	if f.remembered = nil; remembered == nil {
		var err error
		if remembered, err = f.parts.ledger.Accounts(ctx, f.settings.Offer.ID); err != nil {
			return nil, err
		}
	}
	configured := make(map[string]bool)
	for _, account := range f.settings.Accounts() {
		configured[account.ID] = true
	}
	found := make(map[string]observer)
	for _, account := range remembered {
		if configured[account.ID] {
			continue
		}
		if former := f.of(account.ID); former.observer != nil {
			found[account.ID] = former.observer
		}
	}
	return found, nil
}

// begin follows all of them until ctx ends, and calls ended
// when all have come to their end.
func (f *formerRails) begin(ctx context.Context, ended func()) {
	f.running = make(map[string]bool)
	f.loop.Begin(ctx, func() {
		f.underWay.Wait()
		ended()
	})
}

// formerRetry is when the ledger is asked again that could not be read.
const formerRetry = 10 * time.Second

// follow follows those that are not followed yet.
func (f *formerRails) follow(ctx context.Context) (time.Duration, error) {
	found, err := f.observers(ctx)
	if err != nil {
		return formerRetry, err // the ledger says so wherever it is needed
	}
	for account, o := range found {
		if !f.running[account] {
			f.running[account] = true
			f.underWay.Add(1)
			o.Begin(ctx, f.underWay.Done)
		}
	}
	return seldom, nil
}
