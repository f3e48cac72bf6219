package card

import (
	"slices"
	"strings"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
)

// The types of events that tell of money.
const (
	sessionCompleted = "checkout.session.completed"
	sessionSucceeded = "checkout.session.async_payment_succeeded"
	sessionFailed    = "checkout.session.async_payment_failed"

	refundCreated       = "refund.created"
	refundUpdated       = "refund.updated"
	refundFailed        = "refund.failed"
	chargeRefundUpdated = "charge.refund.updated" // an older name of refund.updated
	chargeRefunded      = "charge.refunded"
	chargeCaptured      = "charge.captured" // of a payment that was only authorised

	disputeCreated    = "charge.dispute.created"
	disputeUpdated    = "charge.dispute.updated"
	disputeClosed     = "charge.dispute.closed"
	disputeWithdrawn  = "charge.dispute.funds_withdrawn"
	disputeReinstated = "charge.dispute.funds_reinstated"
)

// Events are what a webhook endpoint of the processor has to send: with them every
// payment, refund and dispute is known. The other types tell the same again, but for
// charge.captured, which a link with manual capture needs too.
var Events = []string{
	sessionCompleted, sessionSucceeded, sessionFailed,
	refundCreated, refundUpdated, refundFailed,
	disputeWithdrawn, disputeReinstated, disputeClosed,
}

// eventTypes are the types that are asked for.
var eventTypes = []string{
	sessionCompleted, sessionSucceeded, sessionFailed,
	refundCreated, refundUpdated, refundFailed, chargeRefundUpdated, chargeRefunded, chargeCaptured,
	disputeCreated, disputeUpdated, disputeClosed, disputeWithdrawn, disputeReinstated,
}

// scope says which money is this offer's: that of one payment link, in one
// mode, which came at origin (Unix seconds) or later. What came before first was
// not there to be seen.
type scope struct {
	offer, account, rail string
	link                 string
	test                 bool
	origin, first        int64
	// now is when this is said, by which no time is in the future.
	now time.Time
}

// asOf is the scope of what is said at a time, in Unix seconds.
func (s scope) asOf(now int64) scope {
	s.now = time.Unix(now, 0)
	return s
}

// cause is the cause of what happened at a time.
func (s scope) cause(from way, at int64) string {
	if at < s.first {
		return ledger.CauseBackfilled
	}
	return from.cause
}

// way is how something was learnt.
type way struct {
	level ledger.EvidenceLevel
	cause string
}

var (
	delivered = way{ledger.LevelSigned, "webhook"}
	readBack  = way{ledger.LevelProvider, "reconcile"}
)

// unusable is why something brings no sighting.
type unusable struct {
	verdict observe.Verdict
	detail  string
}

func (u *unusable) Error() string { return u.detail }

// ignored is genuine and tells of no money of this offer.
func ignored(detail string) error { return &unusable{observe.Ignored, detail} }

// malformed cannot be read, and may be about money.
func malformed(detail string) error { return &unusable{observe.Malformed, detail} }

// event reads a snapshot event of the processor's API v1. Its api_version does
// not matter: the few members that are read are the same in all of them. An
// event without a sighting is an *unusable.
func (s scope) event(body []byte, from way) (ledger.Sighting, error) {
	e := parseFields(body)
	if e.err == nil && e.optional("object") != "event" {
		return ledger.Sighting{}, malformed("this is no snapshot event; let the webhook endpoint send snapshot events, not thin ones")
	}
	kind, id, live, at := e.text("type"), e.id("id", "evt_"), e.flag("livemode"), e.time("created", s.now)
	if e.err != nil {
		return ledger.Sighting{}, malformed("the event cannot be read: " + e.err.Error())
	}
	if !slices.Contains(eventTypes, kind) {
		return ledger.Sighting{}, ignored("events of this type tell of no payment; the endpoint need not send them")
	}
	if live == s.test {
		return ledger.Sighting{}, ignored("the event is of the other mode, live or test")
	}
	object := e.object("data").object("object")
	if object.err != nil {
		return ledger.Sighting{}, malformed("the event has no object")
	}
	switch kind {
	case sessionCompleted, sessionSucceeded, sessionFailed:
		return s.session(object, kind == sessionFailed, at, id, from)
	case refundCreated, refundUpdated, refundFailed, chargeRefundUpdated:
		return s.refund(object, from)
	case chargeRefunded:
		return s.refundTotal(object, at, from)
	case chargeCaptured:
		return s.capture(object, at, from)
	default:
		return s.disputeEvent(object, kind, at, from)
	}
}

// evidence is what is kept of a payment, to find it at the processor again.
type evidence struct {
	Session string `json:"session"`
	Event   string `json:"event,omitempty"`
}

// session reads a checkout session: what was paid through the payment link.
// Whether money came is told by payment_status alone, never by the payment
// method. failed says that it will not come any more. It is so since at, by which
// the payment is dated and not by when the checkout was opened: a bank debit takes
// days. event is the id of the event that brought it, or empty.
func (s scope) session(f *fields, failed bool, at int64, event string, from way) (ledger.Sighting, error) {
	mode, link := f.optional("mode"), f.optional("payment_link")
	if f.err == nil && (mode != "payment" || link != s.link) {
		return ledger.Sighting{}, ignored("the checkout is not of the configured payment link")
	}
	id, intent := f.id("id", "cs_"), f.optionalID("payment_intent", "pi_")
	status, paid := f.text("status"), f.text("payment_status")
	amount, currency := f.amount("amount_total"), f.currency("currency")
	switch {
	case f.err != nil:
		return ledger.Sighting{}, malformed("the checkout session cannot be read: " + f.err.Error())
	case at < s.origin:
		return ledger.Sighting{}, ignored("it happened before this offer was first observed")
	case amount == 0 || paid == "no_payment_required":
		return ledger.Sighting{}, ignored("the checkout was free of charge")
	case paid != "paid" && paid != "unpaid":
		return ledger.Sighting{}, malformed("the checkout session has an unknown payment_status")
	case intent == "" && paid == "paid":
		return ledger.Sighting{}, malformed("the checkout session is paid and names no payment_intent")
	case intent == "" || !failed && status != "complete":
		return ledger.Sighting{}, ignored("no payment was made in the checkout")
	}
	sighting := ledger.Sighting{
		Offer: s.offer, Account: s.account, Rail: s.rail, ExternalID: intent, Via: "link",
		Asset: strings.ToUpper(currency), Amount: amount, State: ledger.StatusSeen,
		EvidenceLevel: from.level, Evidence: observe.Evidence(evidence{id, event}), Testnet: s.test,
		OccurredAt: at, Cause: s.cause(from, at),
	}
	if failed {
		sighting.State = ledger.StatusDropped
	} else if paid == "paid" {
		sighting.State = ledger.StatusConfirmed
	}
	if currency == "usd" {
		sighting.USDCents, sighting.ValueBasis = &amount, ledger.BasisFace
	}
	return sighting, nil
}
