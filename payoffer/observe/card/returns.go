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

// addendum is what a return says of the payment that it is of. The payment
// link is not named there: the ledger keeps it until the payment is known to
// be this offer's.
func (s scope) addendum(intent string, r ledger.Return, from way) ledger.Sighting {
	return ledger.Sighting{
		Offer: s.offer, Account: s.account, Rail: s.rail, ExternalID: intent, Addendum: true,
		Returns: []ledger.Return{r}, EvidenceLevel: from.level, Cause: from.cause,
	}
}

// errNoIntent: payments through a link have a payment intent.
var errNoIntent = ignored("it is of no payment through a checkout")

// refund reads a refund. The money is gone when the refund has succeeded.
func (s scope) refund(f *fields, from way) (ledger.Sighting, error) {
	id, intent, status := f.id("id", ""), f.optionalID("payment_intent", "pi_"), f.text("status")
	amount, created := f.amount("amount"), f.amount("created")
	rank, known := refundRanks[status]
	if f.err == nil && !known {
		f.fail("status", "is unknown")
	}
	if f.err != nil {
		return ledger.Sighting{}, malformed("the refund cannot be read: " + f.err.Error())
	}
	if intent == "" {
		return ledger.Sighting{}, errNoIntent
	}
	return s.addendum(intent, ledger.Return{
		ID: id, Kind: ledger.ReturnRefund, Amount: amount, Gone: status == "succeeded", At: created, Rank: rank,
	}, from), nil
}

// refundTotal reads how much of a charge had been refunded at a time.
func (s scope) refundTotal(f *fields, at int64, from way) (ledger.Sighting, error) {
	id, intent, amount := f.id("id", ""), f.optionalID("payment_intent", "pi_"), f.amount("amount_refunded")
	if f.err != nil {
		return ledger.Sighting{}, malformed("the charge cannot be read: " + f.err.Error())
	}
	if intent == "" {
		return ledger.Sighting{}, errNoIntent
	}
	return s.addendum(intent, ledger.Return{
		ID: id, Kind: ledger.ReturnTotal, Amount: amount, Gone: amount > 0, At: at,
	}, from), nil
}

// disputeEvent reads an event of a dispute. What counts is whether the money
// was taken: an inquiry (warning_…) takes none.
func (s scope) disputeEvent(f *fields, kind string, at int64, from way) (ledger.Sighting, error) {
	id, intent, status := f.id("id", ""), f.optionalID("payment_intent", "pi_"), f.text("status")
	if f.err != nil {
		return ledger.Sighting{}, malformed("the dispute cannot be read: " + f.err.Error())
	}
	if intent == "" {
		return ledger.Sighting{}, errNoIntent
	}
	switch {
	case kind == disputeWithdrawn, kind == disputeClosed && status == "lost":
		return s.addendum(intent, reversal(id, true, at), from), nil
	case kind == disputeReinstated, kind == disputeClosed && status == "won":
		return s.addendum(intent, reversal(id, false, at), from), nil
	default:
		return ledger.Sighting{}, ignored("the dispute has moved no money by this")
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
	switch {
	case f.err != nil:
		return ledger.Sighting{}, malformed("the dispute cannot be read: " + f.err.Error())
	case intent == "":
		return ledger.Sighting{}, errNoIntent
	case len(moved) > 0:
		return s.addendum(intent, reversal(id, net < 0 && status != "won", at), from), nil
	case status == "lost":
		return s.addendum(intent, reversal(id, true, at), from), nil
	default:
		return ledger.Sighting{}, ignored("the dispute has moved no money")
	}
}

func reversal(id string, gone bool, at int64) ledger.Return {
	r := ledger.Return{ID: id, Kind: ledger.ReturnReversal, Gone: gone, At: at, Rank: rankReinstated}
	if gone {
		r.Rank = rankWithdrawn
	}
	return r
}
