package card

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// TestDeliveriesWithAnotherSecretAreReported: nothing else tells the operator that a
// secret was copied from the wrong endpoint.
func TestDeliveriesWithAnotherSecretAreReported(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Config){"webhooks alone": withoutKey, "with a key": nil} {
		t.Run(name, func(t *testing.T) {
			r := newReadRig(t, change)
			well := r.Health()
			r.processor.Pay(testLink, 4200, false)
			body := r.processor.Events()[0]
			for range 9 {
				r.clock.pass(time.Second)
				verdict, _ := r.Receive(t.Context(), delivery(body, payoffertest.SignDelivery(body, r.clock.Now(), "whsec_of_another_endpoint")))
				require.Equal(t, observe.Unverified, verdict)
			}
			health := r.Health()
			require.Equal(t, observe.ErrUnverified, health.LastError)
			health.LastError = ""
			require.Equal(t, well, health, "neither fresher nor worse observed")
			require.Equal(t, 1, strings.Count(r.log.String(), "level=WARN"))
			require.Contains(t, r.log.String(), "option=webhook_secret")
			require.NotContains(t, r.log.String(), "whsec_")

			require.Equal(t, observe.Recorded, r.deliver(t, body))
			require.Empty(t, r.Health().LastError)
			require.Equal(t, 1, strings.Count(r.log.String(), "level=WARN"))
			require.Equal(t, 1, strings.Count(r.log.String(), "level=INFO"))
		})
	}
}

// TestForgedDeliveriesAreNotReported: only what could be the processor's,
// sent just now, says something of the secret.
func TestForgedDeliveriesAreNotReported(t *testing.T) {
	t.Parallel()
	r := newReadRig(t, nil)
	now := r.clock.Now()
	old := payoffertest.SignDelivery([]byte("x"), now.Add(-time.Hour), "whsec_other_0123456789abcdef")
	for _, header := range [][]string{
		nil, {""}, {"t=1,v1=00"}, {old}, {"v1=" + strings.Repeat("0", 64)}, {payoffertest.SignDelivery([]byte("x"), now)},
		{payoffertest.SignDelivery([]byte("x"), now) + ",v1=short"}, {"a", "b"},
	} {
		verdict, _ := r.Receive(t.Context(), delivery([]byte("x"), header...))
		require.Equal(t, observe.Unverified, verdict)
	}
	require.Empty(t, r.Health().LastError)
	require.Empty(t, r.log.String())
}

// TestAMalformedEventIsReported.
func TestAMalformedEventIsReported(t *testing.T) {
	t.Parallel()
	r := newRig(t, withoutKey)
	r.processor.Pay(testLink, 4200, false)
	require.Equal(t, observe.Recorded, r.deliver(t, r.processor.Events()[0]))
	well := r.Health()
	require.EqualValues(t, testStart, well.At)
	r.clock.pass(time.Hour)
	for range 3 {
		require.Equal(t, observe.Malformed, r.deliver(t, []byte(strings.Replace(paidEvent, "4200", "-1", 1))))
	}
	well.LastError = observe.ErrMalformed
	require.Equal(t, well, r.Health())
	require.Equal(t, 1, strings.Count(r.log.String(), "level=WARN"))
	require.Contains(t, r.log.String(), "amount_total is negative")

	require.Equal(t, observe.Recorded, r.deliver(t, r.processor.Events()[0]))
	require.Empty(t, r.Health().LastError)
	require.EqualValues(t, r.clock.Now().Unix(), r.Health().At)
}

// TestAFullDiskIsLoggedOnce: each delivery is refused, and the log has one line.
func TestAFullDiskIsLoggedOnce(t *testing.T) {
	t.Parallel()
	r := newReadRig(t, withoutKey)
	r.processor.Pay(testLink, 4200, false)
	repair := refuseWrites(t, r)
	for range 5 {
		require.Equal(t, observe.Unavailable, r.deliver(t, r.processor.Events()[0]))
	}
	require.Equal(t, observe.ErrLedger, r.Health().LastError)
	require.Equal(t, 1, strings.Count(r.log.String(), "\n"), r.log.String())
	require.Contains(t, r.log.String(), "disk")
	require.NoError(t, r.try(t))
	require.Equal(t, observe.ErrLedger, r.Health().LastError, "that it can be read says nothing")
	repair()
	require.Equal(t, observe.Recorded, r.deliver(t, r.processor.Events()[0]))
	require.Empty(t, r.Health().LastError)
	require.Equal(t, 2, strings.Count(r.log.String(), "\n"))
}
