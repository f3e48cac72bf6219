// Package web answers HTTP for an offer: one route table, content
// negotiation, pages and QR codes. What many ask for is rendered once, for the first
// of them; a request after that writes bytes, and an offer that nobody asks holds none.
package web

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/document"
	"github.com/payoffer/caddy-pay-offer/payoffer/mpp"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// Payments quotes and takes payments; *x402.Service is one.
type Payments interface {
	// Quote is the standing answer to a request without payment. The same
	// pointer means the same quote.
	Quote() *x402.Quote
	// Refusal is a quote of the same terms whose error is reason.
	Refusal(reason string) *x402.Quote
	// Accepts are the ways to pay, empty without a USDC rail.
	Accepts() []x402.Requirements
	// Pay verifies and settles an attempt.
	Pay(ctx context.Context, attempt x402.Attempt) x402.Outcome
	// SignReceipt signs, as of a time, that a payer paid on a network; nil while there
	// is no key.
	SignReceipt(network, payer, transaction string, at int64) *x402.Artifact
}

// Config is what a Server needs. Every field is required but BodyTimeout,
// Challenges, ClockOffset, Hooks, HooksOff, Keys, OnDelivery and Started.
type Config struct {
	Offer    *offer.Offer
	Payments Payments
	// Challenges makes the challenges of the Payment scheme and reads the answers to
	// them; nil where it is not spoken.
	Challenges *mpp.Issuer
	// Agent answers POST /mcp. It finds the common headers set.
	Agent http.Handler
	// Live says what may change; it never blocks.
	Live func() offer.Live
	// Receipts reads the ledger.
	Receipts Receipts
	// Started waits for a ledger that is not open yet, for a limited time or until ctx
	// ends. nil means that the ledger is open.
	Started func(ctx context.Context)
	// Health says how well each rail is observed; it never blocks.
	Health func() []observe.Health
	// ClockOffset is by how much our clock is proven to be ahead, 0 while it is
	// not; it never blocks. nil means that nobody compares it.
	ClockOffset func() time.Duration
	// Hooks take the webhooks of providers, by the rail's name. HooksOff are the
	// rails whose webhook is configured and cannot be taken, for its secret has no
	// value: their providers are asked to come again.
	Hooks    map[string]observe.Hook
	HooksOff []string
	// Keys are the keys that sign for the offer; it never blocks. nil means
	// that there are none.
	Keys func() []document.VerificationKey
	// OnDelivery is told what became of each delivery; nil for nobody.
	OnDelivery func(rail string, v observe.Verdict)
	// QRKey is the 32-byte key of QR addresses, nil until it is loaded.
	QRKey func() []byte
	// ClientIP is the address that limits count a request by.
	ClientIP func(r *http.Request) string
	// BodyTimeout is how long the body of a request may take to arrive. 0 means
	// 10 seconds.
	BodyTimeout time.Duration
	Now         func() time.Time
	Logger      *slog.Logger
}

// Server answers the requests of one offer. It is safe for concurrent use.
type Server struct {
	Config
	responder
	// programs makes the answers of what no person opens, private those to
	// providers, which no script of another origin may read, and personal those to a
	// payer, which none may read either.
	programs, private, personal responder

	resources shelf[string, *resource]
	images    shelf[string, *response]
	quote     atomic.Pointer[standingQuote]
	security  atomic.Pointer[answer]
	live      atomic.Pointer[liveState]
	bodies    openBodies
	refresh   sync.Mutex
	snapshots snapshots
	unread    atomic.Bool // the receipts cannot be read, which the log says once
}

// New renders nothing yet. It fails for a rail whose address does not fit into a QR
// code.
func New(c Config) (*Server, error) {
	if c.Offer == nil || c.Payments == nil || c.Agent == nil || c.Live == nil || c.Receipts == nil ||
		c.Health == nil || c.QRKey == nil || c.ClientIP == nil || c.Now == nil || c.Logger == nil {
		return nil, errors.New("web: a field of Config is not set")
	}
	c.BodyTimeout = cmp.Or(c.BodyTimeout, bodyTimeout)
	if c.ClockOffset == nil {
		c.ClockOffset = func() time.Duration { return 0 }
	}
	if c.Started == nil {
		c.Started = func(context.Context) {}
	}
	common := commonHeaders(c.Offer.Card.URL)
	programs := responder{common: append(slices.Clip(common), crossOrigin...)}
	s := &Server{
		Config: c, private: responder{common: common}, programs: programs, responder: programs, images: shelf[string, *response]{limit: maxImages},
		bodies: openBodies{open: make(map[string]int)},
	}
	s.explained = s.problemPage
	s.personal = responder{common, s.problemPage}
	if err := s.checkImages(); err != nil {
		return nil, err
	}
	s.Renew(c.Now())
	s.Refresh()
	return s, nil
}

// Serve answers a request for one of the offer's paths. It returns false for
// any other and has then written nothing.
func (s *Server) Serve(w http.ResponseWriter, r *http.Request) bool {
	found := s.find(r.URL)
	if found == nil {
		return false
	}
	arrive(w, r, s.BodyTimeout)
	found.ServeHTTP(w, r)
	return true
}

// Refresh has what follows from Config.Live, Config.QRKey and Config.Keys rendered
// again: call it when the rate, the published address or a key changed.
func (s *Server) Refresh() {
	// One at a time, so that an older state never replaces a newer one.
	s.refresh.Lock()
	defer s.refresh.Unlock()
	s.live.Store(s.newLiveState())
}

// Renew has what carries a date of expiry rendered again: call it when a day begins
// (UTC).
func (s *Server) Renew(now time.Time) {
	s.security.Store(new(once(func() *response { return s.document(document.Security(s.Offer, now)) })))
}
