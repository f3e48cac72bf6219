package inspect

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe/evm"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/source"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/rate"
	"github.com/payoffer/caddy-pay-offer/payoffer/service"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// chain compares each RPC endpoint of a rail with what is published: the chain, and the
// token that payers sign for.
func (i *inspection) chain(ctx context.Context, u service.USDC) {
	var work sync.WaitGroup
	for _, endpoint := range u.RPC {
		work.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, callPatience)
			defer cancel()
			err := evm.CheckEndpoint(ctx, endpoint, i.Transport, u.Rail.Network)
			at, differs := offer.Host(endpoint), (*evm.Mismatch)(nil)
			switch {
			case err == nil:
			case errors.As(err, &differs) && differs.What == "chain id":
				i.found(ChainID, u.Rail.Name(), fmt.Sprintf("%s: %v, that of %s", at, err, u.Rail.Network.Name))
			case errors.As(err, &differs):
				i.found(TokenMismatch, u.Rail.Name(), fmt.Sprintf("%s: %v", at, err))
			default:
				i.found(RPCFailing, u.Rail.Name(), fmt.Sprintf("%s: %s", at, source.Code(err)))
			}
		})
	}
	work.Wait()
}

// facilitators shows each facilitator of a rail a payment that cannot be made.
func (i *inspection) facilitators(ctx context.Context, u service.USDC) {
	var work sync.WaitGroup
	for _, config := range u.Facilitators {
		work.Go(func() {
			config.Transport, config.Now, config.Timeout = i.Transport, i.Now, callPatience
			reason, err := x402.ProbeOnce(ctx, config, i.Offer.Offer, u.Rail)
			if err != nil {
				reason = "key_unusable"
			}
			what := fmt.Sprintf("%s: %s on %s", offer.Host(config.URL), reason, u.Rail.Network.Name)
			switch {
			case reason == "":
			case reason == "network_unsupported":
				i.found(NetworkRefused, u.Rail.Name(), what)
			case strings.HasSuffix(reason, "status_401"), strings.HasSuffix(reason, "status_403"), reason == "key_unusable":
				i.found(KeyRefused, u.Rail.Name(), what)
			case reason == x402.ReasonUnfunded:
				i.found(Careless, u.Rail.Name(), what)
			default:
				i.found(Failing, u.Rail.Name(), what)
			}
		})
	}
	work.Wait()
}

// prices asks each price source.
func (i *inspection) prices(ctx context.Context) {
	rail := i.Offer.Offer.Bitcoin()
	if rail == nil {
		return
	}
	answers, err := rate.Check(ctx, i.Rates, i.Transport)
	if err != nil {
		i.found(PriceSource, rail.Name(), err.Error())
	}
	for _, a := range answers {
		if a.Reason != "" {
			i.found(PriceSource, rail.Name(), fmt.Sprintf("%s (%s): %s", a.Source, offer.Host(a.URL), a.Reason))
		}
	}
}
