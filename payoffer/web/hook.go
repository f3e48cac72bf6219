package web

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	urlpath "path"
	"slices"
	"strings"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/text"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

const (
	// cardPatience and storefrontPatience bound how long a delivery may take to
	// arrive and to be recorded. A storefront gives up after 5 seconds, and does
	// not repeat what it gave up on.
	cardPatience, storefrontPatience = 10 * time.Second, 4 * time.Second
	// hookRetry is when a provider may repeat what could not be recorded.
	hookRetry = 60 * time.Second
	// unheard is the verdict on a delivery for whose body there is no place. It is
	// counted nowhere, for anybody can take the places, and what is unavailable
	// wakes the operator.
	unheard observe.Verdict = "unheard"
)

// delivered is the body of the answer to a delivery that was recorded.
type delivered struct {
	Received bool `json:"received"`
}

// findHook returns the handler of an address that is /v1/hook or below it, escaped
// or not; nil for any other address, which may be the site's own. An address below
// /v1/hook that has no webhook gets a 404: Caddy's empty 200 would tell a provider
// that its delivery was stored. A delivery is accepted only at the address that the
// operator gave to the provider, whose secret may be escaped.
func (s *Server) findHook(u *url.URL) http.Handler {
	if !strings.Contains(u.Path, "/hook") { // decoded, so that every spelling contains it
		return nil
	}
	escaped := u.EscapedPath()
	if !belowHooks(u.Path) && !belowHooks(escaped) {
		return nil
	}
	rail, secret, ok := s.parseHook(escaped)
	switch {
	case !ok:
		return s.private.problem(problemNotFound, "There is no webhook at this address, and nothing was recorded. "+
			"Compare it with the one that the operator was told to give to the provider.")
	case s.Hooks[rail] != nil:
		return s.hookOf(rail, secret)
	default:
		return s.private.problem(problemNotRecorded, "The secret of this webhook is configured and has no value now, and nothing was recorded. "+
			"Set the variable or the file that it is read from, and send the delivery again.", retryAfter(hookRetry))
	}
}

// belowHooks reports whether a path, once it is cleaned, is that of the webhooks
// or lies below it.
func belowHooks(p string) bool {
	cleaned := urlpath.Clean("/" + p)
	return cleaned == offer.PathHook || strings.HasPrefix(cleaned, offer.PathHook+"/") || strings.HasPrefix(p, offer.PathHook+"/")
}

// parseHook splits the path of a webhook that is taken, or would be if its secret
// had a value. That of the card's ends with its rail, that of a storefront's with
// a secret: one segment that is not empty, and an encoded slash makes none.
func (s *Server) parseHook(escaped string) (rail, secret string, ok bool) {
	rest, below := strings.CutPrefix(escaped, offer.PathHook+"/")
	rail, segment, more := strings.Cut(rest, "/")
	secret, err := url.PathUnescape(segment)
	if !below || err != nil || s.Hooks[rail] == nil && !slices.Contains(s.HooksOff, rail) {
		return "", "", false
	}
	if rail == offer.RailCard {
		return rail, "", !more
	}
	return rail, secret, secret != "" && !strings.Contains(secret, "/")
}

// hookOf takes deliveries for a rail.
func (s *Server) hookOf(rail, secret string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			s.private.notAllowed(http.MethodPost).ServeHTTP(w, r)
			return
		}
		verdict, reply := s.take(w, r, rail, secret)
		if verdict != unheard && s.OnDelivery != nil {
			s.OnDelivery(rail, verdict)
		}
		reply.ServeHTTP(w, r)
	})
}

// take reads and records a delivery. A provider that leaves does not interrupt
// it: some do not repeat what they gave up on. Who does not show the secret, or
// a signature, has no body read; and whatever anybody can do to a body is
// malformed, for what is unavailable wakes the operator.
func (s *Server) take(w http.ResponseWriter, r *http.Request, rail, secret string) (observe.Verdict, *response) {
	hook := s.Hooks[rail]
	if detail, admitted := hook.Admit(r.Header, secret); !admitted {
		return observe.Unverified, s.judged(observe.Unverified, detail)
	}
	patience := storefrontPatience
	if rail == offer.RailCard {
		patience = cardPatience
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), patience)
	defer cancel()
	end, ok := s.bodies.begin(rail, x402.ClientNetwork(s.ClientIP(r)))
	if !ok {
		return unheard, s.private.problem(problemNotRecorded,
			"Too many deliveries arrive at once, and nothing was recorded. Send the delivery again.", retryAfter(hookRetry))
	}
	body, err := func() ([]byte, error) {
		defer end()
		arrive(w, r, min(patience, s.BodyTimeout))
		return io.ReadAll(http.MaxBytesReader(w, r.Body, observe.MaxDelivery))
	}()
	tooMuch := (*http.MaxBytesError)(nil)
	switch {
	case errors.As(err, &tooMuch):
		return observe.Malformed, s.private.problem(problemTooLarge,
			"A delivery of more than 256 KiB is not read, and nothing was recorded.")
	case errors.Is(err, os.ErrDeadlineExceeded):
		return observe.Malformed, s.private.problem(problemSlow,
			"The body took longer than this service waits, and nothing was recorded. Send the delivery again.")
	case err != nil:
		return observe.Malformed, s.private.problem(problemBody,
			"The body ended early or is not framed as HTTP wants it, and nothing was recorded. Send the delivery again.")
	}
	s.Started(ctx)
	verdict, detail := hook.Receive(ctx, observe.Delivery{Header: r.Header, Secret: secret, Body: body})
	return verdict, s.judged(verdict, detail)
}

// judged is a verdict as HTTP. Whatever is not known to be something else is to
// be repeated.
func (s *Server) judged(v observe.Verdict, detail string) *response {
	refused := func(kind problemKind, headers ...header) *response {
		return s.private.problem(kind, sentence(cmp.Or(detail, kind.title(text.Languages[0]))), headers...)
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
