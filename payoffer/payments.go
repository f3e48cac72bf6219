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
	"github.com/payoffer/caddy-pay-offer/payoffer/web"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// payments takes the x402 payments of one offer and observes their chains.
type payments interface {
	web.Payments
	agent.Payments
	// Run resolves what was left open and follows the chains until ctx ends.
	Run(ctx context.Context)
	// Wait waits for settlements under way.
	Wait(ctx context.Context) error
	// Health says how well each rail is observed. It never blocks.
	Health() []observe.Health
}

// settlement is the payments of the USDC rails.
type settlement struct {
	*x402.Service
	chains []*observe.EVM
	claims []observe.Health // rails whose chain is not read
	ledger *ledger.Ledger
	logger *slog.Logger
}

// newPayments puts facilitators and chains to the USDC rails. It calls nobody.
func newPayments(s *settings, book *ledger.Ledger, logger *slog.Logger) (payments, error) {
	p := &settlement{ledger: book, logger: logger}
	var rails []x402.Rail
	for _, u := range s.usdc {
		rail := x402.Rail{USDC: u.rail}
		for _, c := range u.facilitators {
			f, err := x402.NewFacilitator(c)
			if err != nil {
				return nil, err
			}
			rail.Facilitators = append(rail.Facilitators, f)
		}
		if len(u.rpc) == 0 {
			p.claims = append(p.claims, observe.Health{Rail: u.rail.Name(), Source: "facilitator", Blind: true})
		} else {
			chain, err := observe.NewEVM(observe.EVMConfig{
				OfferID: s.offer.ID, USDC: u.rail, Endpoints: u.rpc, Confirm: u.confirm, Now: time.Now,
			})
			if err != nil {
				return nil, err
			}
			rail.Chain = chain
			p.chains = append(p.chains, chain)
		}
		rails = append(rails, rail)
	}
	var err error
	p.Service, err = x402.New(x402.Config{
		Offer: s.offer, Rails: rails, Ledger: book, Limit: s.limit, Owner: rand.Text(),
		Own: func(address string) bool {
			return slices.ContainsFunc(s.ownPayers, func(own string) bool { return strings.EqualFold(own, address) })
		},
		Now: time.Now, Logger: logger,
	})
	return p, err
}

// Run resolves open payments and follows the receipts of each chain.
func (p *settlement) Run(ctx context.Context) {
	var work sync.WaitGroup
	for _, chain := range p.chains {
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
