package card

import (
	"slices"

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

	disputeCreated    = "charge.dispute.created"
	disputeUpdated    = "charge.dispute.updated"
	disputeClosed     = "charge.dispute.closed"
	disputeWithdrawn  = "charge.dispute.funds_withdrawn"
	disputeReinstated = "charge.dispute.funds_reinstated"
)

// eventTypes are the types that are asked for.
var eventTypes = []string{
	sessionCompleted, sessionSucceeded, sessionFailed,
	refundCreated, refundUpdated, refundFailed, chargeRefundUpdated, chargeRefunded,
	disputeCreated, disputeUpdated, disputeClosed, disputeWithdrawn, disputeReinstated,
}

// scope says which money is this offer's: that of one payment link, in one
// mode, whose checkout was opened at origin (Unix seconds) or later.
type scope struct {
	offer, account, rail string
	link                 string
	test                 bool
	origin               int64
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
	kind, id, live, at := e.text("type"), e.id("id", "evt_"), e.flag("livemode"), e.amount("created")
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
	case sessionCompleted, sessionSucceeded:
		return s.session(object, false, id, from)
	case sessionFailed:
		return s.session(object, true, id, from)
	case refundCreated, refundUpdated, refundFailed, chargeRefundUpdated:
		return s.refund(object, from)
	case chargeRefunded:
		return s.refundTotal(object, at, from)
	default:
		return s.disputeEvent(object, kind, at, from)
	}
}
