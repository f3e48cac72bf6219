package operator

import (
	"cmp"
	"context"
	"slices"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/manual"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// refund records what went back of a payment, as a fact of its own: what was paid
// stays. The same entry again is the same refund and changes nothing.
func (d *Desk) refund(ctx context.Context, e manual.Entry) (Receipt, error) {
	stored, err := d.known(ctx, e)
	if err != nil {
		return Receipt{}, err
	}
	unit := offer.UnitOf(stored.Asset)
	if e.Refund == "" {
		return Receipt{}, refuse(Invalid, "the amount is missing; write what went back in %s, the unit of this payment", unit.Symbol)
	}
	amount, err := manual.ParseRefund(e.Refund, unit)
	if err == nil && e.Transaction != "" {
		e.Transaction, err = manual.ParseTransaction(stored.Asset, e.Transaction)
	}
	if err != nil {
		return Receipt{}, invalid(err)
	}
	words, err := d.Ledger.Returns(ctx, stored.Offer, stored.Account, stored.ExternalID)
	if err != nil {
		return Receipt{}, err
	}
	var known *ledger.Return
	if i := slices.IndexFunc(words, func(r ledger.Return) bool { return r.ID == e.RefundID(amount) }); i >= 0 {
		known = &words[i]
	}
	if known != nil && known.Gone {
		if known.Amount != amount {
			return Receipt{}, refuse(Conflict, "this transaction is recorded already, as a refund of %s of %q; restore that first if it is wrong",
				unit.Format(known.Amount), e.Reference)
		}
		row := d.newReceipt(stored)
		row.Said = []string{"this refund stands already, nothing was changed; another one of the same amount needs another reason or a date of its own"}
		return row, nil
	}
	if err := d.refundable(stored, e, amount); err != nil {
		return Receipt{}, err
	}
	receipt, err := d.add(ctx, e.Refunded(stored, amount, known, d.Now()))
	if err != nil {
		return Receipt{}, err
	}
	row := d.newReceipt(receipt)
	row.Said = twice(stored, e, amount, words)
	return row, nil
}

// twice says how a refund may be the same money as another one, which nothing here
// can tell.
func twice(stored ledger.Receipt, e manual.Entry, amount int64, words []ledger.Return) (said []string) {
	for _, w := range words {
		transaction, entered := manual.EnteredRefund(w)
		if entered && w.Gone && w.Amount == amount && (transaction == "") != (e.Transaction == "") {
			said = append(said, "another refund of the same amount stands, of which "+
				"one has a transaction and one has none; if they are the same money, restore, and enter the one with the transaction")
			break
		}
	}
	if provided(stored) {
		said = append(said, "should the provider tell of this refund by itself later, restore this entry, or it counts twice")
	}
	return said
}

// refundable says why an amount cannot have gone back of a payment.
func (d *Desk) refundable(stored ledger.Receipt, e manual.Entry, amount int64) error {
	unit, left := offer.UnitOf(stored.Asset), stored.Amount-stored.Refunded
	switch {
	case d.tellsRefunds(stored):
		return refuse(Conflict, "refunds of %q are read from the provider: refund it there, and the receipt follows by itself", e.Reference)
	case stored.Status == ledger.StatusSeen:
		return refuse(Conflict, "%q is seen and not confirmed yet; enter what went back once it is", e.Reference)
	case stored.Status == ledger.StatusRefunded:
		return refuse(Conflict, "%q is refunded already, all of %s", e.Reference, unit.Format(stored.Amount))
	case stored.Status != ledger.StatusConfirmed:
		return refuse(Conflict, "%q is %s; nothing of it can be refunded", e.Reference, stored.Status)
	case amount > left:
		return refuse(Conflict, "no more than %s is left of %q (paid %s, refunded %s); the amount is in %s", unit.Format(left), e.Reference,
			unit.Format(stored.Amount), unit.Format(stored.Refunded), unit.Symbol)
	case e.Transaction != "" && e.Transaction == stored.Transaction:
		return refuse(Conflict, "this is the transaction by which %q was paid; name the one by which the money went back", e.Reference)
	case !e.OccurredAt.IsZero() && e.OccurredAt.Unix() < stored.OccurredAt-day:
		return refuse(Invalid, "the date %s is before the payment of %s; look for a slip", moment(e.OccurredAt.Unix()), moment(stored.OccurredAt))
	}
	return nil
}

// day is by how much time zones and clocks may differ, in seconds.
const day = 24 * 60 * 60

// tellsRefunds reports whether the provider of a payment tells of its refunds by
// itself, so that one by hand would be the same money twice.
func (d *Desk) tellsRefunds(r ledger.Receipt) bool {
	if !provided(r) || !slices.ContainsFunc(d.Accounts, func(a ledger.Account) bool { return a.ID == r.Account }) {
		return false
	}
	rail, _ := d.Offer.Rail(r.Rail)
	_, card := rail.(*offer.Card)
	for _, h := range d.Health() {
		if h.Rail == r.Rail {
			return h.Source == "provider" || card && h.Source == "webhook"
		}
	}
	return false
}

// provided reports whether a payment rests on its provider's word.
func provided(r ledger.Receipt) bool {
	return r.EvidenceLevel == ledger.LevelSigned || r.EvidenceLevel == ledger.LevelProvider
}

// restore undoes a reversal by the operator; where there is none, it takes back
// the refunds that the operator entered, or the one of a transaction alone.
func (d *Desk) restore(ctx context.Context, e manual.Entry) (ledger.Receipt, error) {
	stored, err := d.known(ctx, e)
	if err != nil {
		return ledger.Receipt{}, err
	}
	words, err := d.Ledger.Returns(ctx, stored.Offer, stored.Account, stored.ExternalID)
	if err != nil {
		return ledger.Receipt{}, err
	}
	if e.Transaction != "" {
		if e.Transaction, err = manual.ParseTransaction(stored.Asset, e.Transaction); err != nil {
			return ledger.Receipt{}, invalid(err)
		}
	} else if stored.Status == ledger.StatusReversed {
		return d.lift(ctx, e, stored)
	} else if again, err := d.lifted(ctx, e, stored); err != nil || again {
		return stored, err
	}
	refunds := slices.DeleteFunc(words, func(r ledger.Return) bool {
		transaction, entered := manual.EnteredRefund(r)
		return !entered || !r.Gone || e.Transaction != "" && transaction != e.Transaction
	})
	if len(refunds) == 0 {
		return ledger.Receipt{}, refuse(Conflict, "%q is not reversed but %s, and no such refund of yours stands; there is nothing to restore", e.Reference, stored.Status)
	}
	return d.add(ctx, e.TakenBack(stored, refunds))
}

// lifted reports whether the last thing that became of a receipt is that its reversal was
// undone for the same reason: who did not see the answer says the same again, and means
// no refund that stood beside the reversal.
func (d *Desk) lifted(ctx context.Context, e manual.Entry, stored ledger.Receipt) (bool, error) {
	history, err := d.Ledger.History(ctx, stored.Offer, stored.ID, stored.ID)
	if err != nil || len(history) == 0 {
		return false, err
	}
	last := history[len(history)-1]
	return last.Cause == manual.CauseRestored && last.ReturnKind == ledger.ReturnReversal && last.Note == e.Reason, nil
}

// lift undoes a reversal.
func (d *Desk) lift(ctx context.Context, e manual.Entry, stored ledger.Receipt) (ledger.Receipt, error) {
	receipt, err := d.add(ctx, e.Restored(stored, d.Now()))
	if err == nil && receipt.Status == ledger.StatusReversed {
		err = refuse(Conflict, "%q is still reversed: the provider took the money back, and its dispute is won or lost there", e.Reference)
	}
	return receipt, err
}

// value states what a payment is worth in US dollars, of which no source knows it.
func (d *Desk) value(ctx context.Context, e manual.Entry) (ledger.Receipt, error) {
	stored, err := d.known(ctx, e)
	switch {
	case err != nil:
		return ledger.Receipt{}, err
	case e.Amount == 0:
		return ledger.Receipt{}, refuse(Invalid, "the value is missing; write for example 42 or 42.50, in US dollars")
	case stored.USDCents != nil && stored.ValueBasis != ledger.BasisStated:
		return ledger.Receipt{}, refuse(Conflict, "the value of %q is known, %s US dollars by %s; only what no source knows is stated", e.Reference,
			offer.USD(*stored.USDCents), cmp.Or(string(stored.ValueBasis), "its source"))
	case stored.Stated != nil && stored.Stated.USDCents == int64(e.Amount):
		return stored, nil
	}
	return d.add(ctx, e.Valued(stored, d.Now()))
}
