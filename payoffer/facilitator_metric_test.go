package payoffer

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// A facilitator that several offers use is up when it is for all of them.
func TestMetricsShowWhichFacilitatorsAreAsked(t *testing.T) {
	const base, sepolia = "eip155:8453", "eip155:84532"
	up := make(map[string]float64)
	gauges{}.facilitators(func(desc *prometheus.Desc, value float64, labels ...string) {
		require.Same(t, gaugeFacilitator, desc)
		up[labels[0]+" "+labels[1]] = value
	}, []x402.FacilitatorHealth{
		{Host: "one.example", Network: base}, {Host: "two.example", Network: base, Reason: "timeout"},
		{Host: "one.example", Network: sepolia, Reason: x402.ReasonUnfunded}, {Host: "two.example", Network: base},
	})
	require.Equal(t, map[string]float64{"one.example " + base: 1, "one.example " + sepolia: 1, "two.example " + base: 0}, up)
}
