package payoffer

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/web"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// The counters outlive configurations, each of which has a registry of its own.
var (
	attempts = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "caddy", Subsystem: "pay_offer", Name: "payment_attempts_total",
		Help: "Counter of x402 payment attempts by offer and outcome.",
	}, []string{"offer", "outcome"})

	deliveries = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "caddy", Subsystem: "pay_offer", Name: "webhook_deliveries_total",
		Help: "Counter of inbound webhooks by offer, rail and what became of them.",
	}, []string{"offer", "rail", "verdict"})
)

// outcomes are the label values of attempts.
var outcomes = map[x402.Status]string{
	x402.Settled: "settled", x402.Refused: "refused", x402.Open: "open", x402.Unavailable: "unavailable",
	x402.Conflict: "conflict", x402.Malformed: "malformed", x402.Limited: "limited",
}

func registerMetrics(registry *prometheus.Registry) error {
	for _, c := range []prometheus.Collector{attempts, deliveries, upstreamSeconds, gauges} {
		err := registry.Register(c)
		if already := (prometheus.AlreadyRegisteredError{}); err != nil && !errors.As(err, &already) {
			return err
		}
	}
	return nil
}

// verdicts are the label values of deliveries.
var verdicts = []observe.Verdict{
	observe.Recorded, observe.Ignored, observe.Unverified, observe.Malformed, observe.Unavailable,
}

// countFromZero shows the counters of an offer's webhooks before the first
// delivery: Prometheus sees no increase in a counter that appears with it.
func countFromZero(offerID string, hooks web.Hooks) {
	rails := slices.Collect(maps.Keys(hooks.Storefronts))
	if hooks.Card != nil {
		rails = append(rails, offer.RailCard)
	}
	for _, rail := range rails {
		for _, verdict := range verdicts {
			deliveries.WithLabelValues(offerID, rail, string(verdict))
		}
	}
}

// meteredPayments counts attempts.
type meteredPayments struct {
	payments
	offer string
}

// Pay counts the outcome of an attempt.
func (p meteredPayments) Pay(ctx context.Context, a x402.Attempt) x402.Outcome {
	outcome := p.payments.Pay(ctx, a)
	attempts.WithLabelValues(p.offer, outcomes[outcome.Status]).Inc()
	return outcome
}
