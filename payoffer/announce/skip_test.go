package announce

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

const threeDays = skipAfter * time.Second

// always answers every request of a test alike, for as many as it may make.
func always(r reply) (script []reply) {
	for range 2_000 {
		script = append(script, r)
	}
	return script
}

// Whatever a receiver does but to answer 2xx, the announcement waits and comes before
// the next one: for good, unless the event may be at fault.
func TestTroubleOfAReceiverSkipsNothing(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		reply   reply
		code    string
		skipped bool // after three days
	}{
		"not found":             {reply{Status: 404}, "refused", true},
		"timeout":               {reply{Status: 408}, "refused", false},
		"gone":                  {reply{Status: 410}, "gone", false},
		"too early":             {reply{Status: 425}, "refused", false},
		"too many":              {reply{Status: 429}, "rate_limited", false},
		"server error":          {reply{Status: 503, Body: 1 << 20}, "server_error", false},
		"found elsewhere":       {reply{Status: 302, Location: "/elsewhere"}, "redirected", false},
		"not modified":          {reply{Status: 304}, "redirected", false},
		"answer lost on return": {reply{Drop: true}, "unreachable", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, receiver, a := listening(t)
			d.pay()
			d.pay()
			receiver.Script(always(test.reply)...)
			a.rounds(t.Context())
			require.Equal(t, EndpointHealth{Host: receiver.Host(), Behind: 2, LastError: test.code}, a.health()[0])
			a.rounds(t.Context())
			require.Len(t, receiver.Requests(), 1, "not before the pause is over")
			for _, requests := range []int{2, 2} { // the pause is longer after the second
				d.after(pauseFirst, a)
				require.Len(t, receiver.Requests(), requests)
			}
			for range 10 {
				if !test.skipped {
					d.after(threeDays, a)
				}
			}
			require.Empty(t, taken(t, receiver))
			receiver.Script()
			d.after(pauseMost, a)
			require.Equal(t, []string{"card:pi_1:1", "card:pi_2:1"}, taken(t, receiver))
			require.Equal(t, EndpointHealth{Host: receiver.Host()}, a.health()[0])
			d.requireLogged(1, "level=WARN")
			d.requireLogged(1, "level=INFO")
			d.requireLogged(2, receiver.Host())
			d.requireLogged(0, "secret-path")
			for _, got := range receiver.Requests() {
				require.Equal(t, "/hook/secret-path", got.Path, "nobody else was told")
			}
		})
	}
}

func TestARestartDoesNotBeginTheThreeDaysAgain(t *testing.T) {
	d, receiver := newFixture(t), payoffertest.NewReceiver(t)
	receiver.Script(reply{Status: 422}, reply{Status: 422}, reply{Status: 422}, reply{Status: 422})
	a := d.announcer(receiver)
	d.pay()
	d.pay()
	for range 4 {
		a.rounds(t.Context())
		a.leave(t.Context())
		d.clock.pass(24 * time.Hour)
		a = d.announcer(receiver)
	}
	require.Equal(t, []string{"card:pi_2:1"}, taken(t, receiver))
}

func TestAHandlerThatAlwaysFailsIsTriedWithPausesAndSkippedAsAReceiverIs(t *testing.T) {
	d := newFixture(t)
	var raised []string
	a := d.configured(Config{Emit: func(_ string, data map[string]any) error {
		raised = append(raised, payoffertest.Untagged(t, data["id"].(string)))
		if raised[len(raised)-1] == "card:pi_1:1" {
			return errors.New("the disk of Jane Roe is full")
		}
		return nil
	}})
	d.pay()
	d.pay()
	a.rounds(t.Context())
	a.rounds(t.Context())
	require.Equal(t, []string{"card:pi_1:1"}, raised, "in order, and not before the pause is over")
	require.Equal(t, EndpointHealth{Host: "events", Behind: 2, LastError: "handler_failed"}, a.health()[0])
	d.after(pauseFirst, a)
	require.Equal(t, []string{"card:pi_1:1", "card:pi_1:1"}, raised)
	d.after(threeDays, a)
	require.Equal(t, []string{"card:pi_1:1", "card:pi_1:1", "card:pi_1:1", "card:pi_2:1"}, raised)
	d.requireLogged(0, "Jane")
}

// The ledger keeps the place of a receiver whose event it could not skip.
func TestALedgerThatCannotBeWrittenSkipsNothing(t *testing.T) {
	d, receiver, a := listening(t)
	d.pay()
	d.pay()
	receiver.Script(always(reply{Status: 400})...)
	a.rounds(t.Context())
	d.outbox.unwritable.Store(true)
	d.after(threeDays, a)
	require.Equal(t, "ledger_unavailable", a.health()[0].LastError)
	d.requireLogged(0, "skipped after three days")
	d.outbox.unwritable.Store(false)
	d.clock.pass(time.Hour)
	receiver.Script(reply{Status: 400})
	a.rounds(t.Context())
	require.Equal(t, []string{"card:pi_2:1"}, taken(t, receiver))
}
