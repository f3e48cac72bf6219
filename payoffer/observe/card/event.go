package card

import (
	"slices"
	"strings"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// The types of events that report money.
const (
	sessionCompleted = "checkout.session.completed"
	sessionSucceeded = "checkout.session.async_payment_succeeded"
	sessionFailed    = "checkout.session.async_payment_failed"

	refundCreated       = "refund.created"
	refundUpdated       = "refund.updated"
	refundFailed        = "refund.failed"
	chargeRefundUpdated = "charge.refund.updated" // an older name of refund.updated
	chargeRefunded      = "charge.refunded"
	chargeCaptured      = "charge.captured" // of a payment that was only authorized before

	disputeClosed     = "charge.dispute.closed"
	disputeWithdrawn  = "charge.dispute.funds_withdrawn"
	disputeReinstated = "charge.dispute.funds_reinstated"
)

// Events are the types that a webhook endpoint must send, so that every payment, refund and dispute is reported. A link
// with manual capture also needs charge.captured.
var Events = []string{
	sessionCompleted, sessionSucceeded, sessionFailed,
	refundCreated, refundUpdated, refundFailed,
	disputeWithdrawn, disputeReinstated, disputeClosed,
}

// eventTypes are the types that are read, also from the API.
var eventTypes = append(slices.Clone(Events), chargeRefundUpdated, chargeRefunded, chargeCaptured)

// scope says which money is the offer's: that of one payment link, in one mode, from origin on. Older money than first,
// the first start, was backfilled. Both are Unix seconds.
type scope struct {
	offer, account, rail, link string
	test                       bool
	origin, first              int64
	// prices says how the link's prices are set, by currencies in upper case; nil while not known.
	prices map[string]ledger.CheckoutPrice
	// now is when the data was read; no time in it can be later.
	now time.Time
}

// at returns the scope for data that was read at a time, in Unix seconds.
func (s scope) at(now int64) scope {
	s.now = time.Unix(now, 0)
	return s
}

// How a report arrived.
const (
	fromWebhook = ledger.LevelSigned
	fromAPI     = ledger.LevelProvider
)

func (s scope) cause(from ledger.EvidenceLevel, at int64) string {
	if at < s.first {
		return ledger.CauseBackfilled
	}
	return map[ledger.EvidenceLevel]string{fromWebhook: "webhook", fromAPI: "reconcile"}[from]
}

// unusableError says why a report brings no observation: it is genuine and does not concern this offer's money, or it
// cannot be read.
type unusableError struct {
	verdict observe.Verdict
	detail  string
	// otherLink is a payment link of another product that was paid on a day, counted from 1970; empty for none.
	otherLink string
	day       int64
}

func (u *unusableError) Error() string { return u.detail }

func ignored(detail string) error   { return &unusableError{observe.Ignored, detail, "", 0} }
func malformed(detail string) error { return &unusableError{observe.Malformed, detail, "", 0} }

// event reads a snapshot event of Stripe's API v1. The error is an *unusableError.
func (s scope) event(body []byte, from ledger.EvidenceLevel) (ledger.Observation, error) {
	e, err := s.read(body)
	switch {
	case e.Object != "event":
		return ledger.Observation{}, malformed("this is not a snapshot event; select snapshot events, not thin ones, for the webhook endpoint")
	case err != nil:
		return ledger.Observation{}, err
	case s.requireTime(e) != nil:
		return ledger.Observation{}, s.requireTime(e)
	case !slices.Contains(eventTypes, e.Type):
		return ledger.Observation{}, ignored("events of this type do not report a payment; the endpoint need not send them")
	case e.Livemode == s.test:
		return ledger.Observation{}, ignored("the event is of the other mode (live or test)")
	}
	o, err := s.read(e.Data.Object)
	if err != nil {
		return ledger.Observation{}, err
	}
	switch e.Type {
	case sessionCompleted, sessionSucceeded, sessionFailed:
		return s.session(o, e.Type == sessionFailed, e.Created, e.ID, from)
	case refundCreated, refundUpdated, refundFailed, chargeRefundUpdated:
		return s.refund(o, from)
	case chargeRefunded:
		return s.refundTotal(o, e.Created, from)
	case chargeCaptured:
		return s.capture(o, e.Created, from)
	default:
		return s.disputeEvent(o, e.Type, e.Created, from)
	}
}

// session reads a checkout session. payment_status alone says whether the money came, and failed that it will not. The
// payment is dated by at and not by when the checkout was opened, because a bank debit takes days. event is the event's
// id, or empty.
func (s scope) session(o *object, failed bool, at int64, event string, from ledger.EvidenceLevel) (ledger.Observation, error) {
	if o.Mode != "payment" || o.PaymentLink != s.link {
		u := unusableError{observe.Ignored, "the checkout is not of the configured payment link", "", at / (24 * 3600)}
		isLink := strings.HasPrefix(o.PaymentLink, "plink_") && idForm.MatchString(o.PaymentLink)
		if isLink && o.PaymentLink != s.link && o.PaymentStatus == "paid" && at >= s.origin {
			u.otherLink = o.PaymentLink
		}
		return ledger.Observation{}, &u
	}
	amount, currency, paid := o.AmountTotal.value(), o.Currency, o.PaymentStatus
	checkout := ledger.Checkout{Session: o.ID, Event: event}
	if currency == "USD" {
		checkout.Subtotal = o.Subtotal.value()
	} else {
		checkout.Price = s.prices[currency]
	}
	switch {
	case o.AmountTotal == nil || currency == "":
		return ledger.Observation{}, malformed("the checkout session has no amount_total or currency")
	case at < s.origin:
		return ledger.Observation{}, ignored("it happened before this offer was first observed")
	case amount == 0 || paid == "no_payment_required":
		return ledger.Observation{}, ignored("the checkout was free of charge")
	case paid != "paid" && paid != "unpaid":
		return ledger.Observation{}, malformed("the checkout session has an unknown payment_status")
	case o.Intent == "" && paid == "paid":
		return ledger.Observation{}, malformed("the checkout session is paid and names no payment_intent")
	case o.Intent == "" || !failed && o.Status != "complete":
		return ledger.Observation{}, ignored("no payment was made in the checkout")
	}
	observation := ledger.Observation{
		Offer: s.offer, Account: s.account, Rail: s.rail, ExternalID: o.Intent, Via: "link",
		Asset: currency, Amount: amount, State: ledger.StatusSeen,
		EvidenceLevel: from, Evidence: offer.JSON(checkout), Testnet: s.test,
		OccurredAt: at, Cause: s.cause(from, at),
	}
	if failed {
		observation.State = ledger.StatusDropped
	} else if paid == "paid" {
		observation.State = ledger.StatusConfirmed
	}
	if currency == "USD" {
		observation.USDCents, observation.ValueBasis = &amount, ledger.BasisFace
	}
	return observation, nil
}
