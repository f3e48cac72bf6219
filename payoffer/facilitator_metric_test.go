package payoffer

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/announce"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// reported is payments with facilitators of a given health.
type reported struct {
	payments
	health []x402.FacilitatorHealth
}

func (r reported) Facilitators() []x402.FacilitatorHealth { return r.health }

func (reported) Health() []observe.Health { return nil }

func TestMetricsShowWhichFacilitatorsAreAsked(t *testing.T) {
	const base, sepolia = "eip155:8453", "eip155:84532"
	unopened := &ledgerReference{pooledLedger: &pooledLedger{Ledger: ledger.NewSQLite("unopened", time.Now)}}
	one := &settings{offer: &offer.Offer{Terms: offer.Terms{ID: "one"}}}
	two := &settings{offer: &offer.Offer{Terms: offer.Terms{ID: "two"}}}
	app := &App{services: []*service{
		{settings: one, ledger: unopened, observers: new(observers), announcer: new(announce.Announcer), payments: reported{health: []x402.FacilitatorHealth{
			{Host: "one.example", Network: base, Healthy: true}, {Host: "two.example", Network: base, Reason: "timeout"},
		}}},
		{settings: two, ledger: unopened, observers: new(observers), announcer: new(announce.Announcer), payments: reported{health: []x402.FacilitatorHealth{
			{Host: "one.example", Network: sepolia, Healthy: true}, {Host: "two.example", Network: base, Healthy: true},
		}}},
	}}
	running.add(app)
	defer running.remove(app)
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registerMetrics(registry))
	families, err := registry.Gather()
	require.NoError(t, err)
	up := make(map[string]float64)
	for _, family := range families {
		if family.GetName() != "caddy_pay_offer_facilitator_up" {
			continue
		}
		for _, m := range family.GetMetric() {
			labels := m.GetLabel() // in the order of their names
			require.Equal(t, "host", labels[0].GetName())
			require.Equal(t, "network", labels[1].GetName())
			up[labels[0].GetValue()+" "+labels[1].GetValue()] = m.GetGauge().GetValue()
		}
	}
	require.Equal(t, map[string]float64{"one.example " + base: 1, "one.example " + sepolia: 1, "two.example " + base: 0}, up)
}
