package payoffer

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/accounting"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/source"
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
	Mailed:    func(host string, status int, took time.Duration) { called("announce", host, status, took) },
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
	for rail := range svc.Server.Hooks {
		for _, verdict := range verdicts {
			deliveries.WithLabelValues(svc.Offer.ID, rail, string(verdict))
		}
	}
}

// connections are those to all upstreams.
var connections = source.NewTransport()

// meteredTransport carries the calls to upstreams of a kind, which
// service.Instruments lists.
type meteredTransport string

// RoundTrip implements http.RoundTripper.
func (kind meteredTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	start := time.Now()
	response, err := connections.RoundTrip(r)
	status := 0
	if err == nil {
		status = response.StatusCode
	}
	called(string(kind), r.URL.Hostname(), status, time.Since(start))
	return response, err
}

// called counts a call to an upstream. Its outcome is "error" for one that did not
// answer, else the class of its status, as in "2xx"; mail servers have such, too.
func called(kind, host string, status int, took time.Duration) {
	outcome := "error"
	if status >= 100 && status <= 599 {
		outcome = string(rune('0'+status/100)) + "xx"
	}
	upstreamSeconds.WithLabelValues(kind, host, outcome).Observe(took.Seconds())
}

// scrapeTimeout bounds how long a scrape waits for the ledger.
const scrapeTimeout = 2 * time.Second

// gauges read the state of an app's offers whenever they are scraped.
type gauges struct{ app *App }

// The gauges.
var (
	gaugeFacilitator = gauge("facilitator_up",
		"Whether a facilitator is asked to settle x402 payments on a network: 1, or 0 while it fails or does not support it.", "host", "network")
	gaugeLedger = gauge("ledger_up",
		"Whether the ledger can be read: 1 or 0. While it is 0 the gauges of receipts are absent.", "offer")
	gaugeReceipts = gauge("receipts",
		"Number of receipts by status and evidence.", "offer", "rail", "status", "evidence", "testnet")
	gaugeAmount = gauge("receipts_usd",
		"Value of receipts in US dollars, as far as it is known, less what was refunded of it, by status and evidence; what was refunded has a status of its own.", "offer", "rail", "status", "evidence", "testnet")
	gaugeOpen = gauge("open_intents",
		"Number of x402 payments whose outcome is unknown.", "offer")
	gaugeObserved = gauge("rail_observed",
		"Whether a rail is observed: 1, or 0 while it is blind.", "offer", "rail")
	gaugeLag = gauge("observer_lag_seconds",
		"Seconds since the truth source of a rail was last read.", "offer", "rail")
	gaugeClock = gauge("clock_offset_seconds",
		"Seconds that the clock of this machine is ahead of others, negative where it is behind; 0 while nothing proves that it is wrong.")
	gaugeBehind = gauge("announcements_pending",
		"Number of announcements that a receiver has not taken yet, counted up to 100; the hosts \"events\" and \"log\" are Caddy's own.", "offer", "host")
)

func gauge(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("caddy_pay_offer_"+name, help, labels, nil)
}

// Describe implements prometheus.Collector.
func (g gauges) Describe(descs chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{
		gaugeFacilitator, gaugeLedger, gaugeReceipts, gaugeAmount, gaugeOpen, gaugeObserved, gaugeLag, gaugeClock, gaugeBehind,
	} {
		descs <- desc
	}
}

// Collect implements prometheus.Collector.
func (g gauges) Collect(metrics chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	set := func(desc *prometheus.Desc, value float64, labels ...string) {
		metrics <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	services := g.app.running()
	if len(services) == 0 {
		return
	}
	set(gaugeClock, g.app.share.Clock.Offset().Seconds())
	var facilitators []x402.FacilitatorHealth
	for _, svc := range services {
		facilitators = append(facilitators, svc.Facilitators()...)
	}
	g.facilitators(set, facilitators)
	for _, svc := range services {
		totals, err := g.app.share.Ledger.Totals(ctx, svc.Offer.ID)
		set(gaugeLedger, number01(err == nil), svc.Offer.ID)
		if err == nil {
			g.sums(set, svc.Offer.ID, totals)
		}
		g.rails(set, svc.Offer.ID, svc.Health(), time.Now())
		g.announcements(set, svc)
	}
}

// setGauge sends the value of a gauge.
type setGauge func(desc *prometheus.Desc, value float64, labels ...string)

// facilitators: offers with the same facilitator each call it; it is up when
// it is for all of them.
func (g gauges) facilitators(set setGauge, all []x402.FacilitatorHealth) {
	type place struct{ host, network string }
	up := make(map[place]bool)
	for _, health := range all {
		at := place{health.Host, health.Network}
		before, known := up[at]
		up[at] = health.Up() && (before || !known)
	}
	for at, healthy := range up {
		set(gaugeFacilitator, number01(healthy), at.host, at.network)
	}
}

// sums are those of the report; the labels say what tells them apart.
func (g gauges) sums(set setGauge, offer string, totals []ledger.Total) {
	type label struct{ rail, status, evidence, testnet string }
	sums := make(map[label]accounting.Money)
	open := int64(0)
	for _, t := range totals {
		if t.Status == ledger.StatusSettling {
			open += t.Count
			continue
		}
		add := func(status ledger.Status, m accounting.Money) {
			if m != (accounting.Money{}) {
				at := label{t.Rail, string(status), string(t.EvidenceLevel), strconv.FormatBool(t.Testnet)}
				sums[at] = sums[at].Plus(m)
			}
		}
		add(t.Status, t.Net())
		add(ledger.StatusRefunded, t.Returned())
	}
	set(gaugeOpen, float64(open), offer)
	for at, s := range sums {
		set(gaugeReceipts, float64(s.Count), offer, at.rail, at.status, at.evidence, at.testnet)
		set(gaugeAmount, float64(s.USDCents)/100, offer, at.rail, at.status, at.evidence, at.testnet)
	}
}

// rails: a source that was never read has no lag, and is blind.
func (g gauges) rails(set setGauge, offer string, health []observe.Health, now time.Time) {
	for _, h := range health {
		set(gaugeObserved, number01(!h.Blind), offer, h.Rail)
		if h.At > 0 {
			set(gaugeLag, max(0, now.Sub(time.Unix(h.At, 0)).Seconds()), offer, h.Rail)
		}
	}
}

// announcements: receivers may share a host.
func (g gauges) announcements(set setGauge, svc *service.Service) {
	behind := make(map[string]int64)
	for _, sink := range svc.Announcements() {
		behind[sink.Host] += sink.Behind
	}
	for host, count := range behind {
		set(gaugeBehind, float64(count), svc.Offer.ID, host)
	}
}

func number01(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
