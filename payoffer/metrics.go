package payoffer

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"

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
		Help: "Number of x402 payments whose outcome is unknown, at most 1000; NaN while the ledger cannot be read.",
	}, countOpenIntents)
)

const (
	maxCountedIntents = 1000
	scrapeTimeout     = 2 * time.Second
)

// outcomes are the label values of attempts.
var outcomes = map[x402.Status]string{
	x402.Settled: "settled", x402.Refused: "refused", x402.Open: "open", x402.Unavailable: "unavailable",
	x402.Conflict: "conflict", x402.Malformed: "malformed", x402.Limited: "limited",
}

func registerMetrics(registry *prometheus.Registry) error {
	for _, c := range []prometheus.Collector{attempts, openIntents} {
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
	services := app.offers()
	if len(services) == 0 {
		return 0
	}
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	open, err := services[0].ledger.OpenIntents(ctx, maxCountedIntents)
	if err != nil {
		return math.NaN()
	}
	return float64(len(open))
}

// meteredPayments counts attempts.
type meteredPayments struct{ payments }

// Pay counts the outcome of an attempt.
func (p meteredPayments) Pay(ctx context.Context, a x402.Attempt) x402.Outcome {
	outcome := p.payments.Pay(ctx, a)
	attempts.WithLabelValues(outcomes[outcome.Status]).Inc()
	return outcome
}
