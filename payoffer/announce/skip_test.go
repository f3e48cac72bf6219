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

// What fails by no fault of the event is retried until the receiver answers.
func TestTroubleOfAReceiverSkipsNothing(t *testing.T) {
	t.Parallel()
	for name, trouble := range map[string]reply{
		"timeout": {Status: 408}, "gone": {Status: 410}, "too early": {Status: 425}, "too many": {Status: 429},
		"broken": {Status: 500}, "away": {Status: 503}, "moved": {Status: 308, Location: "/"}, "unreachable": {Drop: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, receiver := newFixture(t), payoffertest.NewReceiver(t)
			a := d.announcer(receiver)
			d.pay()
			d.pay()
			receiver.Script(always(trouble)...)
			for range 10 {
				a.rounds(t.Context())
				d.clock.pass(threeDays)
			}
			require.Empty(t, taken(t, receiver))
			receiver.Script()
			a.rounds(t.Context())
			require.Equal(t, []string{"card:pi_1:1", "card:pi_2:1"}, taken(t, receiver))
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
	d.clock.pass(pauseFirst)
	a.rounds(t.Context())
	require.Equal(t, []string{"card:pi_1:1", "card:pi_1:1"}, raised)
	d.clock.pass(threeDays)
	a.rounds(t.Context())
	require.Equal(t, []string{"card:pi_1:1", "card:pi_1:1", "card:pi_1:1", "card:pi_2:1"}, raised)
	d.requireLogged(0, "Jane")
}

// The ledger keeps the place of a receiver whose event it could not skip.
func TestALedgerThatCannotBeWrittenSkipsNothing(t *testing.T) {
	d, receiver := newFixture(t), payoffertest.NewReceiver(t)
	a := d.announcer(receiver)
	d.pay()
	d.pay()
	receiver.Script(always(reply{Status: 400})...)
	a.rounds(t.Context())
	d.outbox.unwritable.Store(true)
	d.clock.pass(threeDays)
	a.rounds(t.Context())
	require.Equal(t, "ledger_unavailable", a.health()[0].LastError)
	d.requireLogged(0, "skipped after three days")
	d.outbox.unwritable.Store(false)
	d.clock.pass(time.Hour)
	receiver.Script(reply{Status: 400})
	a.rounds(t.Context())
	require.Equal(t, []string{"card:pi_2:1"}, taken(t, receiver))
}
