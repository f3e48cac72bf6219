package card

import (
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
)

// Ranks of what is said of a refund. Its status only ever moves upwards here,
// so that all words on it stand at the time of its creation and the highest
// holds, however late they arrive.
var refundRanks = map[string]int{
	"pending": 0, "requires_action": 0,
	"succeeded": 1,
	"failed":    2, "canceled": 2,
}

// Ranks of what is said of a dispute within one second.
const (
	rankWithdrawn  = 1
	rankReinstated = 2
)

// addendum is what a return, read from f, says of the payment that it is of; what
// names the kind of f. The payment link is not named there: the ledger keeps it
// until the payment is known to be this offer's.
func (s scope) addendum(f *fields, what, intent string, from way, returns ...ledger.Return) (ledger.Sighting, error) {
	switch {
	case f.err != nil:
		return ledger.Sighting{}, malformed("the " + what + " cannot be read: " + f.err.Error())
	case intent == "": // payments through a link have a payment intent
		return ledger.Sighting{}, ignored("it is of no payment through a checkout")
	case len(returns) == 0:
		return ledger.Sighting{}, ignored("the " + what + " has moved no money by this")
	}
	return ledger.Sighting{
		Offer: s.offer, Account: s.account, Rail: s.rail, ExternalID: intent, Addendum: true,
		Returns: returns, EvidenceLevel: from.level, Cause: from.cause,
	}, nil
}

// refund reads a refund. The money is gone when the refund has succeeded.
func (s scope) refund(f *fields, from way) (ledger.Sighting, error) {
	id, intent, status := f.id("id", ""), f.optionalID("payment_intent", "pi_"), f.text("status")
	amount, created := f.amount("amount"), f.amount("created")
	rank, known := refundRanks[status]
	if f.err == nil && !known {
		f.fail("status", "is unknown")
	}
	return s.addendum(f, "refund", intent, from, ledger.Return{
		ID: id, Kind: ledger.ReturnRefund, Amount: amount, Gone: status == "succeeded", At: created, Rank: rank,
	})
}

// refundTotal reads how much of a charge had been refunded at a time.
func (s scope) refundTotal(f *fields, at int64, from way) (ledger.Sighting, error) {
	id, intent, amount := f.id("id", ""), f.optionalID("payment_intent", "pi_"), f.amount("amount_refunded")
	return s.addendum(f, "charge", intent, from, ledger.Return{
		ID: id, Kind: ledger.ReturnTotal, Amount: amount, Gone: amount > 0, At: at,
	})
}

// disputeEvent reads an event of a dispute. What counts is whether the money
// was taken: an inquiry (warning_…) takes none.
func (s scope) disputeEvent(f *fields, kind string, at int64, from way) (ledger.Sighting, error) {
	id, intent, status := f.id("id", ""), f.optionalID("payment_intent", "pi_"), f.text("status")
	switch {
	case kind == disputeWithdrawn, kind == disputeClosed && status == "lost":
		return s.addendum(f, "dispute", intent, from, reversal(id, true, at))
	case kind == disputeReinstated, kind == disputeClosed && status == "won":
		return s.addendum(f, "dispute", intent, from, reversal(id, false, at))
	default:
		return s.addendum(f, "dispute", intent, from)
	}
}

// dispute reads a dispute as it stands now: its balance transactions are what
// was taken and what was given back, at most one of each.
func (s scope) dispute(f *fields, from way) (ledger.Sighting, error) {
	id, intent, status := f.id("id", ""), f.optionalID("payment_intent", "pi_"), f.text("status")
	at, moved, net := f.amount("created"), f.list("balance_transactions"), int64(0)
	for _, raw := range moved {
		transaction := parseFields(raw)
		net += transaction.number("amount")
		at = max(at, transaction.amount("created"))
		if transaction.err != nil {
			f.fail("balance_transactions", "cannot be read")
		}
	}
	if len(moved) == 0 && status != "lost" {
		return s.addendum(f, "dispute", intent, from)
	}
	return s.addendum(f, "dispute", intent, from, reversal(id, len(moved) == 0 || net < 0 && status != "won", at))
}

func reversal(id string, gone bool, at int64) ledger.Return {
	r := ledger.Return{ID: id, Kind: ledger.ReturnReversal, Gone: gone, At: at, Rank: rankReinstated}
	if gone {
		r.Rank = rankWithdrawn
	}
	return r
}
