package card

import (
	"cmp"
	"context"
	"strings"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
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

// addendum returns the refund or dispute records of a payment, read from o. o does not name the payment link: the ledger
// keeps the records until the payment is known to be this offer's.
func (s scope) addendum(o *object, from ledger.EvidenceLevel, records ...ledger.Return) (ledger.Observation, error) {
	switch {
	case o.Intent == "": // payments through a link have a payment intent
		return ledger.Observation{}, ignored("its payment was not made through a checkout")
	case len(records) == 0:
		return ledger.Observation{}, ignored("the refund, charge or dispute has moved no money")
	}
	return ledger.Observation{
		Offer: s.offer, Account: s.account, Rail: s.rail, ExternalID: o.Intent, Addendum: true,
		Returns: records, EvidenceLevel: from, Cause: s.cause(from, records[0].At),
	}, nil
}

// refund reads a refund. The money is gone when the refund has succeeded.
func (s scope) refund(o *object, from ledger.EvidenceLevel) (ledger.Observation, error) {
	rank, known := refundRanks[o.Status]
	if o.Amount == nil || !known {
		return ledger.Observation{}, malformed("the refund has no amount or no known status")
	} else if err := s.requireTime(o); err != nil {
		return ledger.Observation{}, err
	}
	return s.addendum(o, from, ledger.Return{
		ID: o.ID, Kind: ledger.ReturnRefund, Amount: o.Amount.value(), Currency: o.Currency,
		Gone: o.Status == "succeeded", At: o.Created, Rank: rank,
	})
}

// refundTotal reads how much of a charge was refunded at a time. The release of an authorization is reported as a
// refund too, but that money never came.
func (s scope) refundTotal(o *object, at int64, from ledger.EvidenceLevel) (ledger.Observation, error) {
	amount := o.AmountRefunded.value()
	switch {
	case o.AmountRefunded == nil:
		return ledger.Observation{}, malformed("the charge has no amount_refunded")
	case o.Captured != nil && !*o.Captured:
		return s.addendum(o, from)
	}
	return s.addendum(o, from, ledger.Return{
		ID: o.ID, Kind: ledger.ReturnTotal, Amount: amount, Currency: o.Currency, Gone: amount > 0, At: at,
	})
}

// capture reads a charge that was captured after it had only been authorized.
func (s scope) capture(o *object, at int64, from ledger.EvidenceLevel) (ledger.Observation, error) {
	if o.Amount == nil || o.AmountCaptured == nil {
		return ledger.Observation{}, malformed("the charge has no amount or amount_captured")
	}
	return s.addendum(o, from, append(o.uncaptured(at), ledger.Return{ID: "capture", Kind: ledger.ReturnCapture, At: at})...)
}

// uncaptured returns the part that was authorized and not captured, which Stripe books as refunded.
func (o *object) uncaptured(at int64) []ledger.Return {
	left := o.Amount.value() - o.AmountCaptured.value()
	if left <= 0 {
		return nil
	}
	return []ledger.Return{{
		ID: o.ID, Kind: ledger.ReturnTotal, Amount: max(left, o.AmountRefunded.value()), Currency: o.Currency, Gone: true, At: at,
	}}
}

// dispute is what a dispute reports.
type dispute struct {
	*object
	net                   int64 // what was reinstated less what was withdrawn, in the currency
	withdrawn, reinstated bool
	at                    int64 // the last movement, or the creation
}

// readDispute reads a dispute with its balance transactions: what was withdrawn and reinstated, in the currency of the
// Stripe account. They state fees apart.
func (s scope) readDispute(o *object) (dispute, error) {
	d, converted := dispute{object: o, at: o.Created}, false
	if o.Currency != "" && o.Amount == nil {
		return d, malformed("the dispute has no amount")
	} else if err := s.requireTime(o); err != nil {
		return d, err
	}
	for _, moved := range o.BalanceTransactions {
		if moved.Amount == nil || *moved.Amount > maxAmount || *moved.Amount < -maxAmount || !observe.Plausible(moved.Created, s.now) {
			return d, malformed("a balance transaction of the dispute has no exact amount or time between 2000 and now")
		}
		d.net, d.at = d.net+*moved.Amount, max(d.at, moved.Created)
		d.withdrawn, d.reinstated = d.withdrawn || *moved.Amount < 0, d.reinstated || *moved.Amount > 0
		converted = converted || !strings.EqualFold(moved.Currency, o.Currency)
	}
	if converted { // the exchange loss is not part of the dispute
		d.net = 0
	}
	return d, nil
}

// record returns the dispute's record at a time. After won, only what was not reinstated is gone.
func (d dispute) record(won bool, at int64) ledger.Return {
	r := ledger.Return{ID: d.ID, Kind: ledger.ReturnReversal, At: at, Rank: rankWithdrawn, Gone: !won}
	if won || d.reinstated {
		r.Rank = rankReinstated
	}
	if d.reinstated {
		r.Gone = d.net < 0
	}
	if r.Gone && d.Currency != "" {
		r.Amount, r.Currency = cmp.Or(max(-d.net, 0), d.Amount.value()), d.Currency
	}
	return r
}

// disputeEvent reads an event of a dispute. Only withdrawn money counts.
func (s scope) disputeEvent(o *object, kind string, at int64, from ledger.EvidenceLevel) (ledger.Observation, error) {
	d, err := s.readDispute(o)
	won := kind == disputeReinstated || kind == disputeClosed && o.Status == "won"
	switch {
	case err != nil:
		return ledger.Observation{}, err
	case !won && kind != disputeWithdrawn && o.Status != "lost":
		return s.addendum(o, from)
	}
	return s.addendum(o, from, d.record(won, at))
}

// dispute reads the current state of a dispute.
func (s scope) dispute(o *object, from ledger.EvidenceLevel) (ledger.Observation, error) {
	d, err := s.readDispute(o)
	switch {
	case err != nil:
		return ledger.Observation{}, err
	case o.BalanceTransactions == nil:
		return ledger.Observation{}, malformed("the dispute has no balance_transactions")
	case !d.withdrawn && !d.reinstated && o.Status != "lost":
		return s.addendum(o, from)
	}
	return s.addendum(o, from, d.record(o.Status == "won", d.at))
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
