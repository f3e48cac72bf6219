package diagnose

import (
	"context"
	"errors"
	"fmt"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe/card"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/evm"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/source"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/rate"
	"github.com/payoffer/caddy-pay-offer/payoffer/service"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// chain compares the chain and the token of an RPC endpoint with what the offer publishes.
func (c *check) chain(ctx context.Context, u service.USDC, endpoint string) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err := evm.CheckEndpoint(ctx, endpoint, c.clock.Transport(c.Transport), u.Network)
	host, differs := offer.Host(endpoint), (*evm.Mismatch)(nil)
	switch {
	case errors.As(err, &differs):
		c.found(ChainID, u.Name(), fmt.Sprintf("%s: %v (%s)", host, err, u.Network.Name))
	case err != nil:
		c.found(RPCFailing, u.Name(), fmt.Sprintf("%s: %s", host, source.Code(err)))
	}
}

// facilitator asks a facilitator to verify a payment that cannot succeed.
func (c *check) facilitator(ctx context.Context, u service.USDC, config x402.FacilitatorConfig) {
	config.Transport, config.Now, config.Timeout = c.clock.Transport(c.Transport), c.Now, callTimeout
	reason, err := x402.ProbeOnce(ctx, config, c.Offer.Offer, u.USDC)
	if err != nil {
		reason = "key_unusable"
	}
	code := FacilitatorFailing
	switch reason {
	case "":
		return
	case "network_unsupported":
		code = FacilitatorNetwork
	case x402.ReasonUnfunded:
		code = FacilitatorCareless
	}
	c.found(code, u.Name(), fmt.Sprintf("%s: %s on %s", offer.Host(config.URL), reason, u.Network.Name))
}

// cardPrices reads the prices of the payment link.
func (c *check) cardPrices(ctx context.Context, rail service.Card) {
	err := card.CheckPrices(ctx, card.Config{
		PaymentLink: rail.PaymentLink, TestMode: rail.TestMode, APIKey: rail.APIKey, Transport: c.clock.Transport(c.Transport),
	})
	if err != nil {
		c.found(CardPrices, "api.stripe.com", "the prices of the payment link: "+source.Code(err))
	}
}

// prices requests the price of Bitcoin from each source.
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
