package x402

import (
	"cmp"
	"context"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// ProbeOnce asks a facilitator whether it settles on the network of a rail, and then to
// verify a payment that cannot be made. It returns what speaks against it, as
// FacilitatorHealth.Reason does, empty for nothing. Nobody else's view of the facilitator
// changes.
func ProbeOnce(ctx context.Context, c FacilitatorConfig, o *offer.Offer, u *offer.USDC) (reason string, err error) {
	f, err := NewFacilitator(c)
	if err != nil {
		return "", err
	}
	t := newTerms(o, u)
	f.health.expect(t)
	down, _ := f.probe(ctx)
	network := u.Network.CAIP2()
	return cmp.Or(down[network], f.health.reason(network)), nil
}
