package payoffer

import (
	"errors"
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/service"
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

	// upstreamSeconds times every call to an upstream, up to its headers.
	upstreamSeconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: "caddy", Subsystem: "pay_offer", Name: "upstream_seconds",
		Help:    "Histogram of the time that an upstream takes to answer, in seconds, by kind, host and outcome.",
		Buckets: []float64{.025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
	}, []string{"kind", "host", "outcome"})
)

// registerMetrics registers the counters, and the gauges of an app.
func registerMetrics(registry *prometheus.Registry, app *App) error {
	for _, c := range []prometheus.Collector{attempts, deliveries, upstreamSeconds, gauges{app}} {
		err := registry.Register(c)
		if already := (prometheus.AlreadyRegisteredError{}); err != nil && !errors.As(err, &already) {
			return err
		}
	}
	return nil
}

// instruments feed the counters.
var instruments = service.Instruments{
	Transport: func(kind string) http.RoundTripper { return meteredTransport(kind) },
	Attempt: func(offerID string, status x402.Status) {
		attempts.WithLabelValues(offerID, string(status)).Inc()
	},
	Delivery: func(offerID, rail string, v observe.Verdict) {
		deliveries.WithLabelValues(offerID, rail, string(v)).Inc()
	},
	// Caddy, which knows trusted proxies, holds an address for the client.
	ClientIP: func(r *http.Request) string {
		address, _ := caddyhttp.GetVar(r.Context(), caddyhttp.ClientIPVarKey).(string)
		return address
	},
}

// verdicts are the label values of deliveries.
var verdicts = []observe.Verdict{
	observe.Recorded, observe.Ignored, observe.Unverified, observe.Malformed, observe.Unavailable,
}

// countFromZero shows the counters of an offer's webhooks before the first
// delivery: Prometheus sees no increase in a counter that appears with it.
func countFromZero(svc *service.Service) {
	for _, rail := range svc.HookedRails() {
		for _, verdict := range verdicts {
			deliveries.WithLabelValues(svc.Offer.ID, rail, string(verdict))
		}
	}
}

// meteredTransport carries the calls to upstreams of a kind: facilitator, rpc,
// esplora, card, storefront or announce.
type meteredTransport string

// RoundTrip implements http.RoundTripper.
func (kind meteredTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	start := time.Now()
	response, err := http.DefaultTransport.RoundTrip(r)
	upstreamSeconds.WithLabelValues(string(kind), r.URL.Hostname(), outcomeOf(response, err)).Observe(time.Since(start).Seconds())
	return response, err
}

// outcomeOf is "error" for an upstream that did not answer, else the class of
// its status, as in "2xx".
func outcomeOf(response *http.Response, err error) string {
	if err != nil || response.StatusCode < 100 || response.StatusCode > 599 {
		return "error"
	}
	return string(rune('0'+response.StatusCode/100)) + "xx"
}
