package card

import (
	"cmp"
	"strings"

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
		Returns: returns, EvidenceLevel: from.level, Cause: s.cause(from, returns[0].At),
	}, nil
}

// refund reads a refund. The money is gone when the refund has succeeded.
func (s scope) refund(f *fields, from way) (ledger.Sighting, error) {
	id, intent, status := f.id("id", ""), f.optionalID("payment_intent", "pi_"), f.text("status")
	amount, currency, created := f.amount("amount"), f.optionalCurrency(), f.time("created", s.now)
	rank, known := refundRanks[status]
	if f.err == nil && !known {
		f.fail("status", "is unknown")
	}
	return s.addendum(f, "refund", intent, from, ledger.Return{
		ID: id, Kind: ledger.ReturnRefund, Amount: amount, Currency: currency, Gone: status == "succeeded", At: created, Rank: rank,
	})
}

// refundTotal reads how much of a charge had been refunded at a time. What was
// authorised and let go is called so too, and never came.
func (s scope) refundTotal(f *fields, at int64, from way) (ledger.Sighting, error) {
	id, intent, amount := f.id("id", ""), f.optionalID("payment_intent", "pi_"), f.amount("amount_refunded")
	currency := f.optionalCurrency()
	if string(f.members["captured"]) == "false" {
		return s.addendum(f, "charge", intent, from)
	}
	return s.addendum(f, "charge", intent, from, ledger.Return{
		ID: id, Kind: ledger.ReturnTotal, Amount: amount, Currency: currency, Gone: amount > 0, At: at,
	})
}

// capture reads a charge whose money was taken after it had only been authorised.
func (s scope) capture(f *fields, at int64, from way) (ledger.Sighting, error) {
	intent := f.optionalID("payment_intent", "pi_")
	returns := append(uncaptured(f, at), ledger.Return{ID: "capture", Kind: ledger.ReturnCapture, At: at})
	return s.addendum(f, "charge", intent, from, returns...)
}

// uncaptured is what was authorised and not taken, which the processor books as
// refunded at once.
func uncaptured(f *fields, at int64) []ledger.Return {
	id, left := f.id("id", ""), f.amount("amount")-f.amount("amount_captured")
	if left <= 0 {
		return nil
	}
	return []ledger.Return{{
		ID: id, Kind: ledger.ReturnTotal, Amount: max(left, f.amount("amount_refunded")), Currency: f.optionalCurrency(), Gone: true, At: at,
	}}
}

// dispute is what is said of a dispute: whether the money was taken, for an
// inquiry (warning_…) takes none, and how much.
type dispute struct {
	id, intent, status, currency string
	// disputed is how much of the payment is, and net what was given back less
	// what was taken, both in the currency.
	disputed, net int64
	// taken and given say whether money was moved; at is when it was last.
	taken, given bool
	at           int64
}

// readDispute reads a dispute with its balance transactions: what was taken and
// what was given back, in the currency of the account. Fees stand apart in them.
func (s scope) readDispute(f *fields) dispute {
	d := dispute{
		id: f.id("id", ""), intent: f.optionalID("payment_intent", "pi_"), status: f.text("status"),
		currency: f.optional("currency"), at: f.time("created", s.now),
	}
	if d.currency != "" {
		d.currency, d.disputed = f.currency("currency"), f.amount("amount")
	}
	converted := false
	for _, raw := range f.list("balance_transactions") {
		moved := parseFields(raw)
		amount := moved.number("amount")
		d.net, d.at = d.net+amount, max(d.at, moved.time("created", s.now))
		d.taken, d.given = d.taken || amount < 0, d.given || amount > 0
		converted = converted || moved.optional("currency") != d.currency
		if moved.err != nil {
			f.fail("balance_transactions", "cannot be read")
		}
	}
	switch {
	case converted && d.given: // what the exchange cost is no part of the dispute
		d.net = 0
	case converted:
		d.net = -d.disputed
	}
	return d
}

// word is what the dispute comes to at a time. What was won is the operator's
// again, but for what was not given back.
func (d dispute) word(over bool, at int64) ledger.Return {
	r := ledger.Return{ID: d.id, Kind: ledger.ReturnReversal, At: at, Rank: rankWithdrawn}
	if over || d.given {
		r.Rank = rankReinstated
	}
	if d.given {
		r.Gone = d.net < 0
	} else {
		r.Gone = !over
	}
	if r.Gone && d.currency != "" {
		r.Amount, r.Currency = cmp.Or(max(-d.net, 0), d.disputed), strings.ToUpper(d.currency)
	}
	return r
}

// disputeEvent reads an event of a dispute. What counts is whether the money
// was taken.
func (s scope) disputeEvent(f *fields, kind string, at int64, from way) (ledger.Sighting, error) {
	if _, told := f.members["balance_transactions"]; !told {
		f.members["balance_transactions"] = []byte("[]")
	}
	d := s.readDispute(f)
	switch {
	case kind == disputeWithdrawn, kind == disputeClosed && d.status == "lost":
		return s.reversed(f, d, false, at, from)
	case kind == disputeReinstated, kind == disputeClosed && d.status == "won":
		return s.reversed(f, d, true, at, from)
	default:
		return s.addendum(f, "dispute", d.intent, from)
	}
}

// dispute reads a dispute as it stands now.
func (s scope) dispute(f *fields, from way) (ledger.Sighting, error) {
	d := s.readDispute(f)
	if !d.taken && !d.given && d.status != "lost" {
		return s.addendum(f, "dispute", d.intent, from)
	}
	return s.reversed(f, d, d.status == "won", d.at, from)
}

// reversed is what a dispute took.
func (s scope) reversed(f *fields, d dispute, over bool, at int64, from way) (ledger.Sighting, error) {
	return s.addendum(f, "dispute", d.intent, from, d.word(over, at))
}
