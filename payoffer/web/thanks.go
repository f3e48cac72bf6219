package web

import (
	"context"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/page"
)

// Values of arrival.State. The others are statuses of receipts.
const (
	arrivalWaiting = "waiting"
	arrivalUnknown = "unknown"
	arrivalNone    = "none"
)

// sessionForm is that of the ids of checkout sessions, and sessionTemplate what
// the processor puts one in the place of, in an address that was opened by hand.
var sessionForm = regexp.MustCompile(`^cs_[A-Za-z0-9_]{1,252}$`)

const sessionTemplate = "{CHECKOUT_SESSION_ID}"

// arrival is the body of GET /v1/thanks: what became of the payment of one checkout.
type arrival struct {
	State      string  `json:"state" jsonschema:"Of a checkout: waiting, nothing is known of it (yet); unknown, card payments cannot be observed now; else the status of its payment. none: the request names no checkout."`
	OccurredAt *string `json:"occurredAt" jsonschema:"When the money moved; null where no payment is meant."`
	Testnet    bool    `json:"testnet" jsonschema:"Whether it is a test, whose money is worth nothing."`
	// Payment is of who knows the checkout alone.
	Payment *arrived `json:"payment" jsonschema:"The payment of the checkout; null without one."`
}

// arrived is what the payer is told of the payment.
type arrived struct {
	Asset          string `json:"asset"`
	AmountAtomic   string `json:"amountAtomic"`
	RefundedAtomic string `json:"refundedAtomic"`
	dollars
	ReceiptURL *string `json:"receiptUrl" jsonschema:"The page of the payment, for the payer alone."`
}

// thanks is GET /v1/thanks, where a checkout returns to. With the id of its
// session, which only the payer has, it tells of the payment of that checkout and
// of no other, and to no script of another origin. Without, it tells of no payment.
func (s *Server) thanks(r *http.Request) *response {
	session, ok := parseSession(r.URL.RawQuery)
	re := s.responder
	if session != "" || !ok {
		re = s.personal
	}
	if !ok {
		return re.refuse(problemSession, "detail", offer.With{"template": sessionTemplate})
	}
	ctx, cancel := context.WithTimeout(r.Context(), ledgerTimeout)
	defer cancel()
	found, err := s.readThanks(ctx, re, session, r)
	return s.unless(re, err, r, found)
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

// readThanks answers by the newest reading of the ledger: for who asks again, the
// checkout is looked up only where any receipt has changed.
func (s *Server) readThanks(ctx context.Context, re responder, session string, r *http.Request) (*response, error) {
	newest, err := s.newest(ctx)
	if err != nil {
		return nil, err
	}
	f, people := s.frame(r, offer.PathThanks, "session_id"), prefersPage(r)
	variant, headers := "json", []header{varyAccept}
	if people {
		variant, headers = pageVariant(f), varyPage
	}
	tag := s.tag(newest, "thanks", session, variant, strconv.FormatBool(s.QRKey() != nil))
	if same := re.unchanged(r, tag, headers...); same != nil {
		return same, nil
	}
	a, paid := arrival{State: arrivalNone}, ledger.Receipt{}
	if session != "" {
		var found bool
		if paid, found, err = s.Receipts.SessionReceipt(ctx, s.Offer.ID, session); err != nil {
			return nil, err
		}
		a = s.sessionArrival(paid, found, newest.health)
	}
	private := []header{weakTag(tag), {"X-Robots-Tag", "noindex"}, {"Referrer-Policy", "no-referrer"}}
	if !people {
		return re.json(http.StatusOK, cacheNever, a, append(private, varyAccept)...), nil
	}
	return re.page(http.StatusOK, cacheNever, s.thanksPage(f, a, paid), private...), nil
}

// sessionArrival is what became of the payment of a checkout.
func (s *Server) sessionArrival(paid ledger.Receipt, found bool, health []observe.Health) arrival {
	if !found {
		watched := func(h observe.Health) bool { return h.Rail == offer.RailCard && !h.Blind }
		if !slices.ContainsFunc(health, watched) {
			return arrival{State: arrivalUnknown}
		}
		return arrival{State: arrivalWaiting}
	}
	shown := newReceipt(paid, true)
	a := arrival{
		State: shown.Status, OccurredAt: &shown.OccurredAt, Testnet: paid.Testnet,
		Payment: &arrived{Asset: shown.Asset, AmountAtomic: shown.AmountAtomic, RefundedAtomic: shown.RefundedAtomic, dollars: shown.dollars},
	}
	a.Payment.ReceiptURL = known(s.ReceiptURL(paid))
	return a
}

// thanksPage is the same for people.
func (s *Server) thanksPage(f page.Frame, a arrival, paid ledger.Receipt) page.Page {
	say := teller{f.Language, s.Offer}
	with := []any{"amount", "", "at", ""}
	content := struct {
		Title, How, Part, Receipt string
		Test, Thanks, Document    bool
		// Live says that the page waits for the payment of a checkout.
		Live bool
	}{Test: a.Testnet, Document: isReceipt(paid), Live: a.State != arrivalNone}
	if a.OccurredAt != nil {
		with[3] = say.moment(*a.OccurredAt)
	}
	if a.Payment != nil {
		with[1] = say.paid(a.Payment.Asset, a.Payment.AmountAtomic)
		if a.State == string(ledger.StatusConfirmed) && a.Payment.RefundedAtomic != "0" {
			content.Part = f.Language.Text("thanks.part", "amount", say.paid(a.Payment.Asset, a.Payment.RefundedAtomic))
		}
		if key := s.QRKey(); key != nil {
			content.Receipt = offer.PathReceipt + "/" + receiptID(key, paid)
		}
		content.Thanks = a.State == string(ledger.StatusConfirmed)
	}
	content.Title, content.How = f.Language.Text("thanks."+a.State+".title", with...), f.Language.Text("thanks."+a.State+".how", with...)
	return page.Thanks.Render(f, f.Language.Text("thanks.title")+": "+s.Offer.Name, content)
}
