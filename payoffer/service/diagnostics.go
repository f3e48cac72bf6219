package service

import (
	"github.com/payoffer/caddy-pay-offer/payoffer/clock"
	"github.com/payoffer/caddy-pay-offer/payoffer/operator"
)

// report is the part of the diagnostics that the desk does not know.
func (svc *Service) report() operator.Diagnostics {
	d := operator.Diagnostics{
		Demo: svc.Offer.Demo, Settings: svc.Key.String(), Keys: []string{}, Clock: clock.Seconds(svc.clock.Offset()),
		WebhooksOff: append([]string{}, svc.HooksOff...),
	}
	for _, key := range svc.published() {
		d.Keys = append(d.Keys, svc.Offer.DID()+"#"+key.ID)
	}
	return d
}
