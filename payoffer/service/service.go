// Package service is one offer at work: what it is made of, what it answers,
// and what it does in the background. It knows no Caddy.
package service

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/agent"
	"github.com/payoffer/caddy-pay-offer/payoffer/announce"
	"github.com/payoffer/caddy-pay-offer/payoffer/document"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/mpp"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/source"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/operator"
	"github.com/payoffer/caddy-pay-offer/payoffer/pool"
	"github.com/payoffer/caddy-pay-offer/payoffer/rate"
	"github.com/payoffer/caddy-pay-offer/payoffer/web"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// Service is one offer at work. It is the same object for all configurations
// that have the same settings for it.
type Service struct {
	*Settings
	*parts
	Server   *web.Server
	Operator *operator.Service

	payments  *payments
	announcer *announce.Announcer
	logger    *slog.Logger
	stops     []func() // of listening

	// told is closed, by tell, once payments can be taken and the address of a
	// receipt's page be told.
	told <-chan struct{}
	tell func()
	// opened says that it is ready, and trouble is why it was not when that was tried last.
	opened  atomic.Bool
	trouble atomic.Pointer[string]
	// head is the size of the largest header block; 0 until somebody asked for it.
	head atomic.Int64
}

// seldom is how often an offer looks for itself for what the pulse of its ledger
// tells of.
const seldom = time.Hour

// Acquire puts an offer to work, or goes on with it. It calls nobody and opens
// nothing.
func Acquire(share *Share, s *Settings) (*Service, error) {
	p, err := share.acquire(s)
	if err != nil {
		return nil, err
	}
	return pool.Acquire(share.Use, pool.KeyOf("service", s.Key, share.LedgerKey, share.StorageKey), func(hosts *pool.Hosts[Host]) (*Service, error) {
		return newService(s, p, hosts, share.Instruments)
	})
}

func newService(s *Settings, p *parts, hosts *pool.Hosts[Host], i *Instruments) (*Service, error) {
	told := make(chan struct{})
	svc := &Service{Settings: s, parts: p, logger: logger(hosts).With("offer", s.Offer.ID), told: told, tell: sync.OnceFunc(func() { close(told) })}
	if p.standing.opened.Load() { // with other settings, and a reload interrupts nothing
		svc.tell()
	}
	var err error
	if svc.payments, err = newPayments(s, p, i, svc.logger); err != nil {
		return nil, err
	}
	svc.announcer, err = announce.New(announce.Config{
		OfferID: s.Offer.ID, BaseURL: s.Offer.BaseURL, TestOffer: s.Offer.Test(), Sinks: s.Announce, Owner: rand.Text(),
		Emit:    func(name string, data map[string]any) error { return hosts.Current().Emit(name, data) },
		Journal: svc.logger, Sent: i.Mailed,
		PollEvery: seldom, Ledger: p.ledger, Transport: i.Transport("announce"), Now: time.Now, Logger: svc.logger,
	})
	if err != nil {
		return nil, err
	}
	if svc.Server, err = svc.newServer(i); err != nil {
		return nil, err
	}
	svc.Operator = &operator.Service{
		Offer: s.Offer, Accounts: s.Accounts(), Ledger: p.ledger, Health: svc.Health, Facilitators: svc.Facilitators, Trouble: svc.Trouble, Summary: svc.Server.Summary, Page: svc.Server.ReceiptURL,
		Rotate: svc.rotate, Address: func() string { return svc.live().Address }, Follow: svc.payments.former.look, Announcer: svc.announcer, Report: svc.report, Now: time.Now, Logger: svc.logger,
	}
	svc.listen()
	return svc, nil
}

// listen publishes what changes from now on, and what has changed already.
func (svc *Service) listen() {
	svc.stops = append(svc.stops, svc.keys.Listen(svc.publish))
	if svc.rates != nil {
		svc.stops = append(svc.stops, svc.rates.Listen(svc.refresh))
	}
	if svc.bitcoin != nil {
		svc.stops = append(svc.stops, svc.bitcoin.Listen(svc.refresh))
	}
	svc.publish()
}

// refresh publishes what has changed: the rate, or the address of an extended
// key.
func (svc *Service) refresh() {
	if now := svc.live(); svc.bitcoin != nil && svc.Offer.Bitcoin().Methods(svc.Offer, now)[0].Available {
		svc.bitcoin.Quoted(now.Satoshis, int64(svc.Offer.Amount))
	}
	svc.Server.Refresh()
}

// publish publishes the keys that sign, what they signed, and documents that
// expire.
func (svc *Service) publish() {
	svc.payments.Refresh()
	svc.Server.Renew(time.Now())
	svc.refresh()
}

func (svc *Service) newServer(i *Instruments) (*web.Server, error) {
	counted, clientIP := countedPayments{svc.payments, svc.Offer.ID, i.Attempt, svc.started}, svc.clientIP(i.ClientIP)
	challenges := mpp.New(svc.Offer, svc.qrKey.Bytes, time.Now)
	var server *web.Server // serves the endpoint, which reads its report and knows its addresses
	endpoint, err := agent.New(agent.Config{
		Offer:      svc.Offer,
		Live:       svc.live,
		Payments:   counted,
		Challenges: challenges,
		Summary: func(ctx context.Context) (json.RawMessage, error) {
			svc.started(ctx)
			summary, err := server.Summary(ctx)
			if err != nil {
				return nil, err
			}
			return json.Marshal(summary)
		},
		PaidURL:  func(o x402.Outcome) string { return server.PaidURL(o) },
		ClientIP: clientIP,
		Logger:   svc.logger,
	})
	if err != nil {
		return nil, err
	}
	server, err = web.New(web.Config{
		Offer:       svc.Offer,
		Payments:    counted,
		Challenges:  challenges,
		Agent:       endpoint,
		Live:        svc.live,
		Receipts:    receipts{svc.ledger, svc.standing},
		Started:     func(ctx context.Context) { svc.started(ctx) },
		Health:      svc.Health,
		ClockOffset: svc.clock.Offset,
		Hooks:       svc.hooks(),
		HooksOff:    svc.HooksOff,
		OnDelivery: func(rail string, v observe.Verdict) {
			i.Delivery(svc.Offer.ID, rail, v)
			svc.announcer.Notify()
		},
		QRKey:    svc.qrKey.Bytes,
		Keys:     svc.published,
		ClientIP: clientIP,
		Now:      time.Now,
		Logger:   svc.logger,
	})
	return server, err
}

// hooks take the webhooks of the rails that have a secret for them.
func (svc *Service) hooks() map[string]observe.Hook {
	hooks := make(map[string]observe.Hook)
	if svc.Card.WebhookSecret != "" {
		hooks[svc.Offer.Card.Name()] = svc.card
	}
	for _, shop := range svc.Storefronts {
		if shop.HookSecret != "" {
			hooks[shop.Rail.Name()] = svc.storefronts[shop.Rail.Name()]
		}
	}
	return hooks
}

// LargestHead is the size in bytes of the largest header block of a 402, which no key
// changes. A reload that changes nothing does not compute it again.
func (svc *Service) LargestHead() int {
	size := svc.head.Load()
	if size == 0 {
		size = int64(svc.Server.LargestHead())
		svc.head.Store(size)
	}
	return int(size)
}

// Facilitators says how those are that settle. It never blocks.
func (svc *Service) Facilitators() []x402.FacilitatorHealth { return svc.payments.Facilitators() }

// published are the keys that the DID document lists.
func (svc *Service) published() []document.VerificationKey {
	var keys []document.VerificationKey
	for _, key := range svc.keys.Published() {
		keys = append(keys, document.VerificationKey{ID: key.ID, Public: key.Public})
	}
	return keys
}

// live never blocks and does no I/O.
func (svc *Service) live() (now offer.Live) {
	if svc.rates == nil {
		return now
	}
	if current, known := svc.rates.Current(); known {
		now.Satoshis, now.RateAt = rate.Satoshis(int64(svc.Offer.Amount), current), current.At
	}
	if svc.bitcoin != nil {
		now.Address = svc.bitcoin.Address()
	}
	return now
}

// open has requests answered that need the ledger and the keys, which are ready. It
// comes before Run.
func (svc *Service) open() {
	svc.standing.opened.Store(true)
	svc.opened.Store(true)
	svc.tell()
}

// IsOpen reports whether the offer takes payments.
func (svc *Service) IsOpen() bool { return svc.opened.Load() }

// lags notes why the offer is not open yet.
func (svc *Service) lags(trouble string) { svc.trouble.Store(&trouble) }

// started waits up to startWait for the ledger and the keys to be ready for the first
// time, and reports whether they are. It does not wait if opening them has failed.
func (svc *Service) started(ctx context.Context) bool {
	wait := startWait
	if svc.trouble.Load() != nil {
		wait = 0
	}
	select {
	case <-svc.told: // the usual case costs no timer
		return true
	default:
	}
	select {
	case <-svc.told:
		return true
	case <-ctx.Done():
	case <-time.After(wait):
	}
	return false
}

// Trouble says why the offer takes no payments; empty for one that does.
func (svc *Service) Trouble() string {
	trouble := svc.trouble.Load()
	switch {
	case svc.IsOpen():
		return ""
	case trouble == nil:
		return "the ledger or the storage has not answered yet"
	}
	return *trouble
}

// Begin settles what was left open, follows former rails and announces receipts
// until ctx ends, and calls ended when settlements under way are over. What is left
// stays open in the ledger and is resolved after the next start.
func (svc *Service) Begin(ctx context.Context, ended func()) {
	stop := svc.pulse.Listen(svc.Offer.ID, ledger.Ear{Intents: svc.payments.Due, Transitions: svc.announcer.Notify})
	done := source.After(3, func() {
		stop()
		defer ended()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), svc.Patience())
		defer cancel()
		if err := svc.payments.Wait(ctx); err != nil {
			svc.logger.Error("a settlement is still under way and is resolved after the next start", "error", err.Error())
		}
	})
	svc.payments.Begin(ctx, done)
	svc.payments.former.begin(ctx, done)
	svc.announcer.Begin(ctx, done)
}

// Patience is how long settlements under way may keep what Begin began from its end.
func (svc *Service) Patience() time.Duration { return svc.payments.Patience() }

// Close ends the listening.
func (svc *Service) Close() error {
	for _, stop := range svc.stops {
		stop()
	}
	return nil
}

// Health says how well each rail is observed. It never blocks. A rail that
// nobody observes has none.
func (svc *Service) Health() []observe.Health {
	var all []observe.Health
	for _, u := range svc.USDC {
		if chain := svc.chains[u.Rail.Name()]; chain != nil {
			all = append(all, chain.Health())
		} else {
			all = append(all, observe.Health{Rail: u.Rail.Name(), Source: "facilitator", Blind: true})
		}
	}
	if svc.bitcoin != nil {
		all = append(all, svc.bitcoin.Health())
	}
	if svc.card != nil {
		all = append(all, svc.card.Health())
	}
	for _, shop := range svc.Storefronts {
		if observer := svc.storefronts[shop.Rail.Name()]; observer != nil {
			all = append(all, observer.Health())
		}
	}
	if transfer := svc.Offer.Transfer(); transfer != nil {
		all = append(all, observe.Health{Rail: transfer.Name(), Source: "operator"})
	}
	return all
}

// Announcements says how well each receiver of announcements is reached. It
// never blocks.
func (svc *Service) Announcements() []announce.SinkHealth { return svc.announcer.Sinks() }

var (
	_ pool.Beginner = (*Service)(nil)
	_ pool.Patient  = (*Service)(nil)
	_ io.Closer     = (*Service)(nil)
)
