package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/accounting"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/manual"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// Movement is money that came or went back: one line of the books. Amounts are
// negative for money that went back.
type Movement struct {
	Date        string                  `json:"date"` // when the money moved, as the source dates it, and when all else was recorded (RFC 3339)
	Kind        accounting.MovementKind `json:"kind"`
	Rail        string                  `json:"rail"`
	Reference   string                  `json:"reference"`
	Number      int64                   `json:"number"` // the receipt's
	Asset       string                  `json:"asset"`  // as in USD, USDC or BTC
	Amount      string                  `json:"amount"` // in whole units of the asset
	Atomic      int64                   `json:"amount_atomic"`
	USDCents    *int64                  `json:"usd_cents"`             // nil while the value is unknown
	ValueBasis  string                  `json:"value_basis,omitempty"` // how that was fixed
	Status      string                  `json:"status"`                // the receipt's, now
	Evidence    string                  `json:"evidence"`
	Own         bool                    `json:"own"`
	Testnet     bool                    `json:"testnet"`
	Counted     bool                    `json:"counted"`               // it is money received, or what went back of it
	Transaction string                  `json:"transaction,omitempty"` // of a payment its hash, of what went back that or the provider's id
}

// Undated begins the date of a movement whose source told none that it can have
// meant.
const Undated = "9999-"

// MovementsEnd is what the ledger says of all movements, at the moment of which they
// are. Without it they are not complete.
type MovementsEnd struct {
	Count         int64  `json:"count"` // of the movements
	ReceivedCents int64  `json:"received_usd_cents"`
	ExternalCents int64  `json:"external_usd_cents"` // without the operator's own payments
	Partial       bool   `json:"partial"`            // the value of some money is not known
	Error         string `json:"error,omitempty"`    // why they are not complete, or must not be used
}

// MovementLine is one line of the answer: a movement, or the end.
type MovementLine struct {
	*Movement
	End *MovementsEnd `json:"end,omitempty"`
}

// Movements tells all movements of the offer as they stand at one moment, receipt by
// receipt, and at last what the ledger's sums say of them; they are compared. It
// holds few movements at a time. An error of tell ends it, and is returned.
func (d *Desk) Movements(ctx context.Context, tell func(MovementLine) error) error {
	snapshot, err := d.Ledger.Snapshot(ctx, d.Offer.ID)
	if err != nil {
		return noLedger(err)
	}
	defer snapshot.Close()
	testCounts := accounting.TestCounts(snapshot.Totals, d.Offer.Test())
	counted := accounting.Count(snapshot.Totals, testCounts)
	end := MovementsEnd{ReceivedCents: counted.Received, ExternalCents: counted.External, Partial: counted.Partial}
	told := make(map[accounting.Place]told)
	for r, err := range snapshot.Receipts(ctx) {
		if err != nil {
			d.Logger.Error("the movements cannot be told to their end", "error", err.Error())
			end.Error = "the ledger could not be read to its end; the log says why, try again"
			return tell(MovementLine{End: &end})
		}
		place := r.Total().Place
		for _, m := range accounting.Movements(r.Receipt, moments(r.History)) {
			row := newMovement(r.Receipt, m, testCounts)
			if err := tell(MovementLine{Movement: &row}); err != nil {
				return err
			}
			end.Count++
			told[place] = told[place].plus(m)
		}
	}
	if err := compare(snapshot.Totals, told); err != nil {
		d.Logger.Error("the movements do not add up to the ledger's sums", "error", err.Error())
		end.Error = err.Error()
	}
	return tell(MovementLine{End: &end})
}

// told is what the movements of the receipts in one place of the sums add up to,
// those that arrived: in atomic units, and in US cents over those of known value.
type told struct{ payments, amount, cents int64 }

func (t told) plus(m accounting.Movement) told {
	switch {
	case !m.Arrived:
		return t
	case m.Kind == accounting.MovementPayment:
		t.payments++
	case m.Kind == accounting.MovementDropped:
		t.payments--
	}
	t.amount += m.Amount
	if m.USDCents != nil {
		t.cents += *m.USDCents
	}
	return t
}

// compare returns an error where the movements of a place are not what the ledger's
// sum of it says: what is confirmed is there less what went back, and of all else
// nothing is left.
func compare(totals []ledger.Total, found map[accounting.Place]told) error {
	for _, t := range totals {
		var want told
		switch t.Status {
		case ledger.StatusConfirmed:
			want = told{t.Count, t.Amount - t.Refunded, t.USDCents - t.RefundedCents}
		case ledger.StatusRefunded, ledger.StatusReversed:
			want.payments = t.Count
		}
		if found[t.Place] != want {
			return fmt.Errorf("the movements of %s receipts on rail %s do not add up to the ledger's sums, and must not be used; please report this", t.Status, t.Rail)
		}
		delete(found, t.Place)
	}
	for _, left := range found {
		if left != (told{}) {
			return errors.New("the movements hold receipts that the ledger's sums do not have, and must not be used; please report this")
		}
	}
	return nil
}

func moments(history []ledger.Transition) []accounting.Moment {
	all := make([]accounting.Moment, len(history))
	for i, t := range history {
		all[i] = accounting.Moment{Status: t.To, Amount: t.Amount, Refunded: t.Refunded, USDCents: t.USDCents, At: cmp.Or(t.MovedAt, t.At), Return: t.ReturnID, ReturnKind: t.ReturnKind}
	}
	return all
}

func newMovement(r ledger.Receipt, m accounting.Movement, testCounts bool) Movement {
	unit := offer.UnitOf(r.Asset)
	sign, amount := "", m.Amount
	if amount < 0 {
		sign, amount = "-", -amount
	}
	// What went back of money that counts counts too, whatever is left of it.
	counts := accounting.Standing{Status: ledger.StatusConfirmed, EvidenceLevel: r.EvidenceLevel, Own: r.Own, Testnet: r.Testnet}
	return Movement{
		Date: moment(m.At), Kind: m.Kind, Rail: r.Rail, Reference: r.ExternalID, Number: r.ID,
		Asset: unit.Symbol, Amount: sign + unit.Decimal(amount), Atomic: m.Amount, USDCents: m.USDCents, ValueBasis: string(r.ValueBasis),
		Status: string(r.Status), Evidence: string(r.EvidenceLevel), Own: r.Own, Testnet: r.Testnet,
		Counted: m.Arrived && counts.Counts(testCounts), Transaction: transactionOf(r, m),
	}
}

// transactionOf is by what a movement is found at its source, or empty.
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
