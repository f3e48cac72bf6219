package payoffer

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// The first delivery that could not be stored is an increase, for which the
// counter must have stood at zero before.
func TestWebhooksAreCountedFromZero(t *testing.T) {
	i := newInstance(t)
	require.NoError(t, i.load(`SERVICE {
	pay_offer {
		base_url SERVICE
		card https://checkout.example/pay {
			payment_link plink_1
			webhook_secret whsec_test
		}
		storefront pack https://pack.example/42 {
			product p
			hook_secret 0123456789abcdef
		}
		storefront tip-jar https://tip-jar.example/42
	}
}
`))

	stored := make(map[string]float64) // by rail
	for _, family := range gathered(t) {
		for _, m := range family.GetMetric() {
			labels := make(map[string]string)
			for _, label := range m.GetLabel() {
				labels[label.GetName()] = label.GetValue()
			}
			if family.GetName() == "caddy_pay_offer_webhook_deliveries_total" &&
				labels["offer"] == offer.Host(i.service) && labels["verdict"] == "unavailable" {
				stored[labels["rail"]] = m.GetCounter().GetValue()
			}
		}
	}
	require.Equal(t, map[string]float64{"card": 0, "pack": 0}, stored)
}

func TestMetricsShowAWrongClock(t *testing.T) {
	i := newInstance(t)
	require.NoError(t, i.load(smallest))
	const gauge = "caddy_pay_offer_clock_offset_seconds"
	require.Zero(t, metric(t, gauge))
	for _, host := range []string{"one.example", "two.example"} {
		activeApp().share.Clock.Date(host, time.Now().Add(time.Hour))
	}
	require.InDelta(t, -3600, metric(t, gauge), 3)
	require.Contains(t, i.log(), "the clock of this machine is wrong")
	require.NoError(t, i.load(smallest+"# changed\n"))
	require.InDelta(t, -3600, metric(t, gauge), 3, "a reload does not forget")
}
