package diagnose

import (
	"context"
	"errors"
	"fmt"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe/card"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/evm"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/lightning"
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
	err := evm.CheckEndpoint(ctx, endpoint, c.Transport, u.Network)
	host, differs := offer.Host(endpoint), (*evm.Mismatch)(nil)
	switch {
	case errors.As(err, &differs):
		c.addIssue(ChainID, u.Name(), fmt.Sprintf("%s: %v (%s)", host, err, u.Network.Name))
	case err != nil:
		c.addIssue(RPCFailing, u.Name(), fmt.Sprintf("%s: %s", host, source.Code(err)))
	}
}

// facilitator asks a facilitator to verify a payment that cannot succeed.
func (c *check) facilitator(ctx context.Context, u service.USDC, config x402.FacilitatorConfig) {
	config.Transport, config.Now, config.Timeout = c.Transport, c.Now, callTimeout
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
	c.addIssue(code, u.Name(), fmt.Sprintf("%s: %s on %s", offer.Host(config.URL), reason, u.Network.Name))
}

// cardPrices reads the prices of the payment link.
func (c *check) cardPrices(ctx context.Context, rail service.Card) {
	err := card.CheckPrices(ctx, card.Config{
		PaymentLink: rail.PaymentLink, TestMode: rail.TestMode, APIKey: rail.APIKey, Transport: c.Transport,
	})
	if err != nil {
		c.addIssue(CardPrices, "api.stripe.com", "the prices of the payment link: "+source.Code(err))
	}
}

// wallet has the wallet of a Lightning address make an invoice.
func (c *check) wallet(ctx context.Context, l service.Lightning) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	reports, err := lightning.Probe(ctx, lightning.Config{Rail: l.Lightning, Transport: c.Transport, Now: c.Now})
	switch {
	case err != nil:
		c.addIssue(WalletFailing, l.Name(), l.Address()+": "+err.Error())
	case !reports:
		c.addIssue(WalletSilent, l.Name(), l.Address()+" gives invoices without verify")
	}
}

// prices requests the price of Bitcoin from each source.
func (c *check) prices(ctx context.Context, rail string, sources []string) {
	answers, err := rate.Check(ctx, sources, c.Transport)
	if err != nil {
		c.addIssue(PriceSource, rail, err.Error())
	}
	for _, a := range answers {
		if a.Reason != "" {
			c.addIssue(PriceSource, rail, fmt.Sprintf("%s (%s): %s", a.Source, offer.Host(a.URL), a.Reason))
		}
	}
}
