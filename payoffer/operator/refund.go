package operator

import (
	"context"
	"slices"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/manual"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// refund records a refund of a payment; the paid amount stays. The same entry again changes nothing.
func (s *Service) refund(ctx context.Context, e manual.Entry, stored ledger.Receipt) (ledger.Receipt, []string, error) {
	unit := offer.UnitOf(stored.Asset)
	amount, err := manual.ParseRefund(e.Amount.String(), unit)
	if err == nil && e.Transaction != "" {
		e.Transaction, err = manual.ParseTransaction(stored.Asset, e.Transaction)
	}
	if err != nil {
		return ledger.Receipt{}, nil, invalid(err)
	}
	returns, err := s.Ledger.Returns(ctx, stored.Offer, stored.Account, stored.ExternalID)
	if err != nil {
		return ledger.Receipt{}, nil, err
	}
	var known *ledger.Return
	if i := slices.IndexFunc(returns, func(r ledger.Return) bool { return r.ID == e.RefundID(amount) }); i >= 0 {
		known = &returns[i]
	}
	switch {
	case known != nil && known.Gone && known.Amount != amount:
		return ledger.Receipt{}, nil, refuse(Conflict, "this transaction is recorded already, as a refund of %s of %q; restore that first if it is wrong",
			unit.Format(known.Amount), e.Reference)
	case known != nil && known.Gone:
		return stored, []string{"this refund is recorded already, nothing was changed; another refund of the same amount needs another reason or date"}, nil
	}
	if err := s.checkRefund(stored, e, amount); err != nil {
		return ledger.Receipt{}, nil, err
	}
	receipt, err := s.add(ctx, e.Refund(stored, amount, known, s.Now()))
	return receipt, duplicateHints(stored, e, amount, returns), err
}

// duplicateHints say how a refund may be the same money as another one, which the ledger cannot know.
func duplicateHints(stored ledger.Receipt, e manual.Entry, amount int64, returns []ledger.Return) (hints []string) {
	if slices.ContainsFunc(returns, func(r ledger.Return) bool {
		transaction, entered := manual.EnteredRefund(r)
		return entered && r.Gone && r.Amount == amount && (transaction == "") != (e.Transaction == "")
	}) {
		hints = append(hints, "another refund of the same amount is recorded, and only one of the two has a transaction; "+
			"if they are the same money, restore, and enter the one with the transaction")
	}
	if isProviders(stored) {
		hints = append(hints, "if the provider reports this refund later, restore this entry, or it is counted twice")
	}
	return hints
}

// checkRefund refuses a refund that is impossible, or that the provider reports.
func (s *Service) checkRefund(stored ledger.Receipt, e manual.Entry, amount int64) error {
	unit, left := offer.UnitOf(stored.Asset), stored.Amount-stored.Refunded
	switch {
	case s.providerReportsRefunds(stored):
		return refuse(Conflict, "refunds of %q are read from its provider; refund it there, and the receipt follows", e.Reference)
	case stored.Status == ledger.StatusSeen:
		return refuse(Conflict, "%q is not confirmed yet; enter its refund after the payment is confirmed", e.Reference)
	case stored.Status == ledger.StatusRefunded:
		return refuse(Conflict, "%q is already refunded in full (%s); if that is wrong, restore the refund first", e.Reference, unit.Format(stored.Amount))
	case stored.Status != ledger.StatusConfirmed:
		return refuse(Conflict, "%q is %s, and only a confirmed payment can be refunded; compare the reference with 'caddy pay-offer received --receipts'", e.Reference, stored.Status)
	case amount > left:
		return refuse(Conflict, "only %s of %q is left (paid %s, refunded %s); enter at most that, in %s", unit.Format(left), e.Reference,
			unit.Format(stored.Amount), unit.Format(stored.Refunded), unit.Symbol)
	case e.Transaction != "" && e.Transaction == stored.Transaction:
		return refuse(Conflict, "%q was paid by this transaction; give the transaction of the refund", e.Reference)
	case !e.OccurredAt.IsZero() && e.OccurredAt.Unix() < stored.OccurredAt-day:
		return refuse(Invalid, "the date %s is before the payment of %s; write the date of the refund", timestamp(e.OccurredAt.Unix()), timestamp(stored.OccurredAt))
	}
	return nil
}

// day is by how much time zones and clocks may differ, in seconds.
const day = 24 * 60 * 60

// providerReportsRefunds reports whether the provider of a payment reports its refunds, so that an entry would be
// the same money twice.
func (s *Service) providerReportsRefunds(r ledger.Receipt) bool {
	if !isProviders(r) || !slices.ContainsFunc(s.Accounts, func(a ledger.Account) bool { return a.ID == r.Account }) {
		return false
	}
	return slices.ContainsFunc(s.Health(), func(h observe.Health) bool { return h.Rail == r.Rail && h.Refunds })
}

// isProviders reports whether a provider proves the payment.
func isProviders(r ledger.Receipt) bool {
	return r.EvidenceLevel == ledger.LevelSigned || r.EvidenceLevel == ledger.LevelProvider
}
