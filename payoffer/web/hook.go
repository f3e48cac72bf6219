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
	"sync/atomic"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/document"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/text"
)

const (
	// cardTimeout and storefrontTimeout limit how long a delivery may take to arrive and to be
	// recorded. A storefront gives up after 5 seconds and does not retry then.
	cardTimeout, storefrontTimeout = 10 * time.Second, 4 * time.Second
	// hookRetry is the Retry-After for a delivery that could not be recorded.
	hookRetry = 60 * time.Second
)

// delivered is the body of the response to a recorded delivery.
type delivered struct {
	Received bool `json:"received"`
}

// hookOperations describe the webhooks of the rails that receive them.
func hookOperations(rails []string) (all []document.Operation) {
	add := func(path, summary string) {
		all = append(all, document.Operation{
			Method: http.MethodPost, Path: path, Tag: "hooks", Summary: summary, OK: []document.Body{jsonBody("Delivery")},
			Responses: map[string]any{
				"4XX": document.Response("Refused.", document.Problem), "503": document.Response("Send the delivery again.", document.Problem),
			},
		})
	}
	if slices.Contains(rails, offer.RailCard) {
		add(offer.PathHookCard, "Receive a signed event of the card processor")
	}
	if slices.ContainsFunc(rails, func(rail string) bool { return rail != offer.RailCard }) {
		add(offer.PathHook+"/{storefront}/{secret}", "Receive a notice of a storefront")
	}
	return all
}

// findHook returns the handler of a URL at or below /v1/hook, escaped or not; nil for other
// URLs. Unknown ones get a 404: Caddy's empty 200 would tell a provider that its delivery
// was stored. A secret may be escaped.
func (s *Server) findHook(u *url.URL) http.Handler {
	if !strings.Contains(u.Path, "/hook") {
		return nil
	}
	escaped := u.EscapedPath()
	if !belowHooks(u.Path) && !belowHooks(escaped) {
		return nil
	}
	rail, secret, ok := s.parseHook(escaped)
	switch {
	case !ok:
		return s.private.problem(problemNotFound, "There is no webhook at this address, so nothing was recorded. "+
			"Check the method name and the secret in the address, such as /v1/hook/card.")
	case s.Hooks[rail] != nil:
		return s.newHook(rail, secret)
	default:
		return s.private.problem(problemNotRecorded, "The secret of this webhook is empty on the server, so nothing was recorded. "+
			"Set the variable or the file of the secret, and send the delivery again.", retryAfter(hookRetry))
	}
}

// belowHooks reports whether a cleaned path is at or below /v1/hook.
func belowHooks(p string) bool {
	cleaned := urlpath.Clean("/" + p)
	return cleaned == offer.PathHook || strings.HasPrefix(cleaned, offer.PathHook+"/") || strings.HasPrefix(p, offer.PathHook+"/")
}

// parseHook splits the path of a configured webhook. The card's ends with its rail, a
// storefront's with a secret: one non-empty segment without an encoded slash.
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

// newHook is the handler of a rail's webhook.
func (s *Server) newHook(rail, secret string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			s.private.notAllowed(http.MethodPost).ServeHTTP(w, r)
			return
		}
		verdict, reply := s.receive(w, r, rail, secret)
		if s.OnDelivery != nil {
			s.OnDelivery(rail, verdict)
		}
		reply.ServeHTTP(w, r)
	})
}

// receive reads and records a delivery, also if the provider disconnects, because some do not
// retry. The body is read only after the secret or a signature was shown. Problems that
// strangers can cause are malformed, not unavailable.
func (s *Server) receive(w http.ResponseWriter, r *http.Request, rail, secret string) (observe.Verdict, *response) {
	hook := s.Hooks[rail]
	if detail, admitted := hook.Admit(r.Header, secret); !admitted {
		return observe.Unverified, s.respond(observe.Unverified, detail)
	}
	timeout := storefrontTimeout
	if rail == offer.RailCard {
		timeout = cardTimeout
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), timeout)
	defer cancel()
	limited := func() (observe.Verdict, *response) {
		return observe.Limited, s.private.problem(problemNotRecorded,
			"Too many deliveries arrive at once, so this one was not recorded. Send it again after the time in Retry-After.", retryAfter(hookRetry))
	}
	limitBodyTime(w, r, min(timeout, s.BodyTimeout))
	var dropped atomic.Bool
	end, ok := s.bodies.begin(rail, s.ClientIP(r), func() {
		dropped.Store(true)
		_ = http.NewResponseController(w).SetReadDeadline(time.Now()) // some servers have no deadlines
	})
	if !ok {
		return limited()
	}
	body, err := func() ([]byte, error) {
		defer end()
		return io.ReadAll(http.MaxBytesReader(w, r.Body, observe.MaxDelivery))
	}()
	tooMuch := (*http.MaxBytesError)(nil)
	switch {
	case err != nil && dropped.Load():
		return limited()
	case errors.As(err, &tooMuch):
		return observe.Malformed, s.private.problem(problemTooLarge,
			"The delivery is larger than 256 KiB, so it was not recorded. Send single events without attachments.")
	case errors.Is(err, os.ErrDeadlineExceeded):
		return observe.Malformed, s.private.problem(problemSlow,
			"The body did not arrive in time, so nothing was recorded. Send the delivery again.")
	case err != nil:
		return observe.Malformed, s.private.problem(problemBody,
			"The body is incomplete, so nothing was recorded. Send the delivery again.")
	}
	s.WaitStarted(ctx)
	verdict, detail := hook.Receive(ctx, observe.Delivery{Header: r.Header, Secret: secret, Body: body})
	return verdict, s.respond(verdict, detail)
}

// respond is the response to a verdict. A verdict unknown to this function asks for a retry.
func (s *Server) respond(v observe.Verdict, detail string) *response {
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
