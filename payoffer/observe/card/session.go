package card

import (
	"strings"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
)

// evidence is what is kept of a payment, to find it at the processor again.
type evidence struct {
	Session string `json:"session"`
	Event   string `json:"event,omitempty"`
}

// session reads a checkout session: what was paid through the payment link.
// Whether money came is told by payment_status alone, never by the payment
// method. failed says that it will not come any more. event is the id of the
// event that brought it, or empty.
func (s scope) session(f *fields, failed bool, event string, from way) (ledger.Sighting, error) {
	mode, link := f.optional("mode"), f.optional("payment_link")
	if f.err == nil && (mode != "payment" || link != s.link) {
		return ledger.Sighting{}, ignored("the checkout is not of the configured payment link")
	}
	id, intent := f.id("id", "cs_"), f.optionalID("payment_intent", "pi_")
	status, paid := f.text("status"), f.text("payment_status")
	amount, currency, created := f.amount("amount_total"), f.currency("currency"), f.amount("created")
	switch {
	case f.err != nil:
		return ledger.Sighting{}, malformed("the checkout session cannot be read: " + f.err.Error())
	case created < s.origin:
		return ledger.Sighting{}, ignored("the checkout was opened before this offer was first observed")
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
		Asset: strings.ToUpper(currency), Amount: amount, State: sessionState(paid, failed),
		EvidenceLevel: from.level, Evidence: observe.Evidence(evidence{id, event}), Testnet: s.test,
		OccurredAt: created, Cause: from.cause,
	}
	if currency == "usd" {
		sighting.USDCents = &amount
	}
	return sighting, nil
}

func sessionState(paid string, failed bool) ledger.Status {
	switch {
	case failed:
		return ledger.StatusDropped
	case paid == "paid":
		return ledger.StatusConfirmed
	default:
		return ledger.StatusSeen
	}
}
