package service

import (
	"cmp"
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
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/bitcoin"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/evm"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/operator"
	"github.com/payoffer/caddy-pay-offer/payoffer/rate"
	"github.com/payoffer/caddy-pay-offer/payoffer/signature"
	"github.com/payoffer/caddy-pay-offer/payoffer/text"
	"github.com/payoffer/caddy-pay-offer/payoffer/web"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// Service runs one offer of a load.
type Service struct {
	*Settings
	*Runtime
	Server   *web.Server
	Operator *operator.Service

	payments  *x402.Service
	announcer *announce.Announcer
	limiter   *x402.Limiter // of payments and invoices
	logger    *slog.Logger
	former    former
	stops     []func() // of listeners
	open      atomic.Bool
	trouble   atomic.Pointer[error] // why the last attempt to open the offer failed

	// All loads share these.
	keys    *signature.Keys
	qrKey   *signature.Secret
	memory  *memory
	rates   *rate.Watcher        // nil without a rail that needs it
	esplora *bitcoin.Usage       // nil unless the Bitcoin rail is read
	readers map[int64]*evm.Chain // by chain id

	// What the rails made.
	observers   map[string]observer // by rail
	hooks       map[string]observe.Hook
	invoices    map[string]web.Invoicer
	addresses   addressObserver // nil without a rail that changes its address
	settlements []x402.Rail     // of the USDC rails, in their order

	removing        sync.Mutex // guards removedAccounts
	removedAccounts map[string]removedAccount
}

// fallbackEvery is the interval of polls for work that the due-work poller did not report.
const fallbackEvery = time.Hour

// Prepare makes the service of an offer with its observers, which Complete must complete. It does no I/O.
func (r *Runtime) Prepare(s *Settings) (*Service, error) {
	svc := &Service{
		Settings: s, Runtime: r, logger: r.Logger.With("offer", s.Offer.ID), limiter: x402.NewLimiter(s.Limit),
		keys: share(r, KeyOf("signing keys", r.StorageKey, s.Offer.DID()), signature.NewKeys(signature.KeysConfig{
			DID: s.Offer.DID(), Path: s.KeysPath, Storage: r.Storage, Now: time.Now, Logger: r.Logger,
		})),
		qrKey:   share(r, KeyOf("qr key", r.StorageKey), signature.NewSecret(r.Storage, qrKeyPath, "the key of QR addresses")),
		memory:  share(r, KeyOf("memory", r.LedgerKey, r.StorageKey, s.Offer.ID), newMemory()),
		readers: make(map[int64]*evm.Chain), observers: make(map[string]observer), hooks: make(map[string]observe.Hook),
		invoices: make(map[string]web.Invoicer), removedAccounts: make(map[string]removedAccount),
	}
	for _, rail := range s.Rails {
		o, err := rail.observe(svc)
		if err != nil {
			return nil, err
		}
		if o != nil {
			svc.observers[rail.Name()] = o
		}
		if addresses, ok := o.(addressObserver); ok {
			svc.addresses = addresses
		}
		if invoicer, ok := o.(web.Invoicer); ok {
			svc.invoices[rail.Name()] = invoicer
		}
	}
	return svc, nil
}

// Complete completes a service with the gates of its offer. It does no I/O.
func (s *Service) Complete(gates ...offer.Gate) (err error) {
	s.Offer.Gates, s.Key = gates, KeyOf("gated", s.Key, gates)
	s.former = s.memory.formerOf(s)
	if s.payments, err = s.newPayments(); err != nil {
		return err
	}
	s.announcer, err = announce.New(announce.Config{
		Offer: *s.Offer, Endpoints: s.Announce, Owner: rand.Text(),
		Page: func(t ledger.Transition) string { return s.Server.ReceiptURL(receiptOf(t)) },
		Closed: func(ctx context.Context, t ledger.Transition) string {
			return s.Server.Closed(ctx, text.Languages[0], receiptOf(t))
		},
		Emit: s.Emit, Journal: s.logger, Sent: s.Instruments.Mailed, Exiting: s.Exiting,
		PollEvery: fallbackEvery, Ledger: s.Ledger, Transport: s.Instruments.Transport("announce"), Logger: s.logger,
	})
	if err != nil {
		return err
	}
	if s.Server, err = s.newServer(); err != nil {
		return err
	}
	s.Operator = &operator.Service{
		Offer: s.Offer, Accounts: s.Accounts(), Ledger: s.Ledger, Health: s.Health, Facilitators: s.payments.Facilitators,
		Trouble: s.Trouble, Summary: s.Server.Summary, Page: s.Server.ReceiptURL, Keeper: s.Server.Keeper, Rotate: s.rotateKey,
		Announcer: s.announcer, Report: s.diagnostics, Now: time.Now, Logger: s.logger,
	}
	s.listen()
	s.publish()
	s.Runtime.services = append(s.Runtime.services, s)
	return nil
}

// listen publishes what changes until stop.
func (s *Service) listen() {
	s.stops = append(s.stops, s.keys.Listen(s.publish))
	for _, rail := range s.settlements {
		for _, f := range rail.Facilitators {
			s.stops = append(s.stops, f.Changes.Listen(s.publish))
		}
	}
	if s.rates != nil {
		s.stops = append(s.stops, s.rates.Listen(s.refresh))
	}
	if s.addresses != nil {
		s.stops = append(s.stops, s.addresses.Listen(s.refresh))
	}
}

// receiptOf is what names the receipt of a transition, and its status.
func receiptOf(t ledger.Transition) ledger.Receipt {
	return ledger.Receipt{Offer: t.Offer, Account: t.Account, ExternalID: t.ExternalID, Payer: t.Payer, Nonce: t.Nonce, Status: t.To, Testnet: t.Testnet}
}

// refresh publishes a new rate or address.
func (s *Service) refresh() {
	if now := s.live(); s.addresses != nil && s.Offer.Bitcoin().Methods(s.Offer, now)[0].Available {
		s.addresses.Quoted(now.Satoshis, int64(s.Offer.Amount))
	}
	s.Server.Refresh()
}

// publish publishes the keys that sign, what they signed, and documents that expire.
func (s *Service) publish() {
	s.payments.Refresh()
	s.Server.Renew(time.Now())
	s.refresh()
}

func (s *Service) newServer() (*web.Server, error) {
	i := s.Instruments
	counted, clientIP := countedPayments{s.payments, s}, s.clientIP(i.ClientIP)
	challenges := mpp.New(s.Offer, s.Offer.BaseURL, s.qrKey.Bytes, time.Now, s.live)
	var server *web.Server // the agent endpoint and the server depend on each other
	endpoint, err := agent.New(agent.Config{
		Offer: s.Offer, Live: s.live, Payments: counted, Challenges: challenges, ClientIP: clientIP, Logger: s.logger,
		PaidURL: func(o x402.Outcome) string { return server.PaidURL(o) },
	})
	if err != nil {
		return nil, err
	}
	server, err = web.New(web.Config{
		Offer: s.Offer, Live: s.live, Payments: counted, Challenges: challenges, ClientIP: clientIP, SiteFile: i.SiteFile, Logger: s.logger,
		Agent: endpoint, Receipts: s.Ledger, Health: s.Health, ClockOffset: s.ClockOffset, Gates: &s.memory.gates, Hold: s.Hold,
		Hooks: s.hooks, HooksOff: s.HooksOff, Invoices: s.invoices, WatchInvoice: s.watchInvoice, Limiter: s.limiter,
		WaitStarted: func(ctx context.Context) { s.waitStarted(ctx) },
		OnDelivery: func(rail string, v observe.Verdict) {
			i.Delivery(s.Offer.ID, rail, v)
			s.announcer.Notify()
		},
		QRKey: s.qrKey.Bytes, Keys: s.published, Now: time.Now,
	})
	return server, err
}

// Health is the health of each rail, but for those that are not monitored. It never
// blocks.
func (s *Service) Health() (all []observe.Health) {
	for _, rail := range s.Rails {
		if o := s.observers[rail.Name()]; o != nil {
			all = append(all, s.former.or(o.Health()))
		}
	}
	return all
}

// diagnostics is the part of the report that the admin service does not know.
func (s *Service) diagnostics() operator.Diagnostics {
	d := operator.Diagnostics{
		Demo: s.Offer.Demo, Settings: s.Key, Keys: []string{}, Clock: int64(s.ClockOffset().Round(time.Second).Seconds()),
		WebhooksOff: append([]string{}, s.HooksOff...), Networks: s.live().Networks,
	}
	for _, key := range s.published() {
		d.Keys = append(d.Keys, s.Offer.DID()+"#"+key.ID)
	}
	for _, a := range []operator.Answer{
		{Method: http.MethodGet, Path: offer.PathMethods, Accept: "text/html"},
		{Method: http.MethodGet, Path: offer.PathOffer, Accept: "application/json"},
		{Method: http.MethodPost, Path: offer.PathSponsor, Accept: "application/json"},
	} {
		a.Header = s.Server.HeadersOf(a.Method, a.Path, a.Accept)
		d.Answers = append(d.Answers, a)
	}
	return d
}

// published are the keys in the DID document.
func (s *Service) published() (keys []document.VerificationKey) {
	for _, key := range s.keys.Published() {
		keys = append(keys, document.VerificationKey{ID: key.ID, Public: key.Public})
	}
	return keys
}

// live is the current price and address. It never blocks and does no I/O.
func (s *Service) live() (now offer.Live) {
	for _, accepted := range s.payments.Accepts() {
		now.Networks += accepted.Network + " "
	}
	if current, known := s.rates.Current(); known {
		now.Satoshis, now.RateAt = rate.Satoshis(int64(s.Offer.Amount), current), current.At
	}
	if s.addresses != nil {
		now.Address = cmp.Or(s.addresses.Address(), s.former.address)
	}
	return now
}

// IsOpen reports whether the offer takes payments.
func (s *Service) IsOpen() bool { return s.open.Load() }

// waitStarted waits up to startWait for the offer to open for the first time, and reports
// whether it has. It does not wait if opening has failed.
func (s *Service) waitStarted(ctx context.Context) bool {
	if s.memory.ready.Err() == nil && s.trouble.Load() == nil {
		select {
		case <-s.memory.ready.Done():
		case <-ctx.Done():
		case <-time.After(startWait):
		}
	}
	return s.memory.ready.Err() != nil
}

// Trouble is why the offer takes no payments; empty if it takes them.
func (s *Service) Trouble() string {
	lost := s.Ledger.Lost()
	switch err := s.trouble.Load(); {
	case s.IsOpen() && lost != nil:
		return lost.Error()
	case s.IsOpen():
		return ""
	case err == nil:
		return "the ledger or the storage has not answered yet"
	default:
		return (*err).Error()
	}
}

// start takes payments and does the work of the offer until ctx ends. Its observers begin after a delay.
func (s *Service) start(ctx context.Context, work *sync.WaitGroup, delay time.Duration) {
	s.open.Store(true)
	s.memory.opened(s)
	s.stops = append(s.stops, s.DuePoller.Listen(s.Offer.ID, ledger.Callbacks{Intents: s.payments.Due, Transitions: s.announcer.Notify}))
	work.Go(func() { s.payments.Run(ctx) })
	work.Go(func() { s.announcer.Run(ctx) })
	observers := []func(context.Context){s.watchRemoved}
	for _, o := range s.observers {
		if runner, ok := o.(Runner); ok {
			observers = append(observers, runner.Run)
		}
	}
	for _, run := range observers {
		work.Go(func() {
			select {
			case <-time.After(delay):
				run(ctx)
			case <-ctx.Done():
			}
		})
	}
}

// end removes the listeners and waits until the settlements in flight are recorded or their leases are over; the ledger
// keeps the others for the next start.
func (s *Service) end() {
	for _, stop := range s.stops {
		stop()
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.payments.Patience())
	defer cancel()
	if err := s.payments.Wait(ctx); err != nil {
		s.logger.Error("a settlement is still in flight", "error", err.Error(), "hint", "its outcome is read again after the next start")
	}
}
