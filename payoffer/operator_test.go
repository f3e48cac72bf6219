package payoffer

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// metric is the value of a metric in a registry as a configuration makes one.
func metric(t *testing.T, name string) float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registerMetrics(registry))
	require.NoError(t, registerMetrics(registry), "a second site registers them again")
	families, err := registry.Gather()
	require.NoError(t, err)
	value := 0.0
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if family.GetName() == name {
				value += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return value
}

// Collectors outlive configurations, each of which has a registry of its own.
func TestMetricsCountAttemptsOverReloads(t *testing.T) {
	i := newInstance(t)
	require.NoError(t, i.load(smallest))
	const counter = "caddy_pay_offer_payment_attempts_total"
	before := metric(t, counter)
	svc := running.newest().offers()[0]
	pay := meteredPayments{svc.payments, svc.offer.ID}

	require.Equal(t, x402.Malformed, pay.Pay(t.Context(), x402.Attempt{Payload: []byte("{")}).Status)
	require.NoError(t, i.load(smallest))

	require.InDelta(t, before+1, metric(t, counter), 0)
	require.Zero(t, metric(t, "caddy_pay_offer_open_intents"))
}
