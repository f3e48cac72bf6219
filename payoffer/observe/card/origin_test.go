package card

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// started notes in a new ledger when the process was first started.
func (r *rig) started(t testing.TB) {
	t.Helper()
	require.NoError(t, r.db.Register(t.Context(), ledger.Account{Offer: "shop", ID: testAccount, Rail: "card", Since: r.clock.Now().Unix()}))
}

func (r *rig) requireOrigin(t testing.TB, origin string) {
	t.Helper()
	account, err := r.db.Account(t.Context(), "shop", testAccount)
	require.NoError(t, err)
	require.Equal(t, origin, account.Origin)
}

func since(at int64, change func(*Config)) func(*Config) {
	return func(c *Config) {
		if c.Since = at; change != nil {
			change(c)
		}
	}
}

// The first answer came a day late.
func TestOriginCountsOutageAtFirstStart(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	early := r.processor.Pay(testLink, 4200, false)
	r.clock.Pass(time.Minute)
	r.started(t)
	require.NoError(t, r.db.Close()) // and nothing can be read or stored
	require.Error(t, r.try(t))
	require.True(t, r.Health().Blind, "0 would be a lie")
	intent := r.processor.Pay(testLink, 4200, false)
	r.clock.Pass(day)
	require.NoError(t, r.db.Open(t.Context()))
	r.Observer = r.observer(t, nil) // a restart is no first start
	require.NoError(t, r.try(t))
	require.False(t, r.Health().Blind)
	require.NotContains(t, outcomes(t, r.db), early)
	require.Contains(t, outcomes(t, r.db), intent)
}

// The clock of the machine is right, a day ahead or a day behind.
func TestOriginUsesClockOffset(t *testing.T) {
	t.Parallel()
	for _, ahead := range []time.Duration{0, day, -day} {
		for _, known := range []bool{true, false} { // at the first round, or soon after
			t.Run(fmt.Sprint(ahead, known), func(t *testing.T) {
				r := newRig(t, nil)
				offset := time.Duration(0)
				wrong := func(c *Config) {
					c.Now = func() time.Time { return r.clock.Now().Add(ahead) }
					c.ClockOffset = func() time.Duration { return offset }
				}
				require.NoError(t, r.db.Register(t.Context(), ledger.Account{
					Offer: "shop", ID: testAccount, Rail: "card", Since: r.clock.Now().Add(ahead).Unix()}))
				r.Observer = r.observer(t, wrong)
				if known {
					offset = ahead
				}
				require.NoError(t, r.try(t))
				offset = ahead
				r.clock.Pass(time.Minute)
				intent := r.processor.Pay(testLink, 4200, false)
				r.clock.Pass(time.Minute)
				require.NoError(t, r.try(t))
				require.Contains(t, outcomes(t, r.db), intent)
				if ahead > 0 || ahead == 0 && known {
					r.requireOrigin(t, fmt.Sprint(testStart))
				}
			})
		}
	}
}

func TestLowerOriginRereadsOnce(t *testing.T) {
	t.Parallel()
	for _, days := range []time.Duration{10, 200} {
		t.Run(fmt.Sprint(days), func(t *testing.T) {
			r := newRig(t, nil)
			tooEarly := r.processor.Pay(testLink, 4200, false)
			r.clock.Pass(day)
			from := r.clock.Now().Unix()
			early := r.processor.Pay(testLink, 4200, true)
			r.processor.Refund(r.processor.Pay(testLink, 4200, false), 4200, "succeeded")
			r.clock.Pass(days * day)
			r.processor.Settle(early)
			r.processor.Refund(early, 1000, "succeeded")
			r.clock.Pass(time.Minute)
			r.started(t)
			r.Observer = r.observer(t, nil)
			require.NoError(t, r.try(t))
			intent := r.processor.Pay(testLink, 4200, false)
			r.clock.Pass(time.Minute)
			require.NoError(t, r.try(t))
			require.Equal(t, map[string]outcome{intent: {ledger.StatusConfirmed, 4200, 0}}, outcomes(t, r.db))
			unseen := r.processor.Pay(testLink, 4200, false)
			r.clock.Pass(2 * time.Hour)
			_, err := r.db.Record(t.Context(), &ledger.Cursor{ // what was never read
				Offer: "shop", Account: testAccount, Position: strconv.FormatInt(r.clock.Now().Unix(), 10)})
			require.NoError(t, err)
			require.NoError(t, r.try(t))
			require.Len(t, outcomes(t, r.db), 1)

			r.Observer = r.observer(t, since(from, nil))
			r.processor.SetReply(payoffertest.ProcessorReply{Unreachable: true})
			require.Error(t, r.try(t))
			require.True(t, r.Health().Partial)
			require.Contains(t, r.log.String(), "are read again")

			r.processor.SetReply(payoffertest.ProcessorReply{})
			r.Observer = r.observer(t, nil) // also once the option is gone
			require.NoError(t, r.try(t))
			found := outcomes(t, r.db)
			require.Len(t, found, 4)
			require.Contains(t, found, unseen)
			require.NotContains(t, found, tooEarly)
			require.Equal(t, outcome{ledger.StatusConfirmed, 4200, 1000}, found[early])
			r.requireOrigin(t, fmt.Sprint(from))
			transitions, err := r.db.Transitions(t.Context(), "shop", 0, 100)
			require.NoError(t, err)
			for _, transition := range transitions {
				require.Equal(t, transition.ExternalID != intent && transition.ExternalID != unseen, transition.Cause == ledger.CauseBackfilled, transition)
			}
			before := len(r.processor.Calls())
			require.NoError(t, r.observer(t, since(from, nil)).try(t))
			require.Len(t, r.processor.Calls(), before+2, "it is not read back again")
		})
	}
}

// TestLowerOriginWithoutKeyAcceptsWebhooks.
func TestLowerOriginWithoutKeyAcceptsWebhooks(t *testing.T) {
	t.Parallel()
	r := newRig(t, withoutKey)
	from := r.clock.Now().Unix()
	intent := r.processor.Pay(testLink, 4200, false)
	r.clock.Pass(time.Hour * 2)
	r.started(t)
	r.Observer = r.observer(t, withoutKey)
	require.NoError(t, r.try(t))
	require.Equal(t, observe.Ignored, r.deliver(t, r.processor.Events()[0]))

	r.Observer = r.observer(t, since(from, withoutKey))
	require.NoError(t, r.try(t))
	require.Contains(t, r.log.String(), "level=WARN")
	require.Contains(t, r.log.String(), "api_key")
	require.Equal(t, observe.Recorded, r.deliver(t, r.processor.Events()[0]))
	require.Contains(t, outcomes(t, r.db), intent)
}

// Nothing else tells the operator that a
// secret was copied from the wrong endpoint.
func TestWrongWebhookSecretIsReported(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Config){"webhooks alone": withoutKey, "with a key": nil} {
		t.Run(name, func(t *testing.T) {
			r := newReadRig(t, change)
			well := r.Health()
			r.processor.Pay(testLink, 4200, false)
			body := r.processor.Events()[0]
			for range 9 {
				r.clock.Pass(time.Second)
				verdict, _ := r.Receive(t.Context(), delivery(body, payoffertest.SignDelivery(body, r.clock.Now(), "whsec_of_another_endpoint")))
				require.Equal(t, observe.Unverified, verdict)
			}
			health := r.Health()
			require.Equal(t, observe.ErrUnverified, health.LastError)
			require.Equal(t, observe.ErrUnverified, health.Deliveries)
			health.LastError, health.Deliveries = "", ""
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

// Only what could be the processor's,
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

// TestMalformedEventIsReported.
func TestMalformedEventIsReported(t *testing.T) {
	t.Parallel()
	r := newRig(t, withoutKey)
	r.processor.Pay(testLink, 4200, false)
	require.Equal(t, observe.Recorded, r.deliver(t, r.processor.Events()[0]))
	well := r.Health()
	require.EqualValues(t, testStart, well.At)
	r.clock.Pass(time.Hour)
	for range 3 {
		require.Equal(t, observe.Malformed, r.deliver(t, []byte(strings.Replace(paidEvent, "4200", "-1", 1))))
	}
	well.LastError, well.Deliveries = observe.ErrMalformed, observe.ErrMalformed
	require.Equal(t, well, r.Health())
	require.Equal(t, 1, strings.Count(r.log.String(), "level=WARN"))
	require.Contains(t, r.log.String(), "/amount_total")

	require.Equal(t, observe.Recorded, r.deliver(t, r.processor.Events()[0]))
	require.Empty(t, r.Health().LastError)
	require.EqualValues(t, r.clock.Now().Unix(), r.Health().At)
}

// Each delivery is refused, and the log has one line.
func TestFullDiskIsLoggedOnce(t *testing.T) {
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
