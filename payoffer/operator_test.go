package payoffer

import (
	"encoding/base64"
	"net/http"
	"testing"

	"github.com/caddyserver/caddy/v2"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// pay sends a payment payload and returns the status of the answer.
func (i *instance) pay(payload string) int {
	i.t.Helper()
	request := must(http.NewRequestWithContext(i.t.Context(), http.MethodPost, i.service+offer.PathSponsor, nil))(i.t)
	request.Header.Set(x402.HeaderSignature, base64.StdEncoding.EncodeToString([]byte(payload)))
	response := must(i.client.Do(request))(i.t)
	defer response.Body.Close()
	return response.StatusCode
}

// gathered are the metrics of the configuration that runs.
func gathered(t *testing.T) []*dto.MetricFamily {
	t.Helper()
	ctx := caddy.ActiveContext()
	return must(ctx.GetMetricsRegistry().Gather())(t)
}

// metric is the sum of a metric.
func metric(t *testing.T, name string) float64 {
	t.Helper()
	families := gathered(t)
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
	require.Equal(t, http.StatusBadRequest, i.pay("{"))
	require.NoError(t, i.load(smallest))

	require.InDelta(t, before+1, metric(t, counter), 0)
	require.Zero(t, metric(t, "caddy_pay_offer_open_intents"))
}
