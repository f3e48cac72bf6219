package payoffer

import (
	"context"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/payoffer/caddy-pay-offer/payoffer/announce"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
)

// scrapeTimeout bounds how long a scrape waits for the ledger.
const scrapeTimeout = 2 * time.Second

// offerGauges read the state of the newest configuration whenever they are
// scraped, so that a reload neither doubles nor forgets anything.
type offerGauges struct {
	facilitator, ledger, receipts, amount, open, observed, lag, behind *prometheus.Desc
}

var gauges = offerGauges{
	facilitator: gauge("facilitator_up",
		"Whether a facilitator is asked to settle x402 payments on a network: 1, or 0 while it fails or does not support it.", "host", "network"),
	ledger: gauge("ledger_up",
		"Whether the ledger can be read: 1 or 0. While it is 0 the gauges of receipts are absent.", "offer"),
	receipts: gauge("receipts",
		"Number of receipts by status and evidence.", "offer", "rail", "status", "evidence", "testnet"),
	amount: gauge("receipts_usd",
		"Value of receipts in US dollars, as far as it is known, by status and evidence.", "offer", "rail", "status", "evidence", "testnet"),
	open: gauge("open_intents",
		"Number of x402 payments whose outcome is unknown.", "offer"),
	observed: gauge("rail_observed",
		"Whether a rail is observed: 1, or 0 while it is blind.", "offer", "rail"),
	lag: gauge("observer_lag_seconds",
		"Seconds since the truth source of a rail was last read.", "offer", "rail"),
	behind: gauge("announcements_pending",
		"Number of announcements that a receiver has not taken yet, counted up to 100; \"events\" are those of Caddy.", "offer", "host"),
}

func gauge(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("caddy_pay_offer_"+name, help, labels, nil)
}

// Describe implements prometheus.Collector.
func (g offerGauges) Describe(descs chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{g.facilitator, g.ledger, g.receipts, g.amount, g.open, g.observed, g.lag, g.behind} {
		descs <- desc
	}
}

// Collect implements prometheus.Collector.
func (g offerGauges) Collect(metrics chan<- prometheus.Metric) {
	app := running.newest()
	if app == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	set := func(desc *prometheus.Desc, value float64, labels ...string) {
		metrics <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	services := app.offers()
	g.facilitators(set, services)
	for _, svc := range services {
		totals, err := svc.ledger.Totals(ctx, svc.offer.ID)
		set(g.ledger, number01(err == nil), svc.offer.ID)
		if err == nil {
			g.sums(set, svc.offer.ID, totals)
		}
		g.rails(set, svc.offer.ID, svc.health(), time.Now())
		g.announcements(set, svc.offer.ID, svc.announcer.Sinks())
	}
}

// setGauge sends the value of a gauge.
type setGauge func(desc *prometheus.Desc, value float64, labels ...string)

// facilitators: offers with the same facilitator each call it; it is up when
// it is for all of them.
func (g offerGauges) facilitators(set setGauge, services []*service) {
	type place struct{ host, network string }
	up := make(map[place]bool)
	for _, svc := range services {
		for _, health := range svc.payments.Facilitators() {
			at := place{health.Host, health.Network}
			before, known := up[at]
			up[at] = health.Healthy && (before || !known)
		}
	}
	for at, healthy := range up {
		set(g.facilitator, number01(healthy), at.host, at.network)
	}
}

// sums are those of the ledger; the labels say what tells them apart.
func (g offerGauges) sums(set setGauge, offer string, totals []ledger.Total) {
	type label struct{ rail, status, evidence, testnet string }
	type sum struct{ count, cents int64 }
	sums := make(map[label]sum)
	open := int64(0)
	for _, t := range totals {
		if t.Status == ledger.StatusSettling {
			open += t.Count
			continue
		}
		at := label{t.Rail, string(t.Status), string(t.EvidenceLevel), strconv.FormatBool(t.Testnet)}
		sums[at] = sum{sums[at].count + t.Count, sums[at].cents + t.USDCents}
	}
	set(g.open, float64(open), offer)
	for at, s := range sums {
		set(g.receipts, float64(s.count), offer, at.rail, at.status, at.evidence, at.testnet)
		set(g.amount, float64(s.cents)/100, offer, at.rail, at.status, at.evidence, at.testnet)
	}
}

// rails: a source that was never read has no lag, and is blind.
func (g offerGauges) rails(set setGauge, offer string, health []observe.Health, now time.Time) {
	for _, h := range health {
		set(g.observed, number01(!h.Blind), offer, h.Rail)
		if h.At > 0 {
			set(g.lag, max(0, now.Sub(time.Unix(h.At, 0)).Seconds()), offer, h.Rail)
		}
	}
}

// announcements: receivers may share a host.
func (g offerGauges) announcements(set setGauge, offer string, sinks []announce.SinkHealth) {
	behind := make(map[string]int64)
	for _, sink := range sinks {
		behind[sink.Host] += sink.Behind
	}
	for host, count := range behind {
		set(g.behind, float64(count), offer, host)
	}
}

func number01(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
