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
	// Type is a stable name of the kind of problem, a URN.
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	// Detail is a sentence for a person: what is wrong and what to do.
	Detail string `json:"detail"`
	// Reason is a stable code of the payment protocol.
	Reason string `json:"reason,omitempty"`
	// Intent names the payment whose outcome is not known yet.
	Intent string `json:"intent,omitempty"`
}

// problemType begins every problem's type. It names no host, so that it is the
// same on every server.
const problemType = "urn:pay-offer:problem:"

// Kinds of problems: the end of the type, and the title.
var (
	problemMethod       = [2]string{"method-not-allowed", "The method is not allowed here"}
	problemTooLarge     = [2]string{"body-too-large", "The body is too large"}
	problemBody         = [2]string{"bad-body", "The body cannot be read"}
	problemNotFound     = [2]string{"not-found", "There is nothing at this address"}
	problemNotStarted   = [2]string{"not-started", "The service is starting"}
	problemNoRate       = [2]string{"no-rate", "The rail cannot quote a price now"}
	problemResource     = [2]string{"bad-resource", "The resource parameter cannot be read"}
	problemUnknown      = [2]string{"unknown-resource", "The resource is not known here"}
	problemPage         = [2]string{"bad-page", "The page parameters cannot be read"}
	problemLedger       = [2]string{"ledger-unavailable", "The receipts cannot be read now"}
	problemOpen         = [2]string{"open-settlement", "The outcome of the payment is not known yet"}
	problemSettlement   = [2]string{"settlement-unavailable", "The payment cannot be taken now"}
	problemConflict     = [2]string{"payment-conflict", "The payment is in use by another one"}
	problemMalformed    = [2]string{"malformed-payment", "The payment cannot be read"}
	problemTooManyTries = [2]string{"too-many-attempts", "Too many payment attempts"}
	problemUnverified   = [2]string{"unverified-delivery", "The delivery is not proven to come from the provider"}
	problemDelivery     = [2]string{"malformed-delivery", "The delivery cannot be read"}
	problemNotRecorded  = [2]string{"delivery-unavailable", "The delivery cannot be recorded now"}
)

// problem is an answer with problem details. It is never stored.
func (all answers) problem(status int, kind [2]string, detail string, headers ...header) *answer {
	return all.problemOf(problem{Type: problemType + kind[0], Title: kind[1], Status: status, Detail: detail}, headers...)
}

func (all answers) problemOf(p problem, headers ...header) *answer {
	return all.answer(p.Status, typeProblem, cacheNever, encode(p), headers...)
}

// retryAfter is the Retry-After header in whole seconds, at least one (RFC 9110
// section 10.2.3).
func retryAfter(d time.Duration) header {
	seconds := max(1, int64((d+time.Second-1)/time.Second))
	return header{"Retry-After", strconv.FormatInt(seconds, 10)}
}

// notAllowed answers a method that a resource does not have.
func (all answers) notAllowed(allow string) *answer {
	return all.problem(http.StatusMethodNotAllowed, problemMethod,
		"This address answers "+allow+" only; send one of these.", header{"Allow", allow})
}

// sentence gives a message the form of a sentence.
func sentence(s string) string {
	first, size := utf8.DecodeRuneInString(s)
	return strings.TrimSuffix(string(unicode.ToUpper(first))+s[size:], ".") + "."
}
