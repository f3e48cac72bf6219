package announce

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// What an address has not taken goes to no other one, which is told at the start; and
// the address gets all of it where it is put back.
func TestAStartTellsWhatAnAddressThatIsGoneLeavesBehind(t *testing.T) {
	hook, topic, post := payoffertest.NewReceiver(t), payoffertest.NewNtfy(t), payoffertest.NewMailServer(t)
	for form, c := range map[string]struct {
		sink     Sink
		down, up func()
	}{
		"webhook": {Webhook{URL: hook.URL()}, hook.Down, hook.Up},
		"ntfy":    {Ntfy{URL: topic.URL()}, topic.Down, topic.Up},
		"email":   {Email{To: "a@example.com", Server: post.Host()}, post.Down, post.Up},
	} {
		t.Run(form, func(t *testing.T) {
			d := newDesk(t)
			begin := func(sinks ...Sink) *Announcer {
				a := d.configured(Config{Sinks: sinks, Transport: hook.Transport()})
				require.NoError(t, Load(t.Context(), a))
				require.NoError(t, WarnOfLeft(t.Context(), a))
				return a
			}
			const left = "no other address gets these"
			a := begin(c.sink)
			d.pay()
			a.rounds(t.Context())
			a.leave(t.Context())
			begin().leave(t.Context())
			d.requireLogged(0, left)

			d.clock.pass(time.Minute)
			a = begin(c.sink)
			c.down()
			for range 2 {
				d.pay()
				a.rounds(t.Context())
			}
			begin().leave(t.Context()) // as a reload does, while the one before still runs
			d.requireLogged(1, left)
			d.requireLogged(1, fmt.Sprintf("form=%s left_behind=2", form))
			a.leave(t.Context())
			d.clock.pass(time.Hour)
			d.pay()
			begin().leave(t.Context())
			d.requireLogged(2, fmt.Sprintf("form=%s left_behind=2", form)) // the third was never for it

			c.up()
			d.clock.pass(time.Hour)
			a = begin(c.sink)
			a.rounds(t.Context())
			require.Equal(t, int64(0), a.Sinks()[0].Behind)
			a.leave(t.Context())
			begin()
			d.requireLogged(2, left)

			d.pay()
			d.clock.pass(8 * 24 * time.Hour)
			begin()
			d.requireLogged(2, left)
		})
	}
}
