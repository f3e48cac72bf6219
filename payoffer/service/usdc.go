package service

import (
	"context"
	"crypto/rand"
	"log/slog"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe/evm"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// USDC says how a USDC rail is settled and observed.
type USDC struct {
	*offer.USDC
	Facilitators []x402.FacilitatorConfig
	// RPC are the JSON-RPC endpoints; empty if the chain is not read.
	RPC       []string
	Confirm   evm.Level
	FromBlock uint64
}

func init() { removedRails = append(removedRails, removedUSDC) }

func (u USDC) warn(logger *slog.Logger) {
	if len(u.RPC) == 0 && !u.Network.Test {
		logger.Warn("rpc is off on a main network", "network", u.Network.Name,
			"hint", "settlements stay claims of the facilitator and are not counted; remove 'rpc off'")
	}
}

func (u USDC) observe(s *Settings, d *dependencies) (observer, error) {
	for _, f := range u.Facilitators {
		f.Transport, f.Now, f.Logger = d.Instruments.Transport("facilitator"), time.Now, d.Logger
		made, err := x402.NewFacilitator(f)
		if err != nil {
			return nil, err
		}
		d.facilitators[facilitatorKey(f)] = share(d.Runtime, facilitatorKey(f), made)
	}
	if len(u.RPC) == 0 {
		return constantHealth{Rail: u.Name(), Source: "facilitator", Blind: true}, nil
	}
	made, err := evm.NewChain(u.reader(d, d.Logger))
	if err != nil {
		return nil, err
	}
	reader := share(d.Runtime, KeyOf("chain", d.LedgerKey, u.Network.CAIP2(), u.RPC), made)
	d.readers[u.Network.ChainID], d.chains[reader] = reader, true
	return evm.New(u.observer(s, d, d.Logger.With("offer", s.Offer.ID)))
}

// reader configures the reader of the chain, which all offers with these endpoints share.
func (u USDC) reader(d *dependencies, logger *slog.Logger) evm.ChainConfig {
	return evm.ChainConfig{
		Network: u.Network, Endpoints: u.RPC, Ledger: d.Ledger, Transport: d.Instruments.Transport("rpc"),
		Now: time.Now, Logger: logger.With("network", u.Network.CAIP2()),
	}
}

// observer configures an observer. Without a configured reader of the chain it reads the chain itself.
func (u USDC) observer(s *Settings, d *dependencies, logger *slog.Logger) evm.Config {
	own := u.reader(d, logger)
	own.Logger = logger
	return evm.Config{
		ChainConfig: own, OfferID: s.Offer.ID, USDC: u.USDC, Chain: d.readers[u.Network.ChainID],
		Confirm: u.Confirm, FromBlock: u.FromBlock, Own: s.isOwn, ClockOffset: d.clockCorrection,
	}
}

// settlement is the rail for package x402, with its facilitators in their order.
func (u USDC) settlement(d *dependencies) x402.Rail {
	rail := x402.Rail{USDC: u.USDC}
	for _, f := range u.Facilitators {
		rail.Facilitators = append(rail.Facilitators, d.facilitators[facilitatorKey(f)])
	}
	if chain, ok := d.observers[u.Name()].(*evm.Observer); ok {
		rail.Chain = chain
	}
	return rail
}

// facilitatorKey is equal for facilitators with equal settings, whatever the offer: they
// share one state of health.
func facilitatorKey(c x402.FacilitatorConfig) string {
	return KeyOf("facilitator", c.URL, c.KeyID, c.KeySecret, c.Header, c.HeaderValue, c.Timeout)
}

// removedUSDC makes a follow-only observer of a removed account, with the facilitators and
// endpoints configured for its chain, or the public endpoints.
func removedUSDC(r *removedAccounts, account string) (found removedAccount, ok bool) {
	network, payTo, err := offer.ParseUSDCAccount(account)
	if err != nil {
		return found, false
	}
	u := USDC{RPC: []string{network.RPC}, Confirm: evm.Safe}
	for _, configured := range RailsOf[USDC](r.settings) {
		if configured.Network.ChainID == network.ChainID {
			u = configured
			break
		}
	}
	if u.USDC, err = offer.NewUSDC("usdc", network, payTo, r.settings.Offer.Amount); err != nil {
		return found, true
	}
	rail := u.settlement(r.dependencies)
	rail.Chain = nil // the observer of the configured account
	if len(u.RPC) > 0 {
		config := u.observer(r.settings, r.dependencies, r.logger)
		config.FollowOnly = true
		chain, err := evm.New(config)
		if err != nil {
			return found, true
		}
		found.observer, rail.Chain = chain, chain
	}
	found.settlement = &rail
	return found, true
}

// newPayments makes the x402 service of an offer. It also resolves the open payments of
// removed accounts.
func newPayments(s *Settings, d *dependencies, removed *removedAccounts, logger *slog.Logger) (*x402.Service, error) {
	var rails []x402.Rail
	for _, u := range RailsOf[USDC](s) {
		rails = append(rails, u.settlement(d))
	}
	return x402.New(x402.Config{
		Offer: s.Offer, Rails: rails, Ledger: d.Ledger, Limiter: d.limiter, Owner: rand.Text(),
		Hold: d.Hold, RemovedRail: removed.settlement, Own: s.isOwn, Signer: d.keys, ResolveEvery: fallbackEvery, Now: time.Now, Logger: logger,
	})
}

// startRetry is the Retry-After of a payment during start-up.
const startRetry = 2 * time.Second

// countedPayments counts the outcomes of attempts to pay. During start-up it takes no
// payment, because a repeated request must get the same answer and the address of the
// receipt is not known yet.
type countedPayments struct {
	*x402.Service
	svc *Service
}

// Pay implements web.Payments.
func (c countedPayments) Pay(ctx context.Context, a x402.Attempt) (outcome x402.Outcome) {
	if c.svc.waitStarted(ctx) {
		outcome = c.Service.Pay(ctx, a)
	} else {
		outcome = c.NotReady(a, startRetry)
	}
	c.svc.Instruments.Attempt(c.svc.Offer.ID, outcome.Status)
	return outcome
}
