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

func (u USDC) observe(svc *Service) (observer, error) {
	svc.settlements = append(svc.settlements, x402.Rail{USDC: u.USDC})
	rail := &svc.settlements[len(svc.settlements)-1]
	for _, f := range u.Facilitators {
		key := KeyOf("facilitator", f.URL, f.KeyID, f.KeySecret, f.Header, f.HeaderValue, f.Timeout)
		f.Transport, f.Now, f.Logger = svc.Instruments.Transport("facilitator"), time.Now, svc.Logger
		made, err := x402.NewFacilitator(f)
		if err != nil {
			return nil, err
		}
		rail.Facilitators = append(rail.Facilitators, share(svc.Runtime, key, made))
	}
	if len(u.RPC) == 0 {
		return constantHealth{Rail: u.Name(), Source: "facilitator", Blind: true}, nil
	}
	made, err := evm.NewChain(u.reader(svc, svc.Logger.With("network", u.Network.CAIP2())))
	if err != nil {
		return nil, err
	}
	reader := share(svc.Runtime, KeyOf("chain", svc.LedgerKey, u.Network.CAIP2(), u.RPC), made)
	svc.readers[u.Network.ChainID], svc.chains[reader] = reader, true
	o, err := evm.New(u.observer(svc))
	rail.Chain = o
	return o, err
}

// reader configures the reader of the chain, which all offers with these endpoints share.
func (u USDC) reader(svc *Service, logger *slog.Logger) evm.ChainConfig {
	return evm.ChainConfig{
		Network: u.Network, Endpoints: u.RPC, Ledger: svc.Ledger, Transport: svc.Instruments.Transport("rpc"), Logger: logger,
	}
}

// observer configures an observer. Without a configured reader of the chain it reads the chain itself.
func (u USDC) observer(svc *Service) evm.Config {
	return evm.Config{
		ChainConfig: u.reader(svc, svc.logger), OfferID: svc.Offer.ID, USDC: u.USDC, Chain: svc.readers[u.Network.ChainID],
		Confirm: u.Confirm, FromBlock: u.FromBlock, Own: svc.isOwn, ClockOffset: svc.clockCorrection,
	}
}

// removedUSDC makes a follow-only observer of a removed account, with the facilitators and endpoints configured for its chain,
// or the public endpoints.
func removedUSDC(svc *Service, account string) (found removedAccount, ok bool) {
	network, payTo, err := offer.ParseUSDCAccount(account)
	if err != nil {
		return found, false
	}
	u, rail := USDC{RPC: []string{network.RPC}, Confirm: evm.Safe}, new(x402.Rail)
	for n, configured := range RailsOf[USDC](svc.Settings) {
		if configured.Network.ChainID == network.ChainID {
			u, rail.Facilitators = configured, svc.settlements[n].Facilitators
			break
		}
	}
	if u.USDC, err = offer.NewUSDC("usdc", network, payTo, svc.Offer.Amount); err != nil {
		return found, true
	}
	rail.USDC = u.USDC
	if len(u.RPC) > 0 {
		config := u.observer(svc)
		config.FollowOnly = true
		chain, err := evm.New(config)
		if err != nil {
			return found, true
		}
		found.observer, rail.Chain = chain, chain
	}
	found.settlement = rail
	return found, true
}

// newPayments makes the x402 service of the offer. It also resolves the open payments of removed accounts.
func (s *Service) newPayments() (*x402.Service, error) {
	return x402.New(x402.Config{
		Offer: s.Offer, Rails: s.settlements, Ledger: s.Ledger, Limiter: s.limiter, Owner: rand.Text(), Hold: s.Hold,
		RemovedRail: s.removedRail, Own: s.isOwn, Signer: s.keys, ResolveEvery: fallbackEvery, Now: time.Now, Logger: s.logger,
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
