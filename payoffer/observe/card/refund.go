package card

import (
	"cmp"
	"context"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// refundRanks order the states of a refund. A refund only moves to higher ranks, so that all reports of it are dated by
// its creation and the highest rank wins, however late they arrive. Only a pending refund has the rank 0 (Return.Refunds).
var refundRanks = map[string]int{
	"pending": 0, "requires_action": 0,
	"succeeded": 1,
	"failed":    2, "canceled": 2,
}

// Ranks of the reports of a dispute within one second.
const (
	rankWithdrawn  = 1
	rankReinstated = 2
)

// addendum returns the refund or dispute records of a payment, read from f; kind names f's kind. f does not name the
// payment link: the ledger keeps the records until the payment is known to be this offer's.
func (s scope) addendum(f *fields, kind, intent string, from ledger.EvidenceLevel, records ...ledger.Return) (ledger.Observation, error) {
	switch {
	case f.err != nil:
		return ledger.Observation{}, malformed("the " + kind + " cannot be read: " + f.err.Error())
	case intent == "": // payments through a link have a payment intent
		return ledger.Observation{}, ignored("its payment was not made through a checkout")
	case len(records) == 0:
		return ledger.Observation{}, ignored("the " + kind + " has moved no money")
	}
	return ledger.Observation{
		Offer: s.offer, Account: s.account, Rail: s.rail, ExternalID: intent, Addendum: true,
		Returns: records, EvidenceLevel: from, Cause: s.cause(from, records[0].At),
	}, nil
}

// refund reads a refund. The money is gone when the refund has succeeded.
func (s scope) refund(f *fields, from ledger.EvidenceLevel) (ledger.Observation, error) {
	id, intent, status := f.id("id", ""), f.optionalID("payment_intent", "pi_"), f.text("status")
	amount, currency, created := f.amount("amount"), f.currency(), f.time("created", s.now)
	rank, known := refundRanks[status]
	if f.err == nil && !known {
		f.fail("status", "is unknown")
	}
	return s.addendum(f, "refund", intent, from, ledger.Return{
		ID: id, Kind: ledger.ReturnRefund, Amount: amount, Currency: currency, Gone: status == "succeeded", At: created, Rank: rank,
	})
}

// refundTotal reads how much of a charge was refunded at a time. The release of an authorization is reported as a
// refund too, but that money never came.
func (s scope) refundTotal(f *fields, at int64, from ledger.EvidenceLevel) (ledger.Observation, error) {
	id, intent, amount := f.id("id", ""), f.optionalID("payment_intent", "pi_"), f.amount("amount_refunded")
	currency := f.currency()
	if string(f.members["captured"]) == "false" {
		return s.addendum(f, "charge", intent, from)
	}
	return s.addendum(f, "charge", intent, from, ledger.Return{
		ID: id, Kind: ledger.ReturnTotal, Amount: amount, Currency: currency, Gone: amount > 0, At: at,
	})
}

// capture reads a charge that was captured after it had only been authorized.
func (s scope) capture(f *fields, at int64, from ledger.EvidenceLevel) (ledger.Observation, error) {
	intent := f.optionalID("payment_intent", "pi_")
	records := append(uncaptured(f, at), ledger.Return{ID: "capture", Kind: ledger.ReturnCapture, At: at})
	return s.addendum(f, "charge", intent, from, records...)
}

// uncaptured returns the part that was authorized and not captured, which Stripe books as refunded.
func uncaptured(f *fields, at int64) []ledger.Return {
	id, left := f.id("id", ""), f.amount("amount")-f.amount("amount_captured")
	if left <= 0 {
		return nil
	}
	return []ledger.Return{{
		ID: id, Kind: ledger.ReturnTotal, Amount: max(left, f.amount("amount_refunded")), Currency: f.currency(), Gone: true, At: at,
	}}
}

// dispute is what a dispute reports.
type dispute struct {
	id, intent, status, currency string
	// disputed is the disputed amount. net is what was reinstated less what was withdrawn. Both are in the currency.
	disputed, net         int64
	withdrawn, reinstated bool
	at                    int64 // the last movement, or the creation
}

// readDispute reads a dispute with its balance transactions: what was withdrawn and reinstated, in the currency of the
// Stripe account. They state fees apart.
func (s scope) readDispute(f *fields) dispute {
	d := dispute{
		id: f.id("id", ""), intent: f.optionalID("payment_intent", "pi_"), status: f.text("status"),
		currency: f.currency(), at: f.time("created", s.now),
	}
	if d.currency != "" {
		d.disputed = f.amount("amount")
	}
	converted := false
	for _, raw := range f.list("balance_transactions") {
		moved := parseFields(raw)
		amount := moved.number("amount")
		d.net, d.at = d.net+amount, max(d.at, moved.time("created", s.now))
		d.withdrawn, d.reinstated = d.withdrawn || amount < 0, d.reinstated || amount > 0
		converted = converted || moved.currency() != d.currency
		if moved.err != nil {
			f.fail("balance_transactions", "cannot be read")
		}
	}
	switch {
	case converted && d.reinstated: // the exchange loss is not part of the dispute
		d.net = 0
	case converted:
		d.net = -d.disputed
	}
	return d
}

// record returns the dispute's record at a time. After won, only what was not reinstated is gone.
func (d dispute) record(won bool, at int64) ledger.Return {
	r := ledger.Return{ID: d.id, Kind: ledger.ReturnReversal, At: at, Rank: rankWithdrawn, Gone: !won}
	if won || d.reinstated {
		r.Rank = rankReinstated
	}
	if d.reinstated {
		r.Gone = d.net < 0
	}
	if r.Gone && d.currency != "" {
		r.Amount, r.Currency = cmp.Or(max(-d.net, 0), d.disputed), d.currency
	}
	return r
}

// disputeEvent reads an event of a dispute. Only withdrawn money counts.
func (s scope) disputeEvent(f *fields, kind string, at int64, from ledger.EvidenceLevel) (ledger.Observation, error) {
	if _, present := f.members["balance_transactions"]; !present {
		f.members["balance_transactions"] = []byte("[]")
	}
	d := s.readDispute(f)
	won := kind == disputeReinstated || kind == disputeClosed && d.status == "won"
	if !won && kind != disputeWithdrawn && d.status != "lost" {
		return s.addendum(f, "dispute", d.intent, from)
	}
	return s.addendum(f, "dispute", d.intent, from, d.record(won, at))
}

// dispute reads the current state of a dispute.
func (s scope) dispute(f *fields, from ledger.EvidenceLevel) (ledger.Observation, error) {
	d := s.readDispute(f)
	if !d.withdrawn && !d.reinstated && d.status != "lost" {
		return s.addendum(f, "dispute", d.intent, from)
	}
	return s.addendum(f, "dispute", d.intent, from, d.record(d.status == "won", d.at))
}

// warnForeign logs once each refund and dispute of the recorded observations that is in another currency than its
// payment. The ledger does not count such a refund, and counts such a dispute as all of the payment. Both can be
// recorded before their payment.
func (o *Observer) warnForeign(ctx context.Context, recorded ...ledger.Observation) {
	for _, s := range recorded {
		paid, found, err := o.config.Ledger.Receipt(ctx, s.Offer, s.Account, s.ExternalID)
		if err != nil || !found {
			continue
		}
		returns, _ := o.config.Ledger.Returns(ctx, s.Offer, s.Account, s.ExternalID) // the list of receipts has them, too
		for _, r := range returns {
			if !r.Gone || r.Currency == "" || r.Currency == paid.Asset {
				continue
			}
			message, hint := "refund in another currency is not counted", "the report counts the whole payment; compare it with Stripe's dashboard"
			if r.Kind == ledger.ReturnReversal {
				message = "dispute in another currency, its part is unknown"
				hint = "the whole payment counts as disputed; compare it with Stripe's dashboard"
			}
			if _, logged := o.warned.LoadOrStore(r.ID, true); !logged {
				o.config.Logger.Warn(message, "reference", paid.ExternalID, "paid", offer.UnitOf(paid.Asset).Format(paid.Amount),
					"id", r.ID, "amount", offer.UnitOf(r.Currency).Format(r.Amount), "hint", hint)
			}
		}
	}
}
