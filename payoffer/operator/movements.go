package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/accounting"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/manual"
	"github.com/payoffer/caddy-pay-offer/payoffer/report"
)

// MovementsEnd is the last line of all movements: the ledger's totals at the same moment. Without it they are incomplete.
type MovementsEnd struct {
	Count         int64  `json:"count"` // of the movements
	ReceivedCents int64  `json:"received_usd_cents"`
	ExternalCents int64  `json:"external_usd_cents"` // without the operator's own payments
	Partial       bool   `json:"partial"`            // the value of some money is unknown
	Error         string `json:"error,omitempty"`    // why the movements must not be used
}

// MovementLine is one line of the response: a movement, or the end.
type MovementLine struct {
	*report.Movement
	End *MovementsEnd `json:"end,omitempty"`
}

// Movements sends all movements of the offer at one moment, receipt by receipt, and compares their sums with the
// ledger's totals. It keeps few movements in memory. An error of send ends it.
func (s *Service) Movements(ctx context.Context, send func(MovementLine) error) error {
	snapshot, err := s.Ledger.Snapshot(ctx, s.Offer.ID)
	if err != nil {
		return unreadable(err)
	}
	defer snapshot.Close()
	testCounts := accounting.TestCounts(snapshot.Totals, s.Offer.Test())
	counted := accounting.Count(snapshot.Totals, testCounts)
	end := MovementsEnd{ReceivedCents: counted.Received, ExternalCents: counted.External, Partial: counted.Partial}
	sums := make(map[accounting.BalanceKey]movementSum)
	for r, err := range snapshot.Receipts(ctx) {
		if err != nil {
			s.Logger.Error("cannot read all movements", "error", err.Error(), "hint", "the export is incomplete; fix the ledger and export again")
			end.Error = "the ledger could not be read to its end; read the server's log for the reason, and try again"
			return send(MovementLine{End: &end})
		}
		place := r.Total().BalanceKey
		for _, m := range accounting.Movements(r.Receipt, moments(r.History)) {
			line := report.NewMovement(r.Receipt, m, transactionOf(r.Receipt, m), testCounts)
			if err := send(MovementLine{Movement: &line}); err != nil {
				return err
			}
			end.Count++
			sums[place] = sums[place].plus(m)
		}
	}
	if err := compare(snapshot.Totals, sums); err != nil {
		s.Logger.Error("movements differ from the ledger's totals", "error", err.Error(), "hint", "do not use the export, and report this as a bug")
		end.Error = err.Error()
	}
	return send(MovementLine{End: &end})
}

// movementSum adds up the movements of money that arrived: in atomic units, and in US cents as far as known.
type movementSum struct{ payments, amount, cents int64 }

func (ms movementSum) plus(m accounting.Movement) movementSum {
	switch {
	case !m.Arrived:
		return ms
	case m.Kind == accounting.MovementPayment:
		ms.payments++
	case m.Kind == accounting.MovementDropped:
		ms.payments--
	}
	ms.amount += m.Amount
	if m.USDCents != nil {
		ms.cents += *m.USDCents
	}
	return ms
}

// compare returns an error if the movements differ from the totals: for confirmed payments their amount less
// returns, for all others nothing.
func compare(totals []ledger.Total, sums map[accounting.BalanceKey]movementSum) error {
	for _, t := range totals {
		var want movementSum
		switch t.Status {
		case ledger.StatusConfirmed:
			want = movementSum{t.Count, t.Amount - t.Refunded, t.USDCents - t.RefundedCents}
		case ledger.StatusRefunded, ledger.StatusReversed:
			want.payments = t.Count
		}
		if sums[t.BalanceKey] != want {
			return fmt.Errorf("the movements of %s receipts on rail %s differ from the ledger's totals and must not be used; please report this", t.Status, t.Rail)
		}
		delete(sums, t.BalanceKey)
	}
	for _, rest := range sums {
		if rest != (movementSum{}) {
			return errors.New("the movements contain receipts that the ledger's totals do not have, and must not be used; please report this")
		}
	}
	return nil
}

func moments(history []ledger.Transition) []accounting.Moment {
	all := make([]accounting.Moment, len(history))
	for i, t := range history {
		all[i] = accounting.Moment{
			Facts: t.After, Version: t.Version, RecordedAt: t.At, Reason: t.Note, At: cmp.Or(t.MovedAt, t.At),
			Return: t.ReturnID, ReturnKind: t.ReturnKind,
		}
	}
	return all
}

// transactionOf identifies a movement at its source, or is empty.
func transactionOf(r ledger.Receipt, m accounting.Movement) string {
	if m.Return == "" {
		return r.Transaction
	}
	transaction, entered := manual.EnteredRefund(ledger.Return{ID: m.Return, Kind: ledger.ReturnRefund})
	if entered || m.Return == "operator" {
		return transaction
	}
	return m.Return
}
