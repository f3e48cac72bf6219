// Package service runs offers: their dependencies, their requests and their work in the
// background. It does not know Caddy.
package service

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/agent"
	"github.com/payoffer/caddy-pay-offer/payoffer/announce"
	"github.com/payoffer/caddy-pay-offer/payoffer/document"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/mpp"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/operator"
	"github.com/payoffer/caddy-pay-offer/payoffer/pool"
	"github.com/payoffer/caddy-pay-offer/payoffer/rate"
	"github.com/payoffer/caddy-pay-offer/payoffer/text"
	"github.com/payoffer/caddy-pay-offer/payoffer/web"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// Service runs one offer. All configurations with the same settings share it.
type Service struct {
	*Settings
	*dependencies
	Server   *web.Server
	Operator *operator.Service

	payments  *x402.Service
	removed   *removedAccounts
	announcer *announce.Announcer
	logger    *slog.Logger
	stops     []func() // of listeners
	open      atomic.Bool
	trouble   atomic.Pointer[error] // why the last attempt to open the offer failed
}

// fallbackEvery is the interval of polls for work that the due-work poller did not report.
const fallbackEvery = time.Hour

// Prepared is an offer whose dependencies are acquired.
type Prepared struct {
	*Settings
	dependencies *dependencies
	runtime      *Runtime
}

// Prepare checks an offer and acquires its dependencies. It does no I/O.
func Prepare(r *Runtime, s *Settings) (*Prepared, error) {
	d, err := r.acquire(s)
	return &Prepared{s, d, r}, err
}

// Acquire returns the running service of the offer with these gates, or a new one. It is
// called once, and does no I/O.
func (p *Prepared) Acquire(gates ...offer.Gate) (*Service, error) {
	p.Offer.Gates, p.Key = gates, pool.KeyOf("gated", p.Key, gates)
	key := pool.KeyOf("service", p.Key, p.runtime.LedgerKey, p.runtime.StorageKey)
	return pool.Acquire(p.runtime.Use, key, func(e *environment) (*Service, error) {
		return newService(p.Settings, p.dependencies, e)
	})
}

func newService(s *Settings, d *dependencies, e *environment) (*Service, error) {
	svc := &Service{Settings: s, dependencies: d, logger: newLogger(e).With("offer", s.Offer.ID)}
	svc.removed = newRemovedAccounts(s, d, svc.logger)
	var err error
	if svc.payments, err = newPayments(s, d, svc.removed, svc.logger); err != nil {
		return nil, err
	}
	svc.announcer, err = announce.New(announce.Config{
		Offer: *s.Offer, Endpoints: s.Announce, Owner: rand.Text(),
		Page: func(t ledger.Transition) string { return svc.Server.ReceiptURL(receiptOf(t)) },
		Closed: func(ctx context.Context, t ledger.Transition) string {
			return svc.Server.Closed(ctx, text.Languages[0], receiptOf(t))
		},
		Emit:    func(name string, data map[string]any) error { return e.Get().Emit(name, data) },
		Journal: svc.logger, Sent: d.Instruments.Mailed,
		PollEvery: fallbackEvery, Ledger: d.Ledger, Transport: d.Instruments.Transport("announce"), Now: time.Now, Logger: svc.logger,
	})
	if err != nil {
		return nil, err
	}
	if svc.Server, err = svc.newServer(); err != nil {
		return nil, err
	}
	svc.Operator = &operator.Service{
		Offer: s.Offer, Accounts: s.Accounts(), Ledger: d.Ledger, Health: svc.Health, Facilitators: svc.Facilitators, Trouble: svc.Trouble,
		Summary: svc.Server.Summary, Page: svc.Server.ReceiptURL, Keeper: svc.Server.Keeper, Rotate: svc.rotateKey, Announcer: svc.announcer,
		Report: svc.diagnostics, Now: time.Now, Logger: svc.logger,
	}
	svc.stops = append(svc.stops, d.keys.Listen(svc.publish))
	for _, f := range d.facilitators {
		svc.stops = append(svc.stops, f.Changes.Listen(svc.publish))
	}
	if d.rates != nil {
		svc.stops = append(svc.stops, d.rates.Listen(svc.refresh))
	}
	if d.addresses != nil {
		svc.stops = append(svc.stops, d.addresses.Listen(svc.refresh))
	}
	svc.publish()
	return svc, nil
}

// receiptOf is what names the receipt of a transition, and its status.
func receiptOf(t ledger.Transition) ledger.Receipt {
	return ledger.Receipt{Offer: t.Offer, Account: t.Account, ExternalID: t.ExternalID, Payer: t.Payer, Nonce: t.Nonce, Status: t.To, Testnet: t.Testnet}
}

// refresh publishes a new rate or address.
func (svc *Service) refresh() {
	if now := svc.live(); svc.addresses != nil && svc.Offer.Bitcoin().Methods(svc.Offer, now)[0].Available {
		svc.addresses.Quoted(now.Satoshis, int64(svc.Offer.Amount))
	}
	svc.Server.Refresh()
}

// publish publishes the keys that sign, what they signed, and documents that expire.
func (svc *Service) publish() {
	svc.payments.Refresh()
	svc.Server.Renew(time.Now())
	svc.refresh()
}

func (svc *Service) newServer() (*web.Server, error) {
	i := svc.Instruments
	counted, clientIP := countedPayments{svc.payments, svc}, svc.clientIP(i.ClientIP)
	challenges := mpp.New(svc.Offer, svc.Offer.BaseURL, svc.qrKey.Bytes, time.Now, svc.live)
	var server *web.Server // the agent endpoint and the server depend on each other
	endpoint, err := agent.New(agent.Config{
		Offer: svc.Offer, Live: svc.live, Payments: counted, Challenges: challenges, ClientIP: clientIP, Logger: svc.logger,
		PaidURL: func(o x402.Outcome) string { return server.PaidURL(o) },
	})
	if err != nil {
		return nil, err
	}
	server, err = web.New(web.Config{
		Offer: svc.Offer, Live: svc.live, Payments: counted, Challenges: challenges, ClientIP: clientIP, Logger: svc.logger,
		Agent: endpoint, Receipts: svc.Ledger, Health: svc.Health, ClockOffset: svc.Clock.Offset, Hooks: svc.hooks, HooksOff: svc.HooksOff,
		Started: func(ctx context.Context) { svc.started(ctx) },
		OnDelivery: func(rail string, v observe.Verdict) {
			i.Delivery(svc.Offer.ID, rail, v)
			svc.announcer.Notify()
		},
		QRKey: svc.qrKey.Bytes, Keys: svc.published, Now: time.Now,
	})
	return server, err
}

// Facilitators is the health of the facilitators. It never blocks.
func (svc *Service) Facilitators() []x402.FacilitatorHealth { return svc.payments.Facilitators() }

// Announcements is the health of the notification endpoints, by the counts of Ledger.Undelivered.
func (svc *Service) Announcements(behind map[ledger.SubscriberKey]int64) []announce.EndpointHealth {
	return svc.announcer.Health(behind)
}

// Health is the health of each rail, but for those that are not monitored. It never
// blocks.
func (svc *Service) Health() (all []observe.Health) {
	for _, rail := range svc.Rails {
		if o := svc.observers[rail.Name()]; o != nil {
			all = append(all, o.Health())
		}
	}
	return all
}

// diagnostics is the part of the report that the admin service does not know.
func (svc *Service) diagnostics() operator.Diagnostics {
	d := operator.Diagnostics{
		Demo: svc.Offer.Demo, Settings: svc.Key.String(), Keys: []string{}, Clock: int64(svc.Clock.Offset().Round(time.Second).Seconds()),
		WebhooksOff: append([]string{}, svc.HooksOff...), Networks: svc.live().Networks,
	}
	for _, key := range svc.published() {
		d.Keys = append(d.Keys, svc.Offer.DID()+"#"+key.ID)
	}
	for _, a := range []operator.Answer{
		{Method: http.MethodGet, Path: offer.PathMethods, Accept: "text/html"},
		{Method: http.MethodGet, Path: offer.PathOffer, Accept: "application/json"},
		{Method: http.MethodPost, Path: offer.PathSponsor, Accept: "application/json"},
	} {
		a.Header = svc.Server.HeadersOf(a.Method, a.Path, a.Accept)
		d.Answers = append(d.Answers, a)
	}
	return d
}

// published are the keys in the DID document.
func (svc *Service) published() (keys []document.VerificationKey) {
	for _, key := range svc.keys.Published() {
		keys = append(keys, document.VerificationKey{ID: key.ID, Public: key.Public})
	}
	return keys
}

// live is the current price and address. It never blocks and does no I/O.
func (svc *Service) live() (now offer.Live) {
	for _, accepted := range svc.payments.Accepts() {
		now.Networks += accepted.Network + " "
	}
	if current, known := svc.rates.Current(); known {
		now.Satoshis, now.RateAt = rate.Satoshis(int64(svc.Offer.Amount), current), current.At
	}
	if svc.addresses != nil {
		now.Address = svc.addresses.Address()
	}
	return now
}

// setOpen starts to answer the requests that need the ledger and the keys.
func (svc *Service) setOpen() {
	svc.open.Store(true)
	svc.ready.set()
}

// IsOpen reports whether the offer takes payments.
func (svc *Service) IsOpen() bool { return svc.open.Load() }

// started waits up to startWait for the offer to open for the first time, and reports
// whether it has. It does not wait if opening has failed.
func (svc *Service) started(ctx context.Context) bool {
	if svc.ready.Err() == nil && svc.trouble.Load() == nil {
		select {
		case <-svc.ready.Done():
		case <-ctx.Done():
		case <-time.After(startWait):
		}
	}
	return svc.ready.Err() != nil
}

// Trouble is why the offer takes no payments; empty if it is open.
func (svc *Service) Trouble() string {
	switch err := svc.trouble.Load(); {
	case svc.IsOpen():
		return ""
	case err == nil:
		return "the ledger or the storage has not answered yet"
	default:
		return (*err).Error()
	}
}

// Run resolves open payments, watches removed accounts and sends notifications until ctx
// ends. It returns when the settlements in flight are recorded or their leases are over; the
// ledger keeps the others for the next start.
func (svc *Service) Run(ctx context.Context) {
	stop := svc.DuePoller.Listen(svc.Offer.ID, ledger.Callbacks{Intents: svc.payments.Due, Transitions: svc.announcer.Notify})
	var work sync.WaitGroup
	work.Go(func() { svc.payments.Run(ctx) })
	work.Go(func() { svc.removed.Run(ctx) })
	work.Go(func() { svc.announcer.Run(ctx) })
	work.Wait()
	stop()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), svc.payments.Patience())
	defer cancel()
	if err := svc.payments.Wait(ctx); err != nil {
		svc.logger.Error("a settlement is still in flight", "error", err.Error(), "hint", "its outcome is read again after the next start")
	}
}

// Close removes the listeners.
func (svc *Service) Close() error {
	for _, stop := range svc.stops {
		stop()
	}
	return nil
}
