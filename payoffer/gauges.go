package payoffer

import (
	"context"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/payoffer/caddy-pay-offer/payoffer/announce"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

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
		"Value of receipts in US dollars, as far as it is known, by status and evidence.", "offer", "rail", "status", "evidence", "testnet")
	gaugeOpen = gauge("open_intents",
		"Number of x402 payments whose outcome is unknown.", "offer")
	gaugeObserved = gauge("rail_observed",
		"Whether a rail is observed: 1, or 0 while it is blind.", "offer", "rail")
	gaugeLag = gauge("observer_lag_seconds",
		"Seconds since the truth source of a rail was last read.", "offer", "rail")
	gaugeBehind = gauge("announcements_pending",
		"Number of announcements that a receiver has not taken yet, counted up to 100; \"events\" are those of Caddy.", "offer", "host")
)

func gauge(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("caddy_pay_offer_"+name, help, labels, nil)
}

// Describe implements prometheus.Collector.
func (g gauges) Describe(descs chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{
		gaugeFacilitator, gaugeLedger, gaugeReceipts, gaugeAmount, gaugeOpen, gaugeObserved, gaugeLag, gaugeBehind,
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
		g.announcements(set, svc.Offer.ID, svc.Announcements())
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
		up[at] = health.Healthy && (before || !known)
	}
	for at, healthy := range up {
		set(gaugeFacilitator, number01(healthy), at.host, at.network)
	}
}

// sums are those of the ledger; the labels say what tells them apart.
func (g gauges) sums(set setGauge, offer string, totals []ledger.Total) {
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
	set(gaugeOpen, float64(open), offer)
	for at, s := range sums {
		set(gaugeReceipts, float64(s.count), offer, at.rail, at.status, at.evidence, at.testnet)
		set(gaugeAmount, float64(s.cents)/100, offer, at.rail, at.status, at.evidence, at.testnet)
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
func (g gauges) announcements(set setGauge, offer string, sinks []announce.SinkHealth) {
	behind := make(map[string]int64)
	for _, sink := range sinks {
		behind[sink.Host] += sink.Behind
	}
	for host, count := range behind {
		set(gaugeBehind, float64(count), offer, host)
	}
}

func number01(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
