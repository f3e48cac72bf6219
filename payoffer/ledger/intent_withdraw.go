package ledger

import (
	"context"
	"fmt"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/book"
)

// WithdrawIntent forgets an open intent of which certainly nothing was sent,
// so that the same authorization can be taken again. It is for the owner of
// the lease alone. Errors: ErrNoIntent, ErrLeaseHeld for another owner, and
// ErrIntentState for an intent that was refused, settled at any time, or has
// a transaction.
func (l *Ledger) WithdrawIntent(ctx context.Context, key IntentKey, owner string) error {
	return l.transact(ctx, func(tx *transaction) error {
		i, err := intentByKey(ctx, tx, key.Canonical())
		if err != nil {
			return err
		}
		if err := i.unsent(owner); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `DELETE FROM payment_ids WHERE intent_id = $1`, i.ID); err != nil {
			return fmt.Errorf("withdrawing the payment identifier: %w", err)
		}
		if _, err := tx.ExecContext(ctx, `DELETE FROM intents WHERE id = $1`, i.ID); err != nil {
			return fmt.Errorf("withdrawing the intent: %w", err)
		}
		return addToTotals(ctx, tx, book.Sums{}.Change(i.total(), Total{}))
	})
}

// unsent refuses what may have been sent, or is not owner's.
func (i *Intent) unsent(owner string) error {
	switch {
	case i.State != IntentSettling:
		return fmt.Errorf("%w: it was %s", ErrIntentState, i.State)
	case i.Transaction != "" || i.reopened:
		return fmt.Errorf("%w: it was sent", ErrIntentState)
	case i.Owner != owner:
		return ErrLeaseHeld
	}
	return nil
}
