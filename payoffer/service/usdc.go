package service

import (
	"context"
	"crypto/rand"
	"log/slog"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe/evm"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/pool"
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

func (u USDC) observe(a *acquisition) observer {
	for _, f := range u.Facilitators {
		a.facilitators[facilitatorKey(f)] = use(a, facilitatorKey(f), func(e *environment) (*x402.Facilitator, error) {
			f.Transport, f.Now, f.Logger = a.transport("facilitator"), time.Now, newLogger(e)
			return x402.NewFacilitator(f)
		})
	}
	if len(u.RPC) == 0 {
		return constant{Rail: u.Name(), Source: "facilitator", Blind: true}
	}
	network := u.Network
	reader := use(a, pool.KeyOf("chain", a.ledgerKey, network.CAIP2(), u.RPC), func(e *environment) (*evm.Chain, error) {
		return evm.NewChain(u.reader(&a.Common, newLogger(e)))
	})
	a.readers[network.ChainID] = reader
	return use(a, a.railKey(u, network.CAIP2(), u.RPC, u.Confirm, u.FromBlock, a.settings.OwnPayers), func(e *environment) (*evm.Observer, error) {
		return evm.New(u.observer(a.settings, &a.Common, reader, newLogger(e).With("offer", a.settings.Offer.ID)))
	})
}

// reader configures the reader of the chain, which all offers with these endpoints share.
func (u USDC) reader(c *Common, logger *slog.Logger) evm.ChainConfig {
	return evm.ChainConfig{
		Network: u.Network, Endpoints: u.RPC, Ledger: c.Ledger, Transport: c.transport("rpc"),
		Now: time.Now, Logger: logger.With("network", u.Network.CAIP2()),
	}
}

// observer configures an observer. Without a reader it reads the chain itself.
func (u USDC) observer(s *Settings, c *Common, reader *evm.Chain, logger *slog.Logger) evm.Config {
	return evm.Config{
		OfferID: s.Offer.ID, USDC: u.USDC, Chain: reader, Endpoints: u.RPC, Transport: c.transport("rpc"),
		Confirm: u.Confirm, FromBlock: u.FromBlock, Own: s.own, ClockOffset: c.Clock.Offset, Ledger: c.Ledger, Now: time.Now, Logger: logger,
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
func facilitatorKey(c x402.FacilitatorConfig) pool.Key {
	return pool.KeyOf("facilitator", c.URL, c.KeyID, c.KeySecret, c.Header, c.HeaderValue, c.Timeout)
}

// removedUSDC follows payments that were sent before the account was removed. The
// configured rail of the chain provides the facilitators and endpoints; the endpoint of
// a chain without a rail is its public one.
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
		config := u.observer(r.settings, &r.Common, r.readers[network.ChainID], r.logger)
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
		Hold: d.hold, RemovedRail: removed.settlement, Own: s.own, Signer: d.keys, ClockWrong: d.Clock.Wrong, ResolveEvery: fallbackEvery, Now: time.Now, Logger: logger,
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
func (p countedPayments) Pay(ctx context.Context, a x402.Attempt) (outcome x402.Outcome) {
	if p.svc.started(ctx) {
		outcome = p.Service.Pay(ctx, a)
	} else {
		outcome = p.NotReady(a, startRetry)
	}
	p.svc.Instruments.Attempt(p.svc.Offer.ID, outcome.Status)
	return outcome
}
