package card

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
)

const linkWarning = "paid checkout of another payment link"

// reports are the two ways on which Stripe reports a payment, each to the end of what happened so far.
var reports = map[string]func(*testing.T, *rig){
	"webhook": func(t *testing.T, r *rig) {
		for _, body := range r.processor.Events() {
			require.Contains(t, []observe.Verdict{observe.Ignored, observe.Recorded}, r.deliver(t, body), "Stripe does not repeat it")
		}
	},
	"reconcile": func(t *testing.T, r *rig) { require.NoError(t, r.try(t)) },
}

func TestOtherLinkWarningOncePerDay(t *testing.T) {
	t.Parallel()
	for name, report := range reports {
		t.Run(name, func(t *testing.T) {
			r := newReadRig(t, nil)
			r.processor.Pay("plink_other", 4200, false)
			r.processor.Pay("plink_other", 4200, false)
			r.processor.Pay(testLink, 4200, false)
			report(t, r)
			report(t, r)
			require.Equal(t, 1, strings.Count(r.log.String(), linkWarning), r.log.String())
			require.Contains(t, r.log.String(), "level=WARN")
			require.Contains(t, r.log.String(), "payment_link="+testLink+" paid_link=plink_other")
			require.NotContains(t, r.log.String(), "payer@example.com")
			require.Equal(t, "plink_other", r.Health().OtherLinks)
			require.Len(t, outcomes(t, r.db), 1, "only the offer's own payment counts")

			r.clock.Pass(day)
			r.processor.Pay("plink_another", 4200, false)
			r.processor.Pay("plink_other", 4200, false)
			report(t, r)
			require.Equal(t, 3, strings.Count(r.log.String(), linkWarning), "each link, and each day")
			require.Equal(t, "plink_another plink_other", r.Health().OtherLinks)
		})
	}
}

// A delivery that the API has read, too, is one payment.
func TestOtherLinkWarningIsNotDuplicated(t *testing.T) {
	t.Parallel()
	r := newReadRig(t, nil)
	r.processor.Pay("plink_other", 4200, false)
	reports["webhook"](t, r)
	r.clock.Pass(day / 24)
	reports["reconcile"](t, r)
	require.Equal(t, 1, strings.Count(r.log.String(), linkWarning))
}

func TestOtherLinkIgnoresUnpaidCheckout(t *testing.T) {
	t.Parallel()
	for name, pay := range map[string]func(r *rig){
		"not paid yet":             func(r *rig) { r.processor.Pay("plink_other", 4200, true) },
		"failed":                   func(r *rig) { r.processor.Fail(r.processor.Pay("plink_other", 4200, true)) },
		"without a link":           func(r *rig) { r.processor.Pay("", 4200, false) },
		"with a link of no form":   func(r *rig) { r.processor.Pay("plink other", 4200, false) },
		"with an id of no link":    func(r *rig) { r.processor.Pay("prod_other", 4200, false) },
		"of the offer's own link":  func(r *rig) { r.processor.Pay(testLink, 4200, false) },
		"a refund of another link": func(r *rig) { r.processor.Refund(r.processor.Pay(testLink, 4200, false), 100, "succeeded") },
	} {
		for from, report := range reports {
			t.Run(name+", "+from, func(t *testing.T) {
				r := newReadRig(t, nil)
				pay(r)
				report(t, r)
				require.NotContains(t, r.log.String(), linkWarning)
				require.Empty(t, r.Health().OtherLinks)
			})
		}
	}
}

// A delayed payment is paid when it arrives.
func TestOtherLinkDelayedPaymentIsReported(t *testing.T) {
	t.Parallel()
	r := newReadRig(t, nil)
	r.processor.Settle(r.processor.Pay("plink_other", 4200, true))
	reports["webhook"](t, r)
	require.Equal(t, 1, strings.Count(r.log.String(), linkWarning))
}

func TestOtherLinksAreBounded(t *testing.T) {
	t.Parallel()
	r := newReadRig(t, nil)
	for i := range maxLinks + 5 {
		r.processor.Pay(fmt.Sprint("plink_", i), 4200, false)
	}
	reports["webhook"](t, r)
	require.Len(t, strings.Fields(r.Health().OtherLinks), maxLinks)
	require.Equal(t, maxLinks, strings.Count(r.log.String(), linkWarning))
	r.clock.Pass(day)
	r.processor.Pay("plink_0", 4200, false)
	r.processor.Pay("plink_new", 4200, false)
	reports["webhook"](t, r)
	require.Equal(t, maxLinks+1, strings.Count(r.log.String(), linkWarning), "known links are still reported")
}

func TestOtherLinkIgnoresEarlierCheckout(t *testing.T) {
	t.Parallel()
	for name, report := range reports {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			r.processor.Pay("plink_other", 4200, false)
			r.clock.Pass(2 * day)
			r.started(t)
			r.Observer = r.observer(t, nil)
			require.NoError(t, r.try(t))
			report(t, r)
			require.Empty(t, r.Health().OtherLinks)
			r.processor.Pay("plink_other", 4200, false)
			report(t, r)
			require.Equal(t, "plink_other", r.Health().OtherLinks)
		})
	}
}
