// Package announce tells others of what happens to an offer's receipts: as
// events of the server, as lines of its log, by webhooks that follow the Standard
// Webhooks specification 1.0.0 (https://www.standardwebhooks.com), by messages to
// a topic of ntfy (https://docs.ntfy.sh/publish/), and by e-mail.
//
// The ledger's transitions are the outbox. Each receiver has a position of its
// own there, which moves only after the receiver has taken an announcement:
// every transition is announced at least once and in the order of commits,
// across failures and restarts. A crash between the two announces one again,
// with the same id. A receiver that is new begins with the next transition.
//
// Deliveries to an unreachable receiver are retried until it answers. An event that
// a working receiver refuses for three days is logged and skipped, so that the later
// ones are delivered; the change stays in the feed.
package announce

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/source"
)

// Ledger is the outbox; *ledger.Ledger is one, and says what each method does.
type Ledger interface {
	Totals(ctx context.Context, offer string) ([]ledger.Total, error)
	Transitions(ctx context.Context, offer string, after int64, limit int) ([]ledger.Transition, error)
	LeaseSink(ctx context.Context, offer, name, owner string, now, until int64) (after int64, held bool, err error)
	LeaseSinks(ctx context.Context, owners map[ledger.SinkKey]string, now, until int64) (after map[ledger.SinkKey]int64, err error)
	AdvanceSink(ctx context.Context, offer, name, owner string, after int64) error
	RefuseTransition(ctx context.Context, offer, name, owner string, now int64) (since int64, err error)
}

// Sink is an address that receives announcements: a Webhook, an Ntfy or an Email.
type Sink interface {
	// receiver checks the address, and calls nobody.
	receiver(c *Config) (receiver, error)
}

// receiver is how one is reached.
type receiver struct {
	// form and address name it in the ledger. The address may hold a key, so that
	// only its sum stands there, and only the host is logged.
	form, address, host string
	// deliver tries once to make the receiver take an event.
	deliver func(context.Context, event) failure
}

// name is that in the ledger.
func (r receiver) name() string {
	sum := sha256.Sum256([]byte(r.address))
	return r.form + ":" + hex.EncodeToString(sum[:16])
}

// Config says what is announced, and to whom.
type Config struct {
	OfferID string // in the ledger
	BaseURL string // the origin of the offer's service, or empty
	// TestOffer says that all chain rails of the offer are on test networks, so
	// that test money counts as long as the ledger holds no real money.
	TestOffer bool
	// Emit raises an event of the server and returns when it was handled; the
	// error is that of a handler. nil for none.
	Emit func(name string, data map[string]any) error
	// Journal takes a line for every transition; nil for none.
	Journal *slog.Logger
	Sinks   []Sink
	// Owner tells this announcer from all others on the ledger, also from
	// those before and after it in the same process. Required.
	Owner string
	// Sent is told of each try to send an e-mail: the status of the last answer, 0
	// for none, and how long it took. nil tells nobody.
	Sent func(host string, status int, took time.Duration)
	// Dial reaches mail servers; nil is a net.Dialer's.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// PollEvery is how often the outbox is looked at where Notify tells of all that
	// is in it, other instances' transitions included; default 2 s.
	PollEvery time.Duration
	// source.Default sets the fields below, except the Ledger.
	Ledger    Ledger
	Transport http.RoundTripper
	Now       func() time.Time
	Random    func() float64
	Logger    *slog.Logger
}

// Announcer announces the transitions of one offer.
type Announcer struct {
	config *Config
	sinks  []*sink
}

// New checks the configuration and calls nobody. An error says which receiver
// it is about by its place and its host.
func New(c Config) (*Announcer, error) {
	source.Default(&c.Now, &c.Random, &c.Logger)
	c.PollEvery = cmp.Or(c.PollEvery, pollEvery)
	if c.Dial == nil {
		c.Dial = new(net.Dialer).DialContext
	}
	a := &Announcer{config: &c}
	if c.Emit != nil {
		a.sinks = append(a.sinks, newSink(&c, "events", "events", announced, c.raise))
	}
	if c.Journal != nil {
		a.sinks = append(a.sinks, newSink(&c, "log", "log", everything, c.write))
	}
	places := make(map[string]int)
	for i, s := range c.Sinks {
		r, err := s.receiver(&c)
		if err != nil {
			return nil, fmt.Errorf("receiver %d of announcements: %w", i+1, err)
		}
		if first, twice := places[r.name()]; twice {
			return nil, fmt.Errorf("receivers %d and %d of announcements have the same address (host %q); leave one out", first, i+1, r.host)
		}
		places[r.name()] = i + 1
		a.sinks = append(a.sinks, newSink(&c, r.name(), r.host, announced, r.deliver))
	}
	return a, nil
}

// raise raises an event of the server.
func (c *Config) raise(_ context.Context, e event) failure {
	if c.Emit(e.kind, e.data) != nil {
		return failure{code: codeHandler} // the error may hold anything, and the server has logged it
	}
	return failure{}
}

// client calls receivers over HTTP.
func (c *Config) client() source.Client {
	return source.Client{Transport: c.Transport, Timeout: deliveryTimeout}
}

// Run announces until ctx ends; it may be called again afterwards. What is being
// sent then is given a moment to be taken, so that it is not sent again after a
// restart. One receiver never waits for another.
func (a *Announcer) Run(ctx context.Context) {
	done := make(chan struct{})
	a.Begin(ctx, func() { close(done) })
	<-done
}

// Begin is Run that does not wait: it calls ended when Run would return. A receiver whose
// place Load has read begins with what Notify tells of.
func (a *Announcer) Begin(ctx context.Context, ended func()) {
	if len(a.sinks) == 0 {
		context.AfterFunc(ctx, ended)
		return
	}
	done := source.After(len(a.sinks), ended)
	for _, s := range a.sinks {
		first := time.Duration(0)
		if s.known {
			first = a.config.PollEvery
		}
		s.loop.BeginIn(ctx, first, func() {
			s.release(ctx)
			done()
		})
	}
}

// Notify says that there may be transitions to announce, which are found without
// it after PollEvery. It never blocks.
func (a *Announcer) Notify() {
	for _, s := range a.sinks {
		s.loop.Wake()
	}
}

// SinkHealth says how well a receiver is reached.
type SinkHealth struct {
	// Host is the receiver's host, with its port where the address has one, "events"
	// for the events of the server, or "log" for its log. Two receivers may share a
	// host.
	Host string
	// Behind is how many transitions the receiver has not taken yet, counted
	// up to 100; 0 while another instance announces to it.
	Behind int64
	// LastError is why it takes none now: unreachable, timeout, redirected,
	// gone, rate_limited, refused, server_error, deferred, unencrypted,
	// unauthorized, handler_failed or ledger_unavailable; empty while it takes them.
	LastError string
}

// Sinks says how well each receiver is reached. It never blocks on one.
func (a *Announcer) Sinks() []SinkHealth {
	all := make([]SinkHealth, len(a.sinks))
	for i, s := range a.sinks {
		all[i] = *s.health.Load()
		if trouble, _ := s.loop.Last(); trouble != "" {
			all[i].LastError = codeLedger
		}
	}
	return all
}
