package diagnose

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe/evm"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/source"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/rate"
	"github.com/payoffer/caddy-pay-offer/payoffer/service"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// chain compares the chain and the token of each RPC endpoint with what the offer publishes.
func (c *check) chain(ctx context.Context, u service.USDC) {
	var work sync.WaitGroup
	for _, endpoint := range u.RPC {
		work.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, callTimeout)
			defer cancel()
			err := evm.CheckEndpoint(ctx, endpoint, c.clock.Transport(c.Transport), u.Network)
			at, differs := offer.Host(endpoint), (*evm.Mismatch)(nil)
			switch {
			case err == nil:
			case errors.As(err, &differs):
				c.found(ChainID, u.Name(), fmt.Sprintf("%s: %v (%s)", at, err, u.Network.Name))
			default:
				c.found(RPCFailing, u.Name(), fmt.Sprintf("%s: %s", at, source.Code(err)))
			}
		})
	}
	work.Wait()
}

// facilitators has each facilitator of a rail verify a payment that cannot succeed.
func (c *check) facilitators(ctx context.Context, u service.USDC) {
	var work sync.WaitGroup
	for _, config := range u.Facilitators {
		work.Go(func() {
			config.Transport, config.Now, config.Timeout = c.clock.Transport(c.Transport), c.Now, callTimeout
			reason, err := x402.ProbeOnce(ctx, config, c.Offer.Offer, u.USDC)
			if err != nil {
				reason = "key_unusable"
			}
			what := fmt.Sprintf("%s: %s on %s", offer.Host(config.URL), reason, u.Network.Name)
			switch {
			case reason == "":
			case reason == "network_unsupported":
				c.found(FacilitatorNetwork, u.Name(), what)
			case reason == x402.ReasonUnfunded:
				c.found(FacilitatorCareless, u.Name(), what)
			default:
				c.found(FacilitatorFailing, u.Name(), what)
			}
		})
	}
	work.Wait()
}

// prices asks each price source of Bitcoin.
func (c *check) prices(ctx context.Context, b service.Bitcoin) {
	answers, err := rate.Check(ctx, b.Rates, c.clock.Transport(c.Transport))
	if err != nil {
		c.found(PriceSource, b.Name(), err.Error())
	}
	for _, a := range answers {
		if a.Reason != "" {
			c.found(PriceSource, b.Name(), fmt.Sprintf("%s (%s): %s", a.Source, offer.Host(a.URL), a.Reason))
		}
	}
}
