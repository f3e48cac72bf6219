package announce

import (
	"context"
	"net/http"
	"net/mail"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// outcome is what a receiver does with one announcement.
type outcome int

const (
	takes   outcome = iota
	defers          // not now
	refuses         // never
	drops           // takes it, and the answer is lost
)

// form is a receiver of one of the forms.
type form struct {
	endpoint  Endpoint
	transport http.RoundTripper
	host      string
	down, up  func()
	script    func(...outcome)
	hold      func(release <-chan struct{}) // answers the next one when that is closed
	await     func(taken int)
	// taken are the names under which announcements arrived and were taken, and key is
	// that of an event.
	taken func() []string
	key   func(event) string
	later string // the code of defers
}

// forms make a receiver of each form.
var forms = map[string]func(*testing.T) *form{"webhook": newWebhookForm, "ntfy": newNtfyForm, "email": newEmailForm}

func newWebhookForm(t *testing.T) *form {
	r := payoffertest.NewReceiver(t)
	f := overHTTP(r)
	f.endpoint = Webhook{URL: r.URL(), Secrets: []string{testSecret}}
	f.key = func(e event) string { return e.id }
	f.taken = func() (all []string) {
		for _, a := range r.Requests() {
			if a.Taken {
				all = append(all, a.Header.Get("webhook-id"))
			}
		}
		return all
	}
	return f
}

func newNtfyForm(t *testing.T) *form {
	n := payoffertest.NewNtfy(t)
	n.Token = "tk_example"
	f := overHTTP(n.Receiver)
	f.endpoint = Ntfy{URL: n.URL(), Token: n.Token}
	f.key = event.sum
	f.taken = func() (all []string) {
		for _, m := range n.Messages() {
			all = append(all, m.Sequence)
		}
		return all
	}
	return f
}

func overHTTP(r *payoffertest.Receiver) *form {
	return &form{
		transport: r.Transport(), host: r.Host(), down: r.Down, up: r.Up, await: r.Await, later: "server_error",
		script: func(outcomes ...outcome) {
			var replies []reply
			for _, o := range outcomes {
				replies = append(replies, map[outcome]reply{takes: {}, defers: {Status: 503}, refuses: {Status: 422}, drops: {Drop: true}}[o])
			}
			r.Script(replies...)
		},
		hold: func(release <-chan struct{}) { r.Script(reply{Hang: true, Release: release}) },
	}
}

func newEmailForm(t *testing.T) *form {
	s := payoffertest.NewMailServer(t)
	s.Login = "pay:hunter2"
	return &form{
		endpoint: Email{To: "operator@example.com", Server: s.Host(), From: "offer@example.com", User: "pay", Password: "hunter2"},
		host:     s.Host(), down: s.Down, up: s.Up, await: s.Await, later: "deferred", key: event.sum,
		script: func(outcomes ...outcome) {
			var replies []payoffertest.MailReply
			for _, o := range outcomes {
				replies = append(replies, map[outcome]payoffertest.MailReply{
					takes: {}, defers: {At: "RCPT", Code: 451}, refuses: {At: ".", Code: 550}, drops: {At: ".", Drop: true},
				}[o])
			}
			s.Script(replies...)
		},
		hold: func(release <-chan struct{}) { s.Script(payoffertest.MailReply{At: ".", Hang: true, Release: release}) },
		taken: func() (all []string) {
			for _, m := range s.Connections() {
				if m.Taken {
					all = append(all, messageKey(t, m))
				}
			}
			return all
		},
	}
}

// messageKey is the part of the Message-ID before the host's.
func messageKey(t *testing.T, m payoffertest.Mailed) string {
	letter, err := mail.ReadMessage(strings.NewReader(m.Letter))
	require.NoError(t, err, "%s", m.Letter)
	key, host, _ := strings.Cut(strings.Trim(letter.Header.Get("Message-ID"), "<>"), "@")
	require.NotEmpty(t, host)
	return key
}

// announcer makes one that tells a receiver of a form, as a process that has just
// started does.
func (f *form) announcer(d *fixture) *Announcer {
	return d.configured(Config{Endpoints: []Endpoint{f.endpoint}, Transport: f.transport})
}

// history are the names of all announcements of the ledger, in their order.
func (f *form) history(d *fixture) (all []string) {
	d.Helper()
	transitions := must(d.outbox.Ledger.Transitions(d.Context(), testOffer, 0, 1000))(d)
	for _, t := range transitions {
		all = append(all, f.key(newEvent(&Config{}, t, false)))
	}
	return all
}

// overForms runs a test for a receiver of each form.
func overForms(t *testing.T, test func(t *testing.T, d *fixture, f *form)) {
	for name, make := range forms {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newFixture(t), make(t))
		})
	}
}

func TestUnreachableEndpointIsRetried(t *testing.T) {
	t.Parallel()
	overForms(t, func(t *testing.T, d *fixture, f *form) {
		a := f.announcer(d)
		d.pay()
		a.rounds(t.Context())
		f.down()
		d.pay()
		d.pay()
		for range 3 {
			a.rounds(t.Context())
			d.clock.Pass(maxPause)
		}
		require.Equal(t, EndpointHealth{Host: f.host, Behind: 2, LastError: "unreachable"}, a.health()[0])
		d.after(10*threeDays, a)
		require.Len(t, f.taken(), 1)

		f.up()
		d.after(maxPause, a)
		require.Equal(t, f.history(d), f.taken())
		require.Equal(t, EndpointHealth{Host: f.host}, a.health()[0])
		d.requireLogged(1, "level=WARN")
		d.requireLogged(0, "secret-path")
		d.requireLogged(0, "hunter2")
	})
}

func TestRefusedDeliverySkippedAfterThreeDays(t *testing.T) {
	t.Parallel()
	overForms(t, func(t *testing.T, d *fixture, f *form) {
		a := f.announcer(d)
		d.pay()
		d.pay()
		f.script(refuses, refuses)
		a.rounds(t.Context())
		d.after(threeDays-time.Second, a)
		require.Empty(t, f.taken(), "not a second early")
		f.script(refuses)
		d.after(time.Hour, a)
		require.Equal(t, f.history(d)[1:], f.taken(), "the later ones go on")
	})
}

func TestDeliveryResumesAfterRestart(t *testing.T) {
	t.Parallel()
	overForms(t, func(t *testing.T, d *fixture, f *form) {
		before := f.announcer(d)
		d.pay()
		before.rounds(t.Context())
		f.script(defers)
		d.pay()
		before.rounds(t.Context())
		before.leave(t.Context())
		d.pay() // while nothing runs
		after := f.announcer(d)
		after.rounds(t.Context())
		require.Equal(t, f.history(d), f.taken())
	})
}

// The receiver recognizes it: it has the name of before.
func TestUnacknowledgedDeliveryRepeatsWithSameID(t *testing.T) {
	t.Parallel()
	overForms(t, func(t *testing.T, d *fixture, f *form) {
		crashed := f.announcer(d)
		d.outbox.unwritable.Store(true)
		d.pay()
		crashed.rounds(t.Context()) // taken, and the process ends before that is known
		d.outbox.unwritable.Store(false)
		d.clock.Pass((leaseFor + 1) * time.Second)
		f.script(drops)
		after := f.announcer(d) // and its answer is lost
		d.pay()
		d.after(maxPause, after)
		all := f.history(d)
		require.Equal(t, []string{all[0], all[0], all[1]}, f.taken())
	})
}

// One receiver never waits for another, nor the log for any.
func TestSlowEndpointDelaysNoOther(t *testing.T) {
	t.Parallel()
	for name := range forms {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, release := newFixture(t), make(chan struct{})
			var all, quick []*form
			c := Config{Transport: http.DefaultTransport}
			for other, make := range forms {
				f := make(t)
				if other == name {
					f.hold(release)
				} else {
					quick = append(quick, f)
				}
				all = append(all, f)
				c.Endpoints = append(c.Endpoints, f.endpoint)
			}
			a := d.configured(c)
			d.pay()
			d.pay()
			ctx, cancel := context.WithCancel(t.Context())
			var running sync.WaitGroup
			running.Go(func() { a.Run(ctx) })
			for _, f := range quick {
				f.await(2)
			}
			close(release)
			for _, f := range all {
				f.await(2)
			}
			cancel()
			running.Wait()
			for _, f := range all {
				require.Equal(t, f.history(d), f.taken())
			}
		})
	}
}
