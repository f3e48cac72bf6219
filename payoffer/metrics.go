package payoffer

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// The collectors outlive configurations, each of which has a registry of its
// own.
var (
	attempts = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "caddy", Subsystem: "pay_offer", Name: "payment_attempts_total",
		Help: "Counter of x402 payment attempts by outcome.",
	}, []string{"outcome"})

	openIntents = prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: "caddy", Subsystem: "pay_offer", Name: "open_intents",
		Help: "Number of x402 payments whose outcome is unknown; NaN while the ledger cannot be read.",
	}, countOpenIntents)
)

// facilitatorUp reads the facilitators of the newest configuration.
type facilitatorUp struct{ gauge *prometheus.Desc }

var facilitators = facilitatorUp{prometheus.NewDesc(
	"caddy_pay_offer_facilitator_up",
	"Whether a facilitator is asked to settle x402 payments on a network: 1, or 0 while it fails or does not support it.",
	[]string{"host", "network"}, nil,
)}

// Describe implements prometheus.Collector.
func (f facilitatorUp) Describe(descs chan<- *prometheus.Desc) { descs <- f.gauge }

// Collect implements prometheus.Collector. Offers with the same facilitator
// each call it; it is up when it is for all of them.
func (f facilitatorUp) Collect(metrics chan<- prometheus.Metric) {
	app := running.newest()
	if app == nil {
		return
	}
	type place struct{ host, network string }
	up := make(map[place]float64)
	for _, svc := range app.offers() {
		for _, health := range svc.payments.Facilitators() {
			at := place{health.Host, health.Network}
			if _, known := up[at]; !known {
				up[at] = 1
			}
			if !health.Healthy {
				up[at] = 0
			}
		}
	}
	for at, value := range up {
		metrics <- prometheus.MustNewConstMetric(f.gauge, prometheus.GaugeValue, value, at.host, at.network)
	}
}

const scrapeTimeout = 2 * time.Second

// outcomes are the label values of attempts.
var outcomes = map[x402.Status]string{
	x402.Settled: "settled", x402.Refused: "refused", x402.Open: "open", x402.Unavailable: "unavailable",
	x402.Conflict: "conflict", x402.Malformed: "malformed", x402.Limited: "limited",
}

func registerMetrics(registry *prometheus.Registry) error {
	for _, c := range []prometheus.Collector{attempts, openIntents, facilitators} {
		err := registry.Register(c)
		if already := (prometheus.AlreadyRegisteredError{}); err != nil && !errors.As(err, &already) {
			return err
		}
	}
	return nil
}

func countOpenIntents() float64 {
	app := running.newest()
	if app == nil {
		return 0
	}
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	count := int64(0)
	for _, svc := range app.offers() {
		totals, err := svc.ledger.Totals(ctx, svc.offer.ID)
		if err != nil {
			return math.NaN()
		}
		for _, t := range totals {
			if t.Status == ledger.StatusSettling {
				count += t.Count
			}
		}
	}
	return float64(count)
}

// meteredPayments counts attempts.
type meteredPayments struct{ payments }

// Pay counts the outcome of an attempt.
func (p meteredPayments) Pay(ctx context.Context, a x402.Attempt) x402.Outcome {
	outcome := p.payments.Pay(ctx, a)
	attempts.WithLabelValues(outcomes[outcome.Status]).Inc()
	return outcome
}
