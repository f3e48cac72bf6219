// Package web serves an offer over HTTP: one route table, content negotiation, pages and QR
// codes. Documents are rendered for their first request and kept until the configuration
// or a price changes.
package web

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/document"
	"github.com/payoffer/caddy-pay-offer/payoffer/gate"
	"github.com/payoffer/caddy-pay-offer/payoffer/mpp"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// Payments quotes and takes payments; *x402.Service is one.
type Payments interface {
	// Quote is the answer to a request without payment. The same pointer means the same quote.
	Quote() *x402.Quote
	// Refusal is a quote with the same terms and an error.
	Refusal(reason string) *x402.Quote
	// QuoteFor is a quote for a URL behind a gate. The charge of a deferred one follows the answer of the site.
	QuoteFor(resource offer.Resource, deferred bool, reason string) *x402.Quote
	// Identify names the payment of an attempt in the ledger, without charging it.
	Identify(a x402.Attempt) (x402.Identity, error)
	// Accepts are the payment requirements, empty without a USDC rail.
	Accepts() []x402.Requirements
	// Pay verifies and settles an attempt.
	Pay(ctx context.Context, attempt x402.Attempt) x402.Outcome
	// Verify does what comes before the charge of an attempt, which the caller charges or releases if it is not nil.
	Verify(ctx context.Context, attempt x402.Attempt) (*x402.Verified, x402.Outcome)
	// SignReceipt signs that a payer paid on a network at a time; nil until a key is loaded.
	SignReceipt(network, payer, transaction string, at int64) *x402.Artifact
}

// Config configures a Server. BodyTimeout, Challenges, Gates, Hold, Hooks, HooksOff, Keys and OnDelivery are
// optional.
type Config struct {
	Offer    *offer.Offer
	Payments Payments
	// Challenges issues challenges of the Payment scheme and reads credentials; nil if the offer
	// does not support it.
	Challenges *mpp.Issuer
	// Agent answers POST /mcp. The common headers are already set.
	Agent http.Handler
	// Live is the current price and address. It never blocks.
	Live func() offer.Live
	// Receipts reads the ledger.
	Receipts Receipts
	// Hold keeps the ledger open until release, for a request that may charge; held is false if it is closed.
	Hold func() (release func(), held bool)
	// WaitStarted waits, for a limited time, until the ledger is open.
	WaitStarted func(ctx context.Context)
	// Health is the state of each rail's observer. It never blocks.
	Health func() []observe.Health
	// ClockOffset is how far our clock is known to be ahead. It never blocks.
	ClockOffset func() time.Duration
	// Hooks receive the webhooks of providers, by rail. HooksOff are rails whose webhook secret
	// has no value: their providers are told to retry.
	Hooks    map[string]observe.Hook
	HooksOff []string
	// Invoices make invoices of rails whose payments need one each. Limiter bounds those of each client; it may be nil without them.
	Invoices map[string]Invoicer
	Limiter  *x402.Limiter
	// WatchInvoice says that a payer looks at an invoice of an account, which the offer may not have any more.
	WatchInvoice func(account, hash string)
	// Keys are the public keys of signed statements. It never blocks. Default: none.
	Keys func() []document.VerificationKey
	// OnDelivery is called with the verdict on each webhook delivery.
	OnDelivery func(rail string, v observe.Verdict)
	// Gates is what the gates of this offer know of payments. Default: a new one.
	Gates *gate.Memory
	// QRKey is the 32-byte key of QR addresses, nil until it is loaded.
	QRKey func() []byte
	// ClientIP is the address by which rate limits count a request.
	ClientIP func(r *http.Request) string
	// SiteFile is a file of the site with an address on its host, as the server of a request
	// serves it, or nil. Default: none.
	SiteFile func(r *http.Request, address string) []byte
	// BodyTimeout is the time in which a request's body must arrive. Default: 10 seconds.
	BodyTimeout time.Duration
	Now         func() time.Time
	Logger      *slog.Logger
}

// Server answers the requests of one offer. It is safe for concurrent use.
type Server struct {
	Config
	responder
	// Keeper decides who may pass the gates of the offer.
	Keeper *gate.Keeper
	// programs has no problem pages. Scripts of other origins cannot read the responses of
	// private, for providers, and of personal, for payers.
	programs, private, personal responder

	resources  map[string]*resource
	images     cache[string, *response]
	quote      atomic.Pointer[quoteResponses]
	security   atomic.Pointer[responseFunc]
	live       atomic.Pointer[liveState]
	bodies     openBodies
	refresh    sync.Mutex
	snapshots  snapshots
	olderReads chan struct{} // one element for each older report or page of the feed that is being made
	unreadable atomic.Bool   // the receipts cannot be read; logged once
}

// New makes a Server.
func New(c Config) (*Server, error) {
	if c.Offer == nil || c.Payments == nil || c.Agent == nil || c.Live == nil || c.Receipts == nil ||
		c.Health == nil || c.WaitStarted == nil || c.ClockOffset == nil || c.QRKey == nil || c.ClientIP == nil ||
		c.Now == nil || c.Logger == nil {
		return nil, errors.New("web: a field of Config is not set; report this as a bug")
	}
	c.BodyTimeout = cmp.Or(c.BodyTimeout, bodyTimeout)
	if c.Hold == nil {
		c.Hold = func() (func(), bool) { return nil, false }
	}
	common := commonHeaders(c.Offer.Card.URL)
	programs := responder{common: append(slices.Clip(common), crossOrigin...)}
	s := &Server{
		Config: c, private: responder{common: common}, programs: programs, responder: programs,
		bodies: openBodies{open: make(map[string][]*openBody)},
		// Strangers can request older reports, and payments need the other processors.
		olderReads: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2)),
	}
	s.Keeper = &gate.Keeper{Offer: c.Offer, Ledger: c.Receipts, Key: c.QRKey, Now: c.Now, Memory: cmp.Or(c.Gates, new(gate.Memory))}
	s.problemPage = s.renderProblem
	s.personal = responder{common, s.renderProblem}
	s.resources = s.newResources()
	s.Renew(c.Now())
	s.Refresh()
	return s, nil
}

// Serve answers a request for one of the offer's paths. For other paths it returns false and
// writes nothing.
func (s *Server) Serve(w http.ResponseWriter, r *http.Request) bool {
	found := s.find(r.URL)
	if found == nil {
		return false
	}
	limitBodyTime(w, r, s.BodyTimeout)
	found.ServeHTTP(w, r)
	return true
}

// Refresh must be called when the price, the published address or a key changed.
func (s *Server) Refresh() {
	// The lock prevents that an older state replaces a newer one.
	s.refresh.Lock()
	defer s.refresh.Unlock()
	s.live.Store(s.newLiveState())
}

// Renew must be called when a day begins (UTC): security.txt has a date of expiry.
func (s *Server) Renew(now time.Time) {
	s.security.Store(new(renderOnce(func() *response { return s.document(document.Security(s.Offer, now)) })))
}
