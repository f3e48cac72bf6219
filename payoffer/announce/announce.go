// Package announce notifies endpoints of each change of an offer's receipts: by events
// of Caddy, log lines, signed webhooks (Standard Webhooks 1.0.0), ntfy and e-mail.
//
// The ledger's transitions are the outbox. Each endpoint has its own position there, which advances after the endpoint
// acknowledged an event: every transition is delivered at least once, in the order of commits. A repeated delivery has the
// same id. A new endpoint starts after the newest transition.
//
// Deliveries to an unreachable endpoint are retried until it answers. An event that
// a working endpoint refuses for three days is logged and skipped; it stays in the feed.
package announce

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/source"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// Ledger is the outbox. *ledger.Ledger implements and documents it.
type Ledger interface {
	Totals(ctx context.Context, offer string) ([]ledger.Total, error)
	Transitions(ctx context.Context, offer string, after int64, limit int) ([]ledger.Transition, error)
	LeaseSubscriber(ctx context.Context, offer, name, owner string, now, until int64) (after int64, held bool, err error)
	LeaseSubscribers(ctx context.Context, owners map[ledger.SubscriberKey]string, now, until int64) (after map[ledger.SubscriberKey]int64, err error)
	AdvanceSubscriber(ctx context.Context, offer, name, owner string, after int64) error
	RefuseTransition(ctx context.Context, offer, name, owner string, now int64) (since int64, err error)
}

// Endpoint is a Webhook, an Ntfy or an Email.
type Endpoint interface {
	// receiver checks the address. It does no I/O.
	receiver(c *Config) (receiver, error)
}

// receiver is a checked Endpoint.
type receiver struct {
	// form and address name the endpoint in the ledger. The address may contain a key:
	// the ledger stores only its hash, and logs contain only the host.
	form, address, host string
	// deliver attempts one delivery.
	deliver func(context.Context, event) failure
}

// name is the name in the ledger.
func (r receiver) name() string {
	sum := sha256.Sum256([]byte(r.address))
	return r.form + ":" + hex.EncodeToString(sum[:16])
}

// Config describes an Announcer.
type Config struct {
	Offer offer.Offer
	// Page returns the URL of a receipt's page, a secret of its payer; empty while it is not known.
	Page func(ledger.Transition) string
	// Closed says why a confirmed payment opens no gate, empty for none; may be nil.
	Closed func(context.Context, ledger.Transition) string
	// Emit emits a Caddy event, whose handlers' errors Caddy logs; nil for none. An error means that
	// they may not have been called.
	Emit func(name string, data map[string]any) error
	// Journal logs one line for each transition; nil for none.
	Journal   *slog.Logger
	Endpoints []Endpoint
	// Owner is unique among all announcers that use the ledger. Required.
	Owner string
	// Sent is called after each attempt to send an e-mail, with the status of the last
	// reply (0 for none) and the duration; may be nil.
	Sent func(host string, status int, took time.Duration)
	// Dial connects to mail servers; nil means net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Exiting reports whether the process ends, and not only this configuration; nil is always.
	Exiting func() bool
	// PollEvery is the poll interval of the outbox; default 2 s. It can be long if
	// Notify is called for the transitions of all instances.
	PollEvery time.Duration
	// source.Default sets the fields below, except the Ledger.
	Ledger    Ledger
	Transport http.RoundTripper
	Now       func() time.Time
	Random    func() float64
	Logger    *slog.Logger
}

// Announcer delivers the transitions of one offer.
type Announcer struct {
	config      *Config
	subscribers []*subscriber
}

// New checks the configuration and does no I/O. An error names the endpoint by its number and host.
func New(c Config) (*Announcer, error) {
	source.Default(&c.Now, &c.Random, &c.Logger)
	c.PollEvery = cmp.Or(c.PollEvery, pollEvery)
	if c.Dial == nil {
		c.Dial = new(net.Dialer).DialContext
	}
	a := &Announcer{config: &c}
	if c.Emit != nil {
		a.subscribers = append(a.subscribers, newSubscriber(&c, "events", "events", isAnnounced, c.emitEvent))
	}
	if c.Journal != nil {
		a.subscribers = append(a.subscribers, newSubscriber(&c, "log", "log", func(ledger.Transition) bool { return true }, c.logTransition))
	}
	numbers := make(map[string]int)
	for i, e := range c.Endpoints {
		r, err := e.receiver(&c)
		if err != nil {
			return nil, fmt.Errorf("announce: endpoint %d: %w", i+1, err)
		}
		if first, duplicate := numbers[r.name()]; duplicate {
			return nil, fmt.Errorf("announce: endpoints %d and %d have the same address (host %q); remove one of them", first, i+1, r.host)
		}
		numbers[r.name()] = i + 1
		a.subscribers = append(a.subscribers, newSubscriber(&c, r.name(), r.host, isAnnounced, r.deliver))
	}
	return a, nil
}

// Load reads the positions of all announcers of one ledger in one statement. It is called
// before anything is recorded, so that a new endpoint misses nothing.
func Load(ctx context.Context, all ...*Announcer) error {
	owners := make(map[ledger.SubscriberKey]string)
	for _, a := range all {
		for _, s := range a.subscribers {
			owners[s.key()] = a.config.Owner
		}
	}
	if len(owners) == 0 {
		return nil
	}
	now := all[0].config.Now().Unix()
	positions, err := all[0].config.Ledger.LeaseSubscribers(ctx, owners, now, now) // until now: no lease is kept
	if err != nil {
		return err
	}
	for _, a := range all {
		for _, s := range a.subscribers {
			position, held := positions[s.key()]
			s.setLease(position, held, now)
		}
	}
	return nil
}

// Run delivers until ctx ends. A delivery in progress gets a moment to finish. Endpoints
// do not wait for each other.
func (a *Announcer) Run(ctx context.Context) {
	var work sync.WaitGroup
	for _, s := range a.subscribers {
		work.Go(func() {
			first := time.Duration(0)
			if s.known { // Notify reports what was recorded since
				first = a.config.PollEvery
			}
			s.loop.RunAfter(ctx, first)
			s.release(ctx)
		})
	}
	work.Wait()
}

// Notify polls the outbox now. It never blocks.
func (a *Announcer) Notify() {
	for _, s := range a.subscribers {
		s.loop.Wake()
	}
}

// EndpointHealth is the state of deliveries to one endpoint.
type EndpointHealth struct {
	// Host is the host, with the port if the address has one, or "events" or "log". Two endpoints may have the same host.
	Host string `json:"host"`
	// Behind is the number of transitions that no instance has delivered yet.
	Behind int64 `json:"behind"`
	// LastError is a code of delivery.go, empty after a success.
	LastError string `json:"last_error,omitempty"`
}

// Health returns the state of each endpoint, by the counts of Ledger.Undelivered. It never blocks.
func (a *Announcer) Health(behind map[ledger.SubscriberKey]int64) []EndpointHealth {
	all := make([]EndpointHealth, len(a.subscribers))
	for i, s := range a.subscribers {
		all[i] = EndpointHealth{s.host, behind[s.key()], s.failing()}
	}
	return all
}

// Test sends a message without a payment to each endpoint but the log: the text, or that it is a test.
// LastError is the endpoint's answer, empty if it accepted.
func (a *Announcer) Test(ctx context.Context, text string) (all []EndpointHealth) {
	for _, s := range a.subscribers {
		if s.name != "log" {
			e := event{kind: kindTest, id: "test:" + rand.Text(), at: a.config.Now(), transition: ledger.Transition{Offer: a.config.Offer.ID, Testnet: true}}
			data := map[string]any{"id": e.id, "offer": e.transition.Offer, "counted": false}
			if text != "" {
				data["text"] = text
			}
			e.data, e.text = data, text
			h, f := EndpointHealth{Host: s.host}, s.deliver(ctx, e)
			if f.code != "" {
				h.LastError = f.code + ": " + hints[f.code]
				if f.status != 0 {
					h.LastError = fmt.Sprintf("%s (status %d): %s", f.code, f.status, hints[f.code])
				}
			}
			all = append(all, h)
		}
	}
	return all
}

// emitEvent emits a Caddy event.
func (c *Config) emitEvent(_ context.Context, e event) failure {
	data, err := e.members()
	if err != nil || c.Emit(e.kind, data) != nil {
		return failure{code: codeReloaded}
	}
	return failure{}
}

// logTransition logs a change with all that an operator looks a payment up by. The URL of the
// receipt's page is a secret of the payer: the line has the command that prints it.
func (c *Config) logTransition(ctx context.Context, e event) failure {
	t, message, unit := e.transition, "a receipt has changed", offer.UnitOf(e.transition.Asset)
	if e.change.New() {
		message = "a receipt is new"
	}
	c.Journal.InfoContext(ctx, message,
		"change", e.change.Summary(), "rail", t.Rail, "amount", unit.Format(t.Amount), "usd", e.usd(), "refunded", unit.Format(t.Refunded),
		"before", string(t.From), "status", string(t.To), "evidence", string(t.EvidenceLevel), "counted", e.counted,
		"own", t.Own, "testnet", t.Testnet, "reference", t.ExternalID, "number", t.ReceiptID, "version", t.Version,
		"cause", t.Cause, "cursor", t.Bookmark().String(), "id", e.id,
		"page", fmt.Sprintf("caddy pay-offer received --receipts --before %d --offer %s", t.ReceiptID+1, t.Offer))
	return failure{}
}
