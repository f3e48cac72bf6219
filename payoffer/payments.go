package payoffer

import (
	"context"
	"crypto/rand"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/agent"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/evm"
	"github.com/payoffer/caddy-pay-offer/payoffer/web"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// payments takes the x402 payments of one offer and observes their chains.
type payments interface {
	web.Payments
	agent.Payments
	// Run resolves what was left open and follows the chains until ctx ends.
	Run(ctx context.Context)
	// Refresh signs the quote again.
	Refresh()
	// Wait waits for settlements under way.
	Wait(ctx context.Context) error
	// Health says how well each rail is observed. It never blocks.
	Health() []observe.Health
	// Facilitators says how those are that settle. It never blocks.
	Facilitators() []x402.FacilitatorHealth
}

// settlement is the payments of the USDC rails.
type settlement struct {
	*x402.Service
	*formerRails
	chains []*evm.Observer
	claims []observe.Health // rails whose chain is not read
	ledger *ledger.Ledger
	logger *slog.Logger
}

// newPayments puts facilitators and chains to the USDC rails. It calls nobody.
func newPayments(s *settings, book *ledger.Ledger, signer x402.Signer, logger *slog.Logger) (payments, error) {
	p := &settlement{ledger: book, logger: logger}
	p.formerRails = newFormerRails(s)
	var rails []x402.Rail
	made := make(facilitatorPool)
	for _, u := range s.usdc {
		rail, chain, err := made.rail(s, u)
		if err != nil {
			return nil, err
		}
		if chain == nil {
			p.claims = append(p.claims, observe.Health{Rail: u.rail.Name(), Source: "facilitator", Blind: true})
		} else {
			p.chains = append(p.chains, chain)
		}
		rails = append(rails, rail)
		p.configured[u.rail.Network.ChainID] = configuredRail{u, rail.Facilitators}
	}
	var err error
	p.Service, err = x402.New(x402.Config{
		Offer: s.offer, Rails: rails, Ledger: book, Limit: s.limit, Owner: rand.Text(),
		Former: p.find, Own: s.own, Signer: signer, Now: time.Now, Logger: logger,
	})
	return p, err
}

// facilitatorPool makes one facilitator of one that is written at several
// rails: what fails on one chain is not asked on another.
type facilitatorPool map[facilitatorKey]*x402.Facilitator

// facilitatorKey is equal for facilitators that are configured alike.
type facilitatorKey struct {
	url, keyID, keySecret string
	timeout               time.Duration
}

// rail puts a rail's facilitators and chain together. The observer is nil where
// the chain is not read.
func (made facilitatorPool) rail(s *settings, u usdcSettings) (x402.Rail, *evm.Observer, error) {
	rail := x402.Rail{USDC: u.rail}
	for _, c := range u.facilitators {
		key := facilitatorKey{c.URL, c.KeyID, c.KeySecret, c.Timeout}
		if made[key] == nil {
			var err error
			c.Transport = meteredTransport("facilitator")
			if made[key], err = x402.NewFacilitator(c); err != nil {
				return rail, nil, err
			}
		}
		rail.Facilitators = append(rail.Facilitators, made[key])
	}
	if len(u.rpc) == 0 {
		return rail, nil, nil
	}
	chain, err := evm.New(s.chain(u))
	if err != nil {
		return rail, nil, err
	}
	rail.Chain = chain
	return rail, chain, nil
}

// chain says how a USDC rail is observed.
func (s *settings) chain(u usdcSettings) evm.Config {
	return evm.Config{
		OfferID: s.offer.ID, USDC: u.rail, Endpoints: u.rpc, Confirm: u.confirm, FromBlock: u.fromBlock, Own: s.own,
		Transport: meteredTransport("rpc"), Now: time.Now,
	}
}

// own reports whether an EVM address is one of the operator's own.
func (s *settings) own(address string) bool {
	return slices.ContainsFunc(s.ownPayers, func(own string) bool { return strings.EqualFold(own, address) })
}

// Run resolves open payments and follows the receipts of each chain, also those
// of accounts that were removed from the configuration.
func (p *settlement) Run(ctx context.Context) {
	var work sync.WaitGroup
	for _, chain := range append(slices.Clone(p.chains), p.observers(ctx, p.ledger)...) {
		work.Go(func() { chain.Watch(ctx, p.ledger, p.logger) })
	}
	p.Service.Run(ctx)
	work.Wait()
}

// Health says how well each USDC rail is observed.
func (p *settlement) Health() []observe.Health {
	health := slices.Clone(p.claims)
	for _, chain := range p.chains {
		health = append(health, chain.Health())
	}
	return health
}
