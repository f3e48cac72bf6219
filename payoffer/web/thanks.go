package web

import (
	"context"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/page"
	"github.com/payoffer/caddy-pay-offer/payoffer/report"
)

// Values of arrival.State. The others are statuses of receipts.
const (
	arrivalWaiting = "waiting"
	arrivalUnknown = "unknown"
	arrivalNone    = "none"
)

// sessionForm matches the ids of checkout sessions. sessionTemplate is what the card processor replaces by one; it
// is still in a URL that was opened by hand.
var sessionForm = regexp.MustCompile(`^cs_[A-Za-z0-9_]{1,252}$`)

const sessionTemplate = "{CHECKOUT_SESSION_ID}"

// arrival is the body of GET /v1/thanks: the payment of one checkout.
type arrival struct {
	State      string   `json:"state" jsonschema:"Of a checkout: waiting, nothing is known of it (yet); unknown, card payments cannot be observed now; else the status of its payment. none: the request names no checkout."`
	OccurredAt *string  `json:"occurredAt" jsonschema:"When the money moved; null without a payment."`
	Testnet    bool     `json:"testnet" jsonschema:"Whether it is a test, whose money is worth nothing."`
	Payment    *arrived `json:"payment" jsonschema:"The payment of the checkout; null without one."`
}

// arrived is the answer about one payment.
type arrived struct {
	report.Amounts
	ReceiptURL *string `json:"receiptUrl" jsonschema:"The page of the payment, for the payer only."`
}

// thanks is GET /v1/thanks, where a checkout returns to. Only the payer has the id of its session: the response is
// about that checkout alone, and scripts of other origins cannot read it.
func (s *Server) thanks(r *http.Request) *response {
	session, ok := parseSession(r.URL.RawQuery)
	re := s.responder
	if session != "" || !ok {
		re = s.personal
	}
	if !ok {
		return re.refuse(problemSession, "detail", nil)
	}
	a, paid := arrival{State: arrivalNone}, ledger.Receipt{}
	if session != "" {
		ctx, cancel := context.WithTimeout(r.Context(), ledgerTimeout)
		defer cancel()
		row, found, err := s.Receipts.SessionReceipt(ctx, s.Offer.ID, session)
		if err != nil {
			return s.orUnavailable(re, err, r, nil)
		}
		s.unreadable.Store(false)
		a, paid = s.sessionArrival(row, found), row
	}
	if !prefersPage(r) {
		return re.json(http.StatusOK, cacheNever, a, noIndex, noReferrer, varyAccept)
	}
	return re.page(http.StatusOK, cacheNever, s.thanksPage(r, a, paid), noIndex, s.paidCookie())
}

// paidCookie sets a cookie for the script of /offer/, which then does not open the checkout for a browser that has
// just paid. If the service and the site have different hosts, the cookie is for the domain above both. Browsers
// refuse a domain such as co.uk.
func (s *Server) paidCookie() header {
	cookie := http.Cookie{
		Name: "pay_offer_paid", Value: "1", Path: offer.PathSite, MaxAge: 3600, SameSite: http.SameSiteLaxMode,
		Secure: strings.HasPrefix(s.Offer.SiteURL, "https:"),
	}
	service, site := offer.Hostname(s.Offer.BaseURL), offer.Hostname(s.Offer.SiteURL)
	domain := site
	for domain != "" && !strings.HasSuffix("."+service, "."+domain) {
		_, domain, _ = strings.Cut(domain, ".")
	}
	if service != site && strings.Contains(domain, ".") {
		cookie.Domain = domain
	}
	return header{"Set-Cookie", cookie.String()}
}

// parseSession reads the parameter session_id; empty for none.
func parseSession(rawQuery string) (session string, ok bool) {
	query, err := url.ParseQuery(rawQuery)
	if err != nil || len(query["session_id"]) > 1 {
		return "", false
	}
	session = query.Get("session_id")
	if session == "" || session == sessionTemplate {
		return "", true
	}
	return session, sessionForm.MatchString(session)
}

// sessionArrival is the state of the payment of a checkout.
func (s *Server) sessionArrival(paid ledger.Receipt, found bool) arrival {
	if !found {
		observed := func(h observe.Health) bool { return h.Rail == offer.RailCard && !h.Blind }
		if !slices.ContainsFunc(s.Health(), observed) {
			return arrival{State: arrivalUnknown}
		}
		return arrival{State: arrivalWaiting}
	}
	record := report.NewRecord(paid)
	a := arrival{State: record.Status, OccurredAt: &record.OccurredAt, Testnet: paid.Testnet, Payment: &arrived{Amounts: record.Amounts}}
	if address := s.ReceiptURL(paid); address != "" {
		a.Payment.ReceiptURL = &address
	}
	return a
}

// thanksPage is the page of an arrival.
func (s *Server) thanksPage(r *http.Request, a arrival, paid ledger.Receipt) page.Page {
	f := s.frame(r, offer.PathThanks, "session_id")
	f.Paid = true
	say := formatter{f.Language, s.Offer}
	with := []any{"amount", "", "at", ""}
	content := struct {
		Title, How, Part, Receipt, Enter string
		Closed                           string // why the payment opens nothing, or empty
		Test, Thanks, Document, Seen     bool
		Returned                         bool // all of it or a part
		Live                             bool // the page waits for the payment of a checkout
		Waiting                          bool // nothing is known of it yet
		Paid                             bool // as far as is known, so that the browser remembers it
	}{Test: a.Testnet, Document: isReceipt(paid), Live: a.State != arrivalNone, Waiting: a.State == arrivalWaiting, Seen: a.State == string(ledger.StatusSeen)}
	content.Paid = slices.Contains([]string{arrivalWaiting, arrivalUnknown, string(ledger.StatusSeen), string(ledger.StatusConfirmed)}, a.State)
	if a.Payment != nil {
		content.Enter = s.accessOf(r, paid, say).Enter
		content.Closed = s.Closed(r.Context(), f.Language, paid)
		with[1], with[3] = say.amount(paid.Asset, paid.Amount), say.moment(*a.OccurredAt)
		content.Thanks = paid.Status == ledger.StatusConfirmed
		content.Returned = paid.Refunded > 0 || paid.Status == ledger.StatusReversed
		if content.Thanks && paid.Refunded > 0 {
			content.Part = f.Language.Text("thanks.part", "amount", say.amount(paid.Asset, paid.Refunded))
		}
		if key := s.QRKey(); key != nil {
			content.Receipt = offer.PathReceipt + "/" + receiptID(key, paid)
		}
	}
	content.Title, content.How = f.Language.Text("thanks."+a.State+".title", with...), f.Language.Text("thanks."+a.State+".how", with...)
	return page.Thanks.Render(f, content.Title+": "+f.Offer.Name, content)
}
