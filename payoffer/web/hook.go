package web

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
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

// delivered is the body of the answer to a delivery that was recorded.
type delivered struct {
	Received bool `json:"received"`
}

// findHook takes deliveries to an address, nil for none. That of the card's hook
// ends with its rail, that of a storefront's with a secret: one segment that is
// not empty, and an encoded slash makes none.
func (s *Server) findHook(u *url.URL) http.Handler {
	rail, secret, _ := strings.Cut(strings.TrimPrefix(u.Path, offer.PathHook+"/"), "/")
	known := u.Path == offer.PathHookCard || rail != offer.RailCard && secret != "" && !strings.Contains(secret, "/")
	if s.Hooks[rail] == nil || !known || strings.Contains(strings.ToLower(u.RawPath), "%2f") {
		return nil
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			s.private.notAllowed(http.MethodPost).ServeHTTP(w, r)
			return
		}
		verdict, reply := s.take(w, r, rail, secret)
		if s.OnDelivery != nil {
			s.OnDelivery(rail, verdict)
		}
		reply.ServeHTTP(w, r)
	})
}

// take reads and records a delivery. A provider that leaves does not interrupt
// it: some do not repeat what they gave up on.
func (s *Server) take(w http.ResponseWriter, r *http.Request, rail, secret string) (observe.Verdict, *response) {
	patience := storefrontPatience
	if rail == offer.RailCard {
		patience = cardPatience
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), patience)
	defer cancel()
	arrive(w, r, min(patience, s.BodyTimeout))
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, observe.MaxDelivery))
	tooMuch := (*http.MaxBytesError)(nil)
	switch {
	case errors.As(err, &tooMuch):
		return observe.Malformed, s.private.problem(problemTooLarge,
			"A delivery of more than 256 KiB is not read, and nothing was recorded.")
	case errors.Is(err, os.ErrDeadlineExceeded):
		return observe.Unavailable, s.private.problem(problemSlow,
			"The body took longer than this service waits, and nothing was recorded. Send the delivery again.")
	case err != nil:
		return observe.Malformed, s.private.problem(problemBody,
			"The body ended early or is not framed as HTTP wants it, and nothing was recorded. Send the delivery again.")
	}
	verdict, detail := s.Hooks[rail].Receive(ctx, observe.Delivery{Header: r.Header, Secret: secret, Body: body})
	return verdict, s.judged(verdict, detail)
}

// judged is a verdict as HTTP. Whatever is not known to be something else is to
// be repeated.
func (s *Server) judged(v observe.Verdict, detail string) *response {
	refused := func(kind problemKind, headers ...header) *response {
		return s.private.problem(kind, sentence(cmp.Or(detail, kind.title)), headers...)
	}
	switch v {
	case observe.Recorded, observe.Ignored:
		return s.private.json(http.StatusOK, cacheNever, delivered{true})
	case observe.Unverified:
		return refused(problemUnverified)
	case observe.Malformed:
		return refused(problemDelivery)
	default:
		return refused(problemNotRecorded, retryAfter(hookRetry))
	}
}
