package card

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/cases"
)

// TestReconcileAfterOutage loses every webhook while payments of all
// kinds go on, some begun before the outage, and reads the API once after it.
func TestReconcileAfterOutage(t *testing.T) {
	t.Parallel()
	for _, days := range []time.Duration{1, 29, 30, 400, 10, 28, 40}[:cases.Of(4, 7, 7)] {
		t.Run(fmt.Sprintf("%d days", days), func(t *testing.T) {
			r := newReadRig(t, nil)
			m := newMarket(r.processor)
			m.trade(r.clock, 12, day/8)
			r.deliverAll(t, 0)
			require.NoError(t, r.try(t))
			requireOutcomes(t, m.outcomes(), outcomes(t, r.db))

			m.trade(r.clock, 24, days*day/24)
			r.Observer = r.observer(t, nil)
			require.NoError(t, r.try(t))
			requireOutcomes(t, m.outcomes(), outcomes(t, r.db))
			health := r.Health()
			require.Equal(t, r.clock.Now().UTC().Format(time.RFC3339), health.ObservedThrough)
			require.False(t, health.Partial)
		})
	}
}

// TestReconcileWithKeyOnly begins to read an old account in
// the middle of many payments.
func TestReconcileWithKeyOnly(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) { c.Secret = "" })
	_, err := r.loadScope(t.Context()) // the first start, and no reading for months
	require.NoError(t, err)
	m := newMarket(r.processor)
	m.trade(r.clock, 250, 90*day/250)
	require.NoError(t, r.try(t))
	require.Greater(t, len(m.payments), 200, "one page would do")
	requireOutcomes(t, m.outcomes(), outcomes(t, r.db))

	m.trade(r.clock, 250, time.Minute)
	before := len(r.processor.Calls())
	require.NoError(t, r.try(t))
	requireOutcomes(t, m.outcomes(), outcomes(t, r.db))
	for _, call := range r.processor.Calls()[before:] {
		prices := strings.HasPrefix(call, linkItems)
		require.True(t, prices || strings.HasPrefix(call, "/v1/events?"), "a short gap takes events alone: %s", call)
	}
}

// market is many payments of the link, and some of another.
type market struct {
	processor *payoffertest.Processor
	rng       *rand.Rand
	payments  []string
	models    map[string]*model
}

func newMarket(p *payoffertest.Processor) *market {
	return &market{processor: p, rng: rand.New(rand.NewPCG(4, 3)), models: map[string]*model{}}
}

// trade makes n payments, and moves as many of all that there are on.
func (m *market) trade(clock *payoffertest.Clock, n int, pause time.Duration) {
	for range n {
		clock.Pass(pause)
		delayed := m.rng.IntN(2) == 0
		intent := m.processor.Pay(testLink, 4200, delayed)
		m.payments = append(m.payments, intent)
		m.models[intent] = &model{
			amount: 4200, paid: !delayed, refunds: map[string]int64{}, pending: map[string]int64{}, left: 4200,
		}
		m.processor.Refund(m.processor.Pay("plink_other", 100, false), 100, "succeeded")
		old := m.payments[m.rng.IntN(len(m.payments))]
		m.models[old].step(m.rng, m.processor, old)
	}
	clock.Pass(pause)
}

func (m *market) outcomes() map[string]outcome {
	ends := map[string]outcome{}
	for intent, model := range m.models {
		ends[intent] = model.end()
	}
	return ends
}

func TestReconcileFailureLosesNothing(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		reply payoffertest.ProcessorReply
		want  string
	}{
		"key refused":           {payoffertest.ProcessorReply{Status: http.StatusUnauthorized}, observe.ErrUnauthorized},
		"key may not read this": {payoffertest.ProcessorReply{Status: http.StatusForbidden}, observe.ErrUnauthorized},
		"too many calls":        {payoffertest.ProcessorReply{Status: http.StatusTooManyRequests}, observe.ErrLimited},
		"dead":                  {payoffertest.ProcessorReply{Unreachable: true}, observe.ErrUnreachable},
		"broken":                {payoffertest.ProcessorReply{Status: http.StatusBadGateway}, observe.ErrUnreachable},
		"unknown link":          {payoffertest.ProcessorReply{Status: http.StatusNotFound}, observe.ErrBadAnswer},
		"a redirect": {payoffertest.ProcessorReply{Status: http.StatusFound, Location: "https://elsewhere.example/"},
			observe.ErrBadAnswer},
		"a login page":         {payoffertest.ProcessorReply{Body: "<html>"}, observe.ErrBadAnswer},
		"no list":              {payoffertest.ProcessorReply{Body: `{"object":"list","has_more":false}`}, observe.ErrBadAnswer},
		"something else":       {payoffertest.ProcessorReply{Body: `{"object":"charge","data":[],"has_more":false}`}, observe.ErrBadAnswer},
		"more of nothing":      {payoffertest.ProcessorReply{Body: `{"object":"list","data":[],"has_more":true}`}, observe.ErrBadAnswer},
		"the same page again":  {payoffertest.ProcessorReply{Body: `{"object":"list","data":[{"id":"evt_1"}],"has_more":true}`}, observe.ErrBadAnswer},
		"a giant answer":       {payoffertest.ProcessorReply{Body: strings.Repeat(" ", maxAnswer+1)}, observe.ErrBadAnswer},
		"items without an id":  {payoffertest.ProcessorReply{Body: `{"object":"list","data":[7],"has_more":true}`}, observe.ErrBadAnswer},
		"has_more left unsaid": {payoffertest.ProcessorReply{Body: `{"object":"list","data":[]}`}, observe.ErrBadAnswer},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReadRig(t, nil)
			intent := r.processor.Pay(testLink, 4200, false)
			cursor, _, err := r.db.Cursor(t.Context(), "shop", testAccount)
			require.NoError(t, err)

			before := len(r.processor.Calls())
			r.processor.SetReply(test.reply)
			require.Error(t, r.try(t))
			require.LessOrEqual(t, len(r.processor.Calls()), before+4, "it is asked again and again")
			require.Equal(t, test.want, r.Health().LastError)
			require.True(t, r.Health().Partial)
			require.Contains(t, r.log.String(), "api.stripe.com")
			require.NotContains(t, r.log.String(), testKey)
			require.NotContains(t, r.log.String(), "elsewhere")
			kept, _, err := r.db.Cursor(t.Context(), "shop", testAccount)
			require.NoError(t, err)
			require.Equal(t, cursor, kept, "the cursor moved over what was not read")

			r.processor.SetReply(payoffertest.ProcessorReply{})
			require.NoError(t, r.try(t))
			require.Contains(t, outcomes(t, r.db), intent)
			require.Empty(t, r.Health().LastError)
		})
	}
}

func TestReconcileFindsLateEvents(t *testing.T) {
	t.Parallel()
	r := newReadRig(t, nil)
	intent := r.processor.Pay(testLink, 4200, false)
	r.clock.Pass(time.Minute)
	r.processor.SetReply(payoffertest.ProcessorReply{Body: `{"object":"list","data":[],"has_more":false}`})
	require.NoError(t, r.try(t))
	require.Empty(t, outcomes(t, r.db))
	r.clock.Pass(interval)
	r.processor.SetReply(payoffertest.ProcessorReply{})
	require.NoError(t, r.try(t))
	require.Contains(t, outcomes(t, r.db), intent)
}

// A link of another account, and a key that may not read checkouts, show at once.
func TestFirstStartRequestsLink(t *testing.T) {
	t.Parallel()
	r := newReadRig(t, nil)
	require.True(t, slices.ContainsFunc(r.processor.Calls(), func(call string) bool {
		return strings.HasPrefix(call, "/v1/checkout/sessions?") && strings.Contains(call, "payment_link="+testLink)
	}))
	before := len(r.processor.Calls())
	require.NoError(t, r.observer(t, nil).try(t))
	require.Len(t, r.processor.Calls(), before+2, "a restart reads the prices and what is new")
}

func TestReconcileSkipsUnreadableEvent(t *testing.T) {
	t.Parallel()
	r := newReadRig(t, nil)
	good := strings.ReplaceAll(paidEvent, "\n\t", "")
	bad := strings.NewReplacer("4200", "-1", "pi_1", "pi_2", "evt_1", "evt_2").Replace(good)
	r.processor.SetReply(payoffertest.ProcessorReply{Body: `{"object":"list","has_more":false,"data":[` + bad + `,7,` + good + `]}`})
	require.NoError(t, r.try(t))
	require.Equal(t, map[string]outcome{"pi_1": {ledger.StatusConfirmed, 4200, 0}}, outcomes(t, r.db))
}

// What was read is counted by the
// processor's clock.
func TestReconcileWithWrongClock(t *testing.T) {
	t.Parallel()
	for _, off := range []time.Duration{day, -day} {
		r := newReadRig(t, nil)
		ours := r.observer(t, func(c *Config) { c.Now = func() time.Time { return r.clock.Now().Add(off) } })
		require.NoError(t, ours.try(t))
		for range 3 {
			r.clock.Pass(time.Hour)
			intent := r.processor.Pay(testLink, 4200, false)
			require.NoError(t, ours.try(t))
			require.Contains(t, outcomes(t, r.db), intent)
		}
	}
}

func TestHealthReportsMissingSources(t *testing.T) {
	t.Parallel()
	t.Run("webhooks alone", func(t *testing.T) {
		r := newReadRig(t, withoutKey)
		require.Equal(t, observe.Health{Rail: "card", Source: "webhook", Refunds: true, Partial: true}, r.Health())
		r.processor.Pay(testLink, 4200, false)
		r.deliverAll(t, 0)
		heard := observe.Health{Rail: "card", Source: "webhook", Refunds: true, Partial: true, At: testStart}
		require.Equal(t, heard, r.Health())
		restarted := r.observer(t, withoutKey)
		require.NoError(t, restarted.try(t))
		require.Equal(t, heard, restarted.Health(), "a restart forgot the last delivery")

		require.NoError(t, r.db.Close())
		require.Equal(t, observe.Unavailable, r.deliver(t, r.processor.Events()[0]))
		require.Equal(t, observe.ErrLedger, r.Health().LastError)
		require.NoError(t, r.db.Open(t.Context()))
		require.Equal(t, observe.Recorded, r.deliver(t, r.processor.Events()[0]))
		require.Empty(t, r.Health().LastError)
	})
	t.Run("webhooks and key", func(t *testing.T) {
		r := newRig(t, nil)
		require.Equal(t, observe.Health{Rail: "card", Source: "provider", Refunds: true, Partial: true, Blind: true}, r.Health(), "since when does money count?")
		require.NoError(t, r.try(t))
		require.Equal(t, observe.Health{
			Rail: "card", Source: "provider", Refunds: true, ObservedThrough: "2026-11-21T08:33:20Z", At: testStart}, r.Health())
	})
	t.Run("key alone, dead for days", func(t *testing.T) {
		r := newRig(t, func(c *Config) { c.Secret = "" })
		require.True(t, r.Health().Blind)
		require.NoError(t, r.try(t))
		require.False(t, r.Health().Blind)
		r.processor.SetReply(payoffertest.ProcessorReply{Unreachable: true})
		r.clock.Pass(3 * day)
		require.Error(t, r.try(t))
		require.Equal(t, observe.Health{
			Rail: "card", Source: "provider", Refunds: true, Blind: true, Partial: true, ObservedThrough: "2026-11-21T08:33:20Z",
			At: testStart, LastError: observe.ErrUnreachable}, r.Health())
	})
}
