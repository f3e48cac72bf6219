package web

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

const (
	// cardPatience and storefrontPatience bound how long a delivery may take to
	// arrive and to be recorded. A storefront gives up after 5 seconds, and does
	// not repeat what it gave up on.
	cardPatience, storefrontPatience = 10 * time.Second, 4 * time.Second
	// hookRetry is when a provider may repeat what could not be recorded.
	hookRetry = 60 * time.Second
)

// Hooks take the webhooks of providers. Where none is, the path is left to the
// next handler.
type Hooks struct {
	// Card takes those of the card processor, nil for none.
	Card observe.Hook
	// Storefronts take those of storefronts, by the rail's name.
	Storefronts map[string]observe.Hook
}

// rails are the names of the rails with a hook, sorted but for the card, which
// is first.
func (h Hooks) rails() []string {
	var names []string
	for name := range h.Storefronts {
		names = append(names, name)
	}
	slices.Sort(names)
	if h.Card != nil {
		names = slices.Insert(names, 0, offer.RailCard)
	}
	return names
}

// hook is the address of one rail's webhooks.
type hook struct {
	rail     string
	receiver observe.Hook
	patience time.Duration
	responder
	received, notAllowed, tooLarge, unread *response
	onDelivery                             func(rail string, v observe.Verdict)
}

// listen serves the configured hooks. Their answers are for providers alone, so
// that no script of another origin may read one.
func (s *Server) listen(re responder) {
	if s.Hooks.Card != nil {
		s.resources[offer.PathHookCard] = s.newHook(re, offer.RailCard, s.Hooks.Card, cardPatience)
	}
	s.hooks = make(map[string]*hook, len(s.Hooks.Storefronts))
	for rail, receiver := range s.Hooks.Storefronts {
		s.hooks[rail] = s.newHook(re, rail, receiver, storefrontPatience)
	}
}

// delivered is the body of the answer to a delivery that was recorded.
type delivered struct {
	Received bool `json:"received"`
}

func (s *Server) newHook(re responder, rail string, receiver observe.Hook, patience time.Duration) *hook {
	h := &hook{rail: rail, receiver: receiver, patience: patience, responder: re, onDelivery: s.OnDelivery}
	if h.onDelivery == nil {
		h.onDelivery = func(string, observe.Verdict) {}
	}
	h.received = re.json(http.StatusOK, cacheNever, delivered{true})
	h.notAllowed = re.notAllowed(http.MethodPost)
	h.tooLarge = re.problem(http.StatusRequestEntityTooLarge, problemTooLarge, "A delivery of more than 256 KiB is not read, and nothing was recorded.")
	h.unread = re.problem(http.StatusBadRequest, problemBody,
		"The body ended early or is not framed as HTTP wants it, and nothing was recorded. Send the delivery again.")
	return h
}

// findHook is the hook at an address, or nil. The secret of a storefront is one
// segment that is not empty; an encoded slash makes none.
func (s *Server) findHook(u *url.URL) http.Handler {
	if strings.Contains(strings.ToLower(u.RawPath), "%2f") {
		return nil
	}
	if u.Path == offer.PathHookCard {
		return s.resources[offer.PathHookCard]
	}
	rail, secret, _ := strings.Cut(strings.TrimPrefix(u.Path, offer.PathHook+"/"), "/")
	if h := s.hooks[rail]; h != nil && secret != "" && !strings.Contains(secret, "/") {
		return h.with(secret)
	}
	return nil
}

// ServeHTTP takes a delivery to an address without a secret.
func (h *hook) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.with("").ServeHTTP(w, r) }

// with takes a delivery to an address that ends in secret.
func (h *hook) with(secret string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			h.notAllowed.ServeHTTP(w, r)
			return
		}
		verdict, reply := h.take(w, r, secret)
		h.onDelivery(h.rail, verdict)
		reply.ServeHTTP(w, r)
	}
}

// take reads and records a delivery. A provider that leaves does not interrupt
// it: some do not repeat what they gave up on.
func (h *hook) take(w http.ResponseWriter, r *http.Request, secret string) (observe.Verdict, *response) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), h.patience)
	defer cancel()
	body, err := readBody(ctx, w, r)
	tooMuch := (*http.MaxBytesError)(nil)
	switch {
	case errors.As(err, &tooMuch):
		return observe.Malformed, h.tooLarge
	case err != nil && ctx.Err() != nil:
		return observe.Unavailable, h.judged(observe.Unavailable, "the body did not arrive in time")
	case err != nil:
		return observe.Malformed, h.unread
	}
	verdict, detail := h.receiver.Receive(ctx, observe.Delivery{Header: r.Header, Secret: secret, Body: body})
	return verdict, h.judged(verdict, detail)
}

// readBody reads a delivery's body, and no longer than ctx lasts.
func readBody(ctx context.Context, w http.ResponseWriter, r *http.Request) ([]byte, error) {
	// A deadline in the past ends a read that is under way. Where the server
	// has none, its own limits hold.
	stop := context.AfterFunc(ctx, func() { _ = http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	return io.ReadAll(http.MaxBytesReader(w, r.Body, observe.MaxDelivery))
}

// judged is a verdict as HTTP. Whatever is not known to be something else is to
// be repeated.
func (h *hook) judged(v observe.Verdict, detail string) *response {
	switch v {
	case observe.Recorded, observe.Ignored:
		return h.received
	case observe.Unverified:
		return h.refused(http.StatusForbidden, problemUnverified, detail)
	case observe.Malformed:
		return h.refused(http.StatusBadRequest, problemDelivery, detail)
	default:
		return h.refused(http.StatusServiceUnavailable, problemNotRecorded, detail, retryAfter(hookRetry))
	}
}

func (h *hook) refused(status int, kind problemKind, detail string, headers ...header) *response {
	return h.problem(status, kind, sentence(cmp.Or(detail, kind.title)), headers...)
}
