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

// problem is an error as RFC 9457 writes it.
type problem struct {
	Type   string `json:"type" jsonschema:"What kind of problem it is."`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail" jsonschema:"What is wrong and what to do."`
	Reason string `json:"reason,omitempty" jsonschema:"A stable code of the payment protocol."`
	Intent string `json:"intent,omitempty" jsonschema:"The payment whose outcome is not known yet."`
	// ReceiptURL is of the same payment.
	ReceiptURL string `json:"receiptUrl,omitempty" jsonschema:"The page that will say what became of the payment, for its payer alone."`
}

// problemType begins every problem's type. It names no host, so that it is the
// same on every server.
const problemType = "urn:pay-offer:problem:"

// problemKind is a kind of problem: its HTTP status, and the end of its type, under
// which the catalogues have its title and what it is about.
type problemKind struct {
	status int
	name   string
}

// Kinds of problems.
var (
	problemMethod       = problemKind{http.StatusMethodNotAllowed, "method-not-allowed"}
	problemTooLarge     = problemKind{http.StatusRequestEntityTooLarge, "body-too-large"}
	problemBody         = problemKind{http.StatusBadRequest, "bad-body"}
	problemSlow         = problemKind{http.StatusRequestTimeout, "slow-body"}
	problemNotFound     = problemKind{http.StatusNotFound, "not-found"}
	problemNotStarted   = problemKind{http.StatusServiceUnavailable, "not-started"}
	problemNoRate       = problemKind{http.StatusServiceUnavailable, "no-rate"}
	problemResource     = problemKind{http.StatusBadRequest, "bad-resource"}
	problemUnknown      = problemKind{http.StatusNotFound, "unknown-resource"}
	problemPage         = problemKind{http.StatusBadRequest, "bad-page"}
	problemSession      = problemKind{http.StatusBadRequest, "bad-session"}
	problemCursor       = problemKind{http.StatusGone, "unknown-cursor"}
	problemLedger       = problemKind{http.StatusServiceUnavailable, "ledger-unavailable"}
	problemMalformed    = problemKind{http.StatusBadRequest, "malformed-payment"}
	problemOpen         = problemKind{http.StatusServiceUnavailable, "open-settlement"}
	problemSettlement   = problemKind{http.StatusServiceUnavailable, "settlement-unavailable"}
	problemConflict     = problemKind{http.StatusConflict, "payment-conflict"}
	problemTooManyTries = problemKind{http.StatusTooManyRequests, "too-many-attempts"}
	problemUnverified   = problemKind{http.StatusForbidden, "unverified-delivery"}
	problemDelivery     = problemKind{http.StatusBadRequest, "malformed-delivery"}
	problemNotRecorded  = problemKind{http.StatusServiceUnavailable, "delivery-unavailable"}
)

// Kinds of problems that every offer has, that one has with a rail for programs,
// and that one has with webhooks.
var (
	commonProblems = []problemKind{
		problemMethod, problemTooLarge, problemBody, problemSlow, problemNotFound, problemNotStarted, problemNoRate, problemResource, problemUnknown,
		problemPage, problemSession, problemCursor, problemLedger, problemMalformed,
	}
	paymentProblems = []problemKind{problemOpen, problemSettlement, problemConflict, problemTooManyTries}
	hookProblems    = []problemKind{problemUnverified, problemDelivery, problemNotRecorded}
)

// perhapsPaid are the kinds of which somebody may hear who has paid.
var perhapsPaid = []problemKind{problemSession, problemOpen, problemConflict}

// title is the kind's in a language.
func (k problemKind) title(l *text.Language) string { return l.Text("error." + k.name + ".title") }

// refuse is a problem whose detail is the text of the catalogues that is named by
// key among those of its kind.
func (re responder) refuse(kind problemKind, key string, with offer.With, headers ...header) *response {
	return re.explain(kind, offer.Phrase{Key: "error." + kind.name + "." + key, With: with}, problem{}, headers...)
}

// problem is a problem whose detail is a sentence in English, as protocols have
// theirs.
func (re responder) problem(kind problemKind, detail string, headers ...header) *response {
	return re.explain(kind, offer.Literal(detail), problem{}, headers...)
}

// explain is an answer with problem details, or with a page of the same words for
// who prefers HTML. It is written when it is asked for, and never stored.
func (re responder) explain(kind problemKind, detail offer.Phrase, p problem, headers ...header) *response {
	headers = slices.Clip(headers)
	return &response{status: kind.status, choose: func(r *http.Request) *response {
		if re.explained != nil && prefer(r.Header["Accept"], [][]string{asksProblem, asksHTML}) == 1 {
			return re.explained(re, r, kind, detail, p, headers)
		}
		told, headers, english := p, headers, text.Languages[0]
		if re.explained != nil {
			headers = append(headers, varyAccept)
		}
		told.Type, told.Title, told.Status, told.Detail = problemType+kind.name, kind.title(english), kind.status, capitalized(english.Say(detail))
		return re.render(kind.status, typeProblem, cacheNever, encode(told), headers...)
	}}
}

// problemPage is a problem for people. It says where to go on, and leads back to
// the same address only where asking again is safe.
func (s *Server) problemPage(re responder, r *http.Request, kind problemKind, detail offer.Phrase, p problem, headers []header) *response {
	f := s.frame(r, "")
	if session, ok := parseSession(r.URL.RawQuery); ok && session != "" {
		f.Query.Set("session_id", session) // of a checkout it is the page in every language
	}
	content := struct {
		problem
		English bool // the detail is, on a page in another language
		Pay     bool // who cannot have paid is shown how
		Wait    int
		Again   bool
	}{problem: p, English: detail.Key == "" && f.Language != text.Languages[0], Pay: !slices.Contains(perhapsPaid, kind)}
	content.Status, content.Title, content.Detail = kind.status, kind.title(f.Language), capitalized(f.Language.Say(detail))
	for _, h := range headers {
		if h.name == "Retry-After" {
			content.Wait, _ = strconv.Atoi(h.value) // it is one of ours
			content.Again = r.Method == http.MethodGet || r.Method == http.MethodHead
		}
	}
	return re.page(kind.status, cacheNever, page.Problem.Render(f, content.Title+": "+s.Offer.Name, content), headers...)
}

// retryAfter is the Retry-After header in whole seconds, at least one (RFC 9110
// section 10.2.3).
func retryAfter(d time.Duration) header {
	seconds := max(1, int64((d+time.Second-1)/time.Second))
	return header{"Retry-After", strconv.FormatInt(seconds, 10)}
}

// notAllowed answers a method that a resource does not have.
func (re responder) notAllowed(allow string) *response {
	return re.refuse(problemMethod, "detail", offer.With{"allow": allow}, header{"Allow", allow})
}

// sentence gives a message the form of a sentence.
func sentence(s string) string {
	return strings.TrimSuffix(capitalized(s), ".") + "."
}

// capitalized begins a text with a capital.
func capitalized(s string) string {
	first, size := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(first)) + s[size:]
}
