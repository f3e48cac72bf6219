package announce

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe/source"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

const threeDays = asideAfter * time.Second

// always answers every request of a test alike, for as many as it may make.
func always(r reply) (script []reply) {
	for range 2_000 {
		script = append(script, r)
	}
	return script
}

// What a receiver refuses for three days holds up the rest no longer, whatever
// the status: a filter in front of it may say 403 to one reference.
func TestAnEventThatIsRefusedForThreeDaysIsSetAside(t *testing.T) {
	t.Parallel()
	for _, status := range []int{400, 401, 403, 404, 409, 413, 422, 451} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			d, receiver := newDesk(t), payoffertest.NewReceiver(t)
			a := d.announcer(receiver)
			d.pay()
			d.pay()
			receiver.Script(reply{Status: status}, reply{Status: status})
			a.rounds(t.Context())
			since := d.clock.now()
			d.clock.pass(threeDays - time.Second)
			a.rounds(t.Context())
			require.Empty(t, taken(t, receiver), "not a second early")
			require.Len(t, receiver.Requests(), 2)

			receiver.Script(reply{Status: status})
			d.clock.pass(time.Hour)
			a.rounds(t.Context())
			require.Equal(t, []string{"card:pi_2:1"}, taken(t, receiver), "the later ones go on")
			require.Equal(t, SinkHealth{Host: receiver.Host()}, a.Sinks()[0])
			d.requireLogged(1, "is set aside")

			asides, err := a.Asides(t.Context())
			require.NoError(t, err)
			require.Len(t, asides, 1)
			require.Equal(t, "card:pi_1:1", payoffertest.Untagged(t, asides[0].EventID()))
			require.Equal(t, "payment_confirmed", asides[0].Kind)
			require.Equal(t, fmt.Sprint("refused ", status), asides[0].Reason)
			require.Equal(t, receiver.Host(), asides[0].Host)
			require.Equal(t, since.Unix(), asides[0].Since)
		})
	}
}

// What fails by no fault of the event holds the line for good.
func TestTroubleOfAReceiverSetsNothingAside(t *testing.T) {
	t.Parallel()
	for name, trouble := range map[string]reply{
		"timeout": {Status: 408}, "gone": {Status: 410}, "too early": {Status: 425}, "too many": {Status: 429},
		"broken": {Status: 500}, "away": {Status: 503}, "moved": {Status: 308, Location: "/"}, "unreachable": {Drop: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, receiver := newDesk(t), payoffertest.NewReceiver(t)
			a := d.announcer(receiver)
			d.pay()
			d.pay()
			receiver.Script(always(trouble)...)
			for range 10 {
				a.rounds(t.Context())
				d.clock.pass(threeDays)
			}
			require.Empty(t, taken(t, receiver))
			asides, err := a.Asides(t.Context())
			require.NoError(t, err)
			require.Empty(t, asides)
			receiver.Script()
			a.rounds(t.Context())
			require.Equal(t, []string{"card:pi_1:1", "card:pi_2:1"}, taken(t, receiver))
		})
	}
}

func TestARestartDoesNotBeginTheThreeDaysAgain(t *testing.T) {
	d, receiver := newDesk(t), payoffertest.NewReceiver(t)
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

// The clock jumps ahead, the receiver refuses an event, the clock is set back, and another process goes on.
func TestARefusalThatWasNotedByAClockAheadHoldsUpNothing(t *testing.T) {
	d, receiver := newDesk(t), payoffertest.NewReceiver(t)
	receiver.Script(reply{Status: 422}, reply{Status: 422})
	a := d.announcer(receiver)
	d.pay()
	d.pay()
	d.clock.pass(40 * 24 * time.Hour)
	a.rounds(t.Context())
	d.clock.pass(-40 * 24 * time.Hour)
	d.announcer(receiver).rounds(t.Context())
	require.Equal(t, []string{"card:pi_2:1"}, taken(t, receiver))
}

func TestARefusalThatEndsLeavesNothingBehind(t *testing.T) {
	d, receiver := newDesk(t), payoffertest.NewReceiver(t)
	a := d.announcer(receiver)
	receiver.Script(reply{Status: 400})
	d.pay()
	a.rounds(t.Context())
	asides, err := a.Asides(t.Context())
	require.NoError(t, err)
	require.Empty(t, asides, "it is still tried")
	d.clock.pass(pauseFirst)
	a.rounds(t.Context())
	require.Equal(t, []string{"card:pi_1:1"}, taken(t, receiver))
	asides, err = a.Asides(t.Context())
	require.NoError(t, err)
	require.Empty(t, asides)
}

func TestAHandlerThatAlwaysFailsIsTriedWithPausesAndSetAsideAsAReceiverIs(t *testing.T) {
	d := newDesk(t)
	var raised []string
	failing := true
	a := d.configured(Config{Emit: func(_ string, data map[string]any) error {
		raised = append(raised, payoffertest.Untagged(t, data["id"].(string)))
		if failing && raised[len(raised)-1] == "card:pi_1:1" {
			return errors.New("the disk of Jane Roe is full")
		}
		return nil
	}})
	d.pay()
	d.pay()
	a.rounds(t.Context())
	a.rounds(t.Context())
	require.Equal(t, []string{"card:pi_1:1"}, raised, "in order, and not before the pause is over")
	require.Equal(t, SinkHealth{Host: "events", Behind: 2, LastError: "handler_failed"}, a.Sinks()[0])
	d.clock.pass(pauseFirst)
	a.rounds(t.Context())
	require.Equal(t, []string{"card:pi_1:1", "card:pi_1:1"}, raised)
	d.clock.pass(threeDays)
	a.rounds(t.Context())
	require.Equal(t, []string{"card:pi_1:1", "card:pi_1:1", "card:pi_1:1", "card:pi_2:1"}, raised)
	d.requireLogged(0, "Jane")

	failing = false
	asides, err := a.Asides(t.Context())
	require.NoError(t, err)
	require.Len(t, asides, 1)
	reasons, err := a.Retry(t.Context(), asides...)
	require.NoError(t, err)
	require.Equal(t, []string{""}, reasons)
	require.Equal(t, "card:pi_1:1", raised[len(raised)-1])
}

func TestAHandlerThatFailedOnceIsRaisedAgain(t *testing.T) {
	d := newDesk(t)
	var raised []string
	a := d.configured(Config{Emit: func(_ string, data map[string]any) error {
		if raised = append(raised, payoffertest.Untagged(t, data["id"].(string))); len(raised) == 1 {
			return errors.New("not now")
		}
		return nil
	}})
	d.pay()
	d.pay()
	a.rounds(t.Context())
	d.clock.pass(pauseFirst)
	a.rounds(t.Context())
	require.Equal(t, []string{"card:pi_1:1", "card:pi_1:1", "card:pi_2:1"}, raised)
}

// It cannot become right by waiting.
func TestAnAnnouncementThatCannotBeWrittenIsSetAsideAtOnce(t *testing.T) {
	hook, err := newWebhook(Webhook{URL: "https://a.example/hook"}, source.Client{}, time.Now)
	require.NoError(t, err)
	unwritable := newEvent(&Config{}, transition(), false)
	unwritable.data["via"] = func() {}
	require.Equal(t, failure{code: "unwritable"}, hook.deliver(t.Context(), unwritable))

	d, receiver := newDesk(t), payoffertest.NewReceiver(t)
	a := d.announcer(receiver)
	send := a.sinks[0].deliver
	a.sinks[0].deliver = func(ctx context.Context, e event) failure {
		if payoffertest.Untagged(t, e.id) == "card:pi_1:1" {
			return failure{code: codeUnwritable}
		}
		return send(ctx, e)
	}
	d.pay()
	d.pay()
	a.rounds(t.Context())
	require.Equal(t, []string{"card:pi_2:1"}, taken(t, receiver))
	asides, err := a.Asides(t.Context())
	require.NoError(t, err)
	require.Equal(t, "unwritable", asides[0].Reason)
}

func TestWhatIsSetAsideIsSentAgainOnceAndSaysThatItIsLate(t *testing.T) {
	d, receiver := newDesk(t), payoffertest.NewReceiver(t)
	a := d.announcer(receiver)
	d.pay()
	d.pay()
	receiver.Script(reply{Status: 422}, reply{Status: 422})
	a.rounds(t.Context())
	d.clock.pass(threeDays)
	a.rounds(t.Context())
	asides, err := a.Asides(t.Context())
	require.NoError(t, err)
	require.Len(t, asides, 1)

	receiver.Script(reply{Status: http.StatusTeapot})
	reasons, err := a.Retry(t.Context(), asides...)
	require.NoError(t, err)
	require.Equal(t, []string{"refused 418"}, reasons)
	still, err := a.Asides(t.Context())
	require.NoError(t, err)
	require.Equal(t, asides, still, "it stays set aside")

	reasons, err = a.Retry(t.Context(), asides...)
	require.NoError(t, err)
	require.Equal(t, []string{""}, reasons)
	require.Equal(t, []string{"card:pi_2:1", "card:pi_1:1"}, taken(t, receiver))
	all := receiver.Requests()
	require.Contains(t, string(all[len(all)-1].Body), `"outOfOrder":true`)
	require.NotContains(t, string(all[0].Body), "outOfOrder")
	still, err = a.Asides(t.Context())
	require.NoError(t, err)
	require.Empty(t, still)
}

func TestWhatIsSetAsideForAReceiverThatLeftTheConfigurationCanOnlyBeForgotten(t *testing.T) {
	d, receiver := newDesk(t), payoffertest.NewReceiver(t)
	a := d.announcer(receiver)
	d.pay()
	receiver.Script(reply{Status: 422}, reply{Status: 422})
	a.rounds(t.Context())
	d.clock.pass(threeDays)
	a.rounds(t.Context())

	other := d.configured(Config{Sinks: []Sink{Webhook{URL: "https://elsewhere.example/hook"}}})
	asides, err := other.Asides(t.Context())
	require.NoError(t, err)
	require.Len(t, asides, 1)
	require.Empty(t, asides[0].Host)
	reasons, err := other.Retry(t.Context(), asides...)
	require.NoError(t, err)
	require.Equal(t, []string{"not_configured"}, reasons)
	require.NoError(t, other.Skip(t.Context(), asides[0]))
	asides, err = other.Asides(t.Context())
	require.NoError(t, err)
	require.Empty(t, asides)
}

// The ledger keeps the place of a receiver whose event it could not set aside.
func TestALedgerThatCannotBeWrittenSetsNothingAside(t *testing.T) {
	d, receiver := newDesk(t), payoffertest.NewReceiver(t)
	a := d.announcer(receiver)
	d.pay()
	d.pay()
	receiver.Script(always(reply{Status: 400})...)
	a.rounds(t.Context())
	d.book.unwritable.Store(true)
	d.clock.pass(threeDays)
	a.rounds(t.Context())
	require.Equal(t, "ledger_unavailable", a.Sinks()[0].LastError)
	d.requireLogged(0, "is set aside")
	d.book.unwritable.Store(false)
	d.clock.pass(time.Hour)
	receiver.Script(reply{Status: 400})
	a.rounds(t.Context())
	require.Equal(t, []string{"card:pi_2:1"}, taken(t, receiver))
}

func TestAReceiverInTroubleIsNotAskedForTheRest(t *testing.T) {
	d, receiver := newDesk(t), payoffertest.NewReceiver(t)
	a := d.announcer(receiver)
	for range 3 {
		d.pay()
		receiver.Script(reply{Status: 422}, reply{Status: 422})
		a.rounds(t.Context())
		d.clock.pass(threeDays)
		a.rounds(t.Context())
	}
	asides, err := a.Asides(t.Context())
	require.NoError(t, err)
	require.Len(t, asides, 3)
	before := len(receiver.Requests())
	receiver.Script(reply{Status: 422}, reply{Status: 503})
	reasons, err := a.Retry(t.Context(), asides...)
	require.NoError(t, err)
	require.Equal(t, []string{"refused 422", "server_error 503", "server_error 503"}, reasons)
	require.Len(t, receiver.Requests(), before+2)
}
