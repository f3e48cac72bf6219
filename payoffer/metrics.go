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

// The counters outlive configurations. Each configuration has its own registry.
var (
	attempts = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "caddy", Subsystem: "pay_offer", Name: "payment_attempts_total",
		Help: "Counter of x402 payment attempts by offer and outcome.",
	}, []string{"offer", "outcome"})

	deliveries = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "caddy", Subsystem: "pay_offer", Name: "webhook_deliveries_total",
		Help: "Counter of inbound webhooks by offer, rail and verdict.",
	}, []string{"offer", "rail", "verdict"})

	// upstreamSeconds times every call to an upstream, up to its headers.
	upstreamSeconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: "caddy", Subsystem: "pay_offer", Name: "upstream_seconds",
		Help:    "Histogram of the response times of upstreams in seconds, by kind, host and outcome.",
		Buckets: []float64{.025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
	}, []string{"kind", "host", "outcome"})
)

// registerMetrics registers the counters and the gauges.
func registerMetrics(registry *prometheus.Registry) error {
	for _, c := range []prometheus.Collector{attempts, deliveries, upstreamSeconds, gauges{}} {
		err := registry.Register(c)
		if already := (prometheus.AlreadyRegisteredError{}); err != nil && !errors.As(err, &already) {
			return err
		}
	}
	return nil
}

// instruments update the counters.
var instruments = service.Instruments{
	Transport:       func(kind string) http.RoundTripper { return meteredTransport{kind, connections} },
	PublicTransport: func(kind string) http.RoundTripper { return meteredTransport{kind, publicConnections} },
	Mailed:          func(host string, status int, took time.Duration) { observeCall("announce", host, status, took) },
	Attempt: func(offerID string, status x402.Status) {
		attempts.WithLabelValues(offerID, string(status)).Inc()
	},
	Delivery: func(offerID, rail string, v observe.Verdict) {
		deliveries.WithLabelValues(offerID, rail, string(v)).Inc()
	},
	// Caddy decides which address is the client's, by trusted_proxies.
	ClientIP: func(r *http.Request) string {
		address, _ := caddyhttp.GetVar(r.Context(), caddyhttp.ClientIPVarKey).(string)
		return address
	},
	SiteFile: siteFile,
}

// verdicts are the label values of deliveries.
var verdicts = []observe.Verdict{
	observe.Recorded, observe.Ignored, observe.Unverified, observe.Malformed, observe.Unavailable, observe.Limited,
}

// countFromZero exports the counters of an offer's webhooks before the first delivery,
// because Prometheus sees no increase in a new counter.
func countFromZero(svc *service.Service) {
	for rail := range svc.Server.Hooks {
		for _, verdict := range verdicts {
			deliveries.WithLabelValues(svc.Offer.ID, rail, string(verdict))
		}
	}
}

// connections are the connections to all upstreams, and publicConnections those to addresses that an upstream names.
var connections, publicConnections = source.NewTransport(), source.NewPublicTransport()

// meteredTransport measures the calls to upstreams of one kind.
type meteredTransport struct {
	kind        string
	connections http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (m meteredTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	start := time.Now()
	response, err := m.connections.RoundTrip(r)
	status := 0
	if err == nil {
		status = response.StatusCode
	}
	observeCall(m.kind, r.URL.Hostname(), status, time.Since(start))
	return response, err
}

// observeCall records a call to an upstream. The outcome is the class of its HTTP or SMTP
// status, such as "2xx", or "error" without an answer.
func observeCall(kind, host string, status int, took time.Duration) {
	outcome := "error"
	if status >= 100 && status <= 599 {
		outcome = string(rune('0'+status/100)) + "xx"
	}
	upstreamSeconds.WithLabelValues(kind, host, outcome).Observe(took.Seconds())
}

// scrapeTimeout bounds how long a scrape waits for the ledger.
const scrapeTimeout = 2 * time.Second

// gauges collects the state of the running offers at each scrape. They are not those of the
// registry's configuration, because the admin API keeps the registry of one that failed.
type gauges struct{}

// The gauges.
var (
	gaugeFacilitator = gauge("facilitator_up",
		"Whether a facilitator settles x402 payments on a network: 1, or 0 while it fails or does not support it.", "host", "network")
	gaugeLedger = gauge("ledger_up",
		"Whether the ledger can be read and has its file: 1 or 0. While it is 0 the gauges of receipts and notifications are absent.", "offer")
	gaugeReceipts = gauge("receipts",
		"Number of receipts by status and evidence.", "offer", "rail", "status", "evidence", "testnet")
	gaugeAmount = gauge("receipts_usd",
		"Known value of receipts in US dollars without refunds, by status and evidence; refunds have their own status.",
		"offer", "rail", "status", "evidence", "testnet")
	gaugeOpen = gauge("open_intents",
		"Number of x402 payments whose outcome is unknown.", "offer")
	gaugeObserved = gauge("rail_observed",
		"Whether a rail is observed: 1 or 0.", "offer", "rail")
	gaugeLag = gauge("observer_lag_seconds",
		"Seconds since the payments of a rail were last read.", "offer", "rail")
	gaugeClock = gauge("clock_offset_seconds",
		"Seconds by which the clock of this machine is ahead of the newest block, negative if it is behind; 0 up to a minute, and without a chain.")
	gaugeBehind = gauge("announcements_pending",
		"Number of notifications that wait for an endpoint, also after a restart; the hosts \"events\" and \"log\" are Caddy's own.", "offer", "host")
)

func gauge(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("caddy_pay_offer_"+name, help, labels, nil)
}

// Describe implements prometheus.Collector.
func (gauges) Describe(descs chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{
		gaugeFacilitator, gaugeLedger, gaugeReceipts, gaugeAmount, gaugeOpen, gaugeObserved, gaugeLag, gaugeClock, gaugeBehind,
	} {
		descs <- desc
	}
}

// Collect implements prometheus.Collector.
func (gauges) Collect(metrics chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	set := func(desc *prometheus.Desc, value float64, labels ...string) {
		metrics <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	app := activeApp()
	if app == nil || app.runtime == nil {
		return
	}
	services := app.running()
	set(gaugeClock, app.runtime.ClockOffset().Seconds())
	setFacilitators(set, services)
	// Two queries for all offers: there may be hundreds.
	totals, err := app.runtime.Ledger.AllTotals(ctx)
	behind, behindErr := app.runtime.Ledger.Undelivered(ctx)
	err = errors.Join(err, behindErr, app.runtime.Ledger.Lost())
	for _, svc := range services {
		set(gaugeLedger, number01(err == nil), svc.Offer.ID)
		if err == nil {
			setSums(set, svc.Offer.ID, totals[svc.Offer.ID])
			pending := make(map[string]int64) // endpoints may share a host
			for _, endpoint := range svc.Operator.Announcer.Health(behind) {
				pending[endpoint.Host] += endpoint.Behind
			}
			for host, count := range pending {
				set(gaugeBehind, float64(count), svc.Offer.ID, host)
			}
		}
		for _, h := range svc.Health() {
			set(gaugeObserved, number01(!h.Blind), svc.Offer.ID, h.Rail)
			if h.At > 0 { // else it was never read
				set(gaugeLag, max(0, time.Since(time.Unix(h.At, 0)).Seconds()), svc.Offer.ID, h.Rail)
			}
		}
	}
}

// setGauge sends the value of a gauge.
type setGauge func(desc *prometheus.Desc, value float64, labels ...string)

// setFacilitators sets the gauge of each facilitator. A facilitator of several offers is up
// if it is up for all of them.
func setFacilitators(set setGauge, services []*service.Service) {
	up := make(map[[2]string]bool)
	for _, svc := range services {
		for _, health := range svc.Operator.Facilitators() {
			key := [2]string{health.Host, health.Network}
			before, known := up[key]
			up[key] = health.Up() && (before || !known)
		}
	}
	for key, healthy := range up {
		set(gaugeFacilitator, number01(healthy), key[0], key[1])
	}
}

// setSums sets the gauges of receipts to the sums of the report.
func setSums(set setGauge, offer string, totals []ledger.Total) {
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

func number01(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
