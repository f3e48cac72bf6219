package web

import (
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// problem is an error as RFC 9457 writes it.
type problem struct {
	Type   string `json:"type" jsonschema:"What kind of problem it is."`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail" jsonschema:"What is wrong and what to do."`
	Reason string `json:"reason,omitempty" jsonschema:"A stable code of the payment protocol."`
	Intent string `json:"intent,omitempty" jsonschema:"The payment whose outcome is not known yet."`
}

// problemType begins every problem's type. It names no host, so that it is the
// same on every server.
const problemType = "urn:pay-offer:problem:"

// problemKind is a kind of problem: its HTTP status, the end of its type, and
// its title.
type problemKind struct {
	status      int
	name, title string
}

// Kinds of problems.
var (
	problemMethod       = problemKind{http.StatusMethodNotAllowed, "method-not-allowed", "The method is not allowed here"}
	problemTooLarge     = problemKind{http.StatusRequestEntityTooLarge, "body-too-large", "The body is too large"}
	problemBody         = problemKind{http.StatusBadRequest, "bad-body", "The body cannot be read"}
	problemSlow         = problemKind{http.StatusRequestTimeout, "slow-body", "The body did not arrive in time"}
	problemNotFound     = problemKind{http.StatusNotFound, "not-found", "There is nothing at this address"}
	problemNotStarted   = problemKind{http.StatusServiceUnavailable, "not-started", "The service is starting"}
	problemNoRate       = problemKind{http.StatusServiceUnavailable, "no-rate", "The rail cannot quote a price now"}
	problemResource     = problemKind{http.StatusBadRequest, "bad-resource", "The resource parameter cannot be read"}
	problemUnknown      = problemKind{http.StatusNotFound, "unknown-resource", "The resource is not known here"}
	problemPage         = problemKind{http.StatusBadRequest, "bad-page", "The page parameters cannot be read"}
	problemCursor       = problemKind{http.StatusGone, "unknown-cursor", "The feed does not have this place"}
	problemLedger       = problemKind{http.StatusServiceUnavailable, "ledger-unavailable", "The receipts cannot be read now"}
	problemMalformed    = problemKind{http.StatusBadRequest, "malformed-payment", "The payment cannot be read"}
	problemOpen         = problemKind{http.StatusServiceUnavailable, "open-settlement", "The outcome of the payment is not known yet"}
	problemSettlement   = problemKind{http.StatusServiceUnavailable, "settlement-unavailable", "The payment cannot be taken now"}
	problemConflict     = problemKind{http.StatusConflict, "payment-conflict", "The payment is not taken"}
	problemTooManyTries = problemKind{http.StatusTooManyRequests, "too-many-attempts", "Too many payment attempts"}
	problemUnverified   = problemKind{http.StatusForbidden, "unverified-delivery", "The delivery is not proven to come from the provider"}
	problemDelivery     = problemKind{http.StatusBadRequest, "malformed-delivery", "The delivery cannot be read"}
	problemNotRecorded  = problemKind{http.StatusServiceUnavailable, "delivery-unavailable", "The delivery cannot be recorded now"}
)

// Kinds of problems that every offer has, that one has with a rail for programs,
// and that one has with webhooks.
var (
	commonProblems = []problemKind{
		problemMethod, problemTooLarge, problemBody, problemSlow, problemNotFound, problemNotStarted, problemNoRate, problemResource, problemUnknown,
		problemPage, problemCursor, problemLedger, problemMalformed,
	}
	paymentProblems = []problemKind{problemOpen, problemSettlement, problemConflict, problemTooManyTries}
	hookProblems    = []problemKind{problemUnverified, problemDelivery, problemNotRecorded}
)

// problem is an answer with problem details. It is never stored.
func (re responder) problem(kind problemKind, detail string, headers ...header) *response {
	return re.explain(kind, problem{Detail: detail}, headers...)
}

// explain is a problem whose kind is still to be written into it.
func (re responder) explain(kind problemKind, p problem, headers ...header) *response {
	p.Type, p.Title, p.Status = problemType+kind.name, kind.title, kind.status
	return re.render(p.Status, typeProblem, cacheNever, encode(p), headers...)
}

// retryAfter is the Retry-After header in whole seconds, at least one (RFC 9110
// section 10.2.3).
func retryAfter(d time.Duration) header {
	seconds := max(1, int64((d+time.Second-1)/time.Second))
	return header{"Retry-After", strconv.FormatInt(seconds, 10)}
}

// notAllowed answers a method that a resource does not have.
func (re responder) notAllowed(allow string) *response {
	return re.problem(problemMethod, "This address answers "+allow+" only; send one of these.", header{"Allow", allow})
}

// sentence gives a message the form of a sentence.
func sentence(s string) string {
	first, size := utf8.DecodeRuneInString(s)
	return strings.TrimSuffix(string(unicode.ToUpper(first))+s[size:], ".") + "."
}
