package web

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/page"
	"github.com/payoffer/caddy-pay-offer/payoffer/text"
)

// problem is an error (RFC 9457).
type problem struct {
	Type        string          `json:"type" jsonschema:"The kind of problem."`
	Title       string          `json:"title" jsonschema:"A name of the kind of problem."`
	Status      int             `json:"status" jsonschema:"The HTTP status."`
	Detail      string          `json:"detail" jsonschema:"What is wrong and what to do."`
	Reason      string          `json:"reason,omitempty" jsonschema:"A stable code of the payment protocol."`
	Intent      string          `json:"intent,omitempty" jsonschema:"The payment whose outcome is not known yet."`
	ReceiptURL  string          `json:"receiptUrl,omitempty" jsonschema:"The page that will show the outcome of the payment, for its payer."`
	ChallengeID string          `json:"challengeId,omitempty" jsonschema:"The challenge that the credential answered."`
	Fallback    *offer.Fallback `json:"fallback,omitempty" jsonschema:"Another way to pay."`
}

// problemType is the prefix of every type. It names no host, so types are the same on every server.
const problemType = "urn:pay-offer:problem:"

// problemKind is a kind of problem: its HTTP status, and the end of its type, which is also
// its key among the texts.
type problemKind struct {
	status int
	name   string
}

// Kinds of problems.
var (
	problemMethod       = newKind(http.StatusMethodNotAllowed, "method-not-allowed")
	problemTooLarge     = newKind(http.StatusRequestEntityTooLarge, "body-too-large")
	problemBody         = newKind(http.StatusBadRequest, "bad-body")
	problemSlow         = newKind(http.StatusRequestTimeout, "slow-body")
	problemNotFound     = newKind(http.StatusNotFound, "not-found")
	problemNotStarted   = newKind(http.StatusServiceUnavailable, "not-started")
	problemNoRate       = newKind(http.StatusServiceUnavailable, "no-rate")
	problemInvoice      = newKind(http.StatusServiceUnavailable, "invoice-unavailable")
	problemResource     = newKind(http.StatusBadRequest, "bad-resource")
	problemUnknown      = newKind(http.StatusNotFound, "unknown-resource")
	problemPage         = newKind(http.StatusBadRequest, "bad-page")
	problemSession      = newKind(http.StatusBadRequest, "bad-session")
	problemPrivate      = newKind(http.StatusForbidden, "private-totals")
	problemCursor       = newKind(http.StatusGone, "unknown-cursor")
	problemLedger       = newKind(http.StatusServiceUnavailable, "ledger-unavailable")
	problemMalformed    = newKind(http.StatusBadRequest, "malformed-payment")
	problemOpen         = newKind(http.StatusServiceUnavailable, "open-settlement")
	problemSettlement   = newKind(http.StatusServiceUnavailable, "settlement-unavailable")
	problemConflict     = newKind(http.StatusConflict, "payment-conflict")
	problemUsed         = newKind(http.StatusConflict, "payment-used")
	problemTooManyTries = newKind(http.StatusTooManyRequests, "too-many-attempts")
	problemUnverified   = newKind(http.StatusForbidden, "unverified-delivery")
	problemDelivery     = newKind(http.StatusBadRequest, "malformed-delivery")
	problemNotRecorded  = newKind(http.StatusServiceUnavailable, "delivery-unavailable")
)

// problemKinds are all of them, for the API description.
var problemKinds []problemKind

func newKind(status int, name string) problemKind {
	kind := problemKind{status, name}
	problemKinds = append(problemKinds, kind)
	return kind
}

// maybePaid are the kinds of problems after which the payer may already have paid.
var maybePaid = []problemKind{problemSession, problemOpen, problemConflict, problemUsed, problemLedger}

func (p problemKind) title(l *text.Language) string { return l.Text("error." + p.name + ".title") }

// refuse is a problem whose detail is a text of its kind.
func (re responder) refuse(kind problemKind, key string, with offer.With, headers ...header) *response {
	return re.explain(kind, offer.Phrase{Key: "error." + kind.name + "." + key, With: with}, problem{}, headers...)
}

// problem is a problem with a detail in English.
func (re responder) problem(kind problemKind, detail string, headers ...header) *response {
	return re.explain(kind, offer.Literal(detail), problem{}, headers...)
}

// explain is a response with problem details, or with a page of the same text for clients
// that prefer HTML. It is rendered for each request and not stored.
func (re responder) explain(kind problemKind, detail offer.Phrase, p problem, headers ...header) *response {
	headers = slices.Clip(headers)
	return &response{status: kind.status, choose: func(r *http.Request) *response {
		if re.problemPage != nil && prefer(r.Header["Accept"], [][]string{asksProblem, asksHTML}) == 1 {
			return re.problemPage(re, r, kind, detail, p, headers)
		}
		p, headers, english := p, headers, text.Languages[0]
		if re.problemPage != nil {
			headers = append(headers, varyAccept)
		}
		p.Type, p.Title, p.Status, p.Detail = problemType+kind.name, kind.title(english), kind.status, capitalized(english.Say(detail))
		return re.render(kind.status, typeProblem, cacheNever, encode(p), headers...)
	}}
}

// renderProblem renders a problem as a page. The page links to the same address only if a new request is safe.
func (s *Server) renderProblem(re responder, r *http.Request, kind problemKind, detail offer.Phrase, p problem, headers []header) *response {
	f := s.frame(r, "")
	f.Paid = slices.Contains(maybePaid, kind) || detail.Key == "error.not-found.receipt"
	if session, ok := parseSession(r.URL.RawQuery); ok && session != "" {
		f.Query.Set("session_id", session) // the links to other languages keep it
	}
	content := struct {
		problem
		Kind    string
		English bool // the detail, on a page in another language
		Wait    int  // seconds
		Again   bool
	}{problem: p, Kind: kind.name, English: detail.Key == "" && f.Language != text.Languages[0]}
	content.Status, content.Title, content.Detail = kind.status, kind.title(f.Language), capitalized(f.Language.Say(detail))
	switch detail.Key {
	case "error.not-found.receipt":
		content.Title = f.Language.Text("error.not-found.none")
	case "error.not-found.detail", "error.no-rate.detail", "error.invoice-unavailable.detail": // a button leads to the other methods
		content.Detail = capitalized(f.Language.Say(offer.Phrase{Key: "error." + kind.name + ".page", With: detail.With}))
	}
	for _, h := range headers {
		if h.name == "Retry-After" {
			content.Wait, _ = strconv.Atoi(h.value) // set by retryAfter
			content.Again = r.Method == http.MethodGet || r.Method == http.MethodHead
		}
	}
	return re.page(kind.status, cacheNever, page.Problem.Render(f, content.Title+": "+f.Offer.Name, content), headers...)
}

// retryAfter is the Retry-After header in whole seconds, at least one.
func retryAfter(d time.Duration) header {
	seconds := max(1, int64((d+time.Second-1)/time.Second))
	return header{"Retry-After", strconv.FormatInt(seconds, 10)}
}

// notAllowed answers a method that a path does not have.
func (re responder) notAllowed(allow string) *response {
	return re.refuse(problemMethod, "detail", offer.With{"allow": allow}, header{"Allow", allow})
}

// sentence adds a capital and a full stop.
func sentence(s string) string {
	return strings.TrimSuffix(capitalized(s), ".") + "."
}

func capitalized(s string) string {
	first, size := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(first)) + s[size:]
}
