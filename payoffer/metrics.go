package payoffer

import (
	"context"
	"errors"

	"github.com/prometheus/client_golang/prometheus"

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
