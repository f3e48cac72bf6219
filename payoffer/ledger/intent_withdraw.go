package ledger

import (
	"context"
	"database/sql"
	"fmt"
)

// WithdrawIntent forgets an open intent of which certainly nothing was sent,
// so that the same authorization can be taken again. It is for the owner of
// the lease alone. Errors: ErrNoIntent, ErrLeaseHeld for another owner, and
// ErrIntentState for an intent that was refused, settled at any time, or has
// a transaction.
func (l *Ledger) WithdrawIntent(ctx context.Context, key IntentKey, owner string) error {
	return l.transact(ctx, func(tx *sql.Tx) error {
		i, err := intentByKey(ctx, tx, key.canonical())
		switch {
		case err != nil:
			return err
		case i.State != IntentSettling:
			return fmt.Errorf("%w: it was %s", ErrIntentState, i.State)
		case i.Transaction != "":
			return fmt.Errorf("%w: it was sent", ErrIntentState)
		case i.Owner != owner:
			return ErrLeaseHeld
		}
		if _, err := tx.ExecContext(ctx, `DELETE FROM payment_ids WHERE intent_id = $1`, i.id); err != nil {
			return fmt.Errorf("withdrawing the payment identifier: %w", err)
		}
		done, err := tx.ExecContext(ctx, `DELETE FROM intents WHERE id = $1 AND NOT reopened`, i.id)
		if err != nil {
			return fmt.Errorf("withdrawing the intent: %w", err)
		}
		if n, err := done.RowsAffected(); err != nil {
			return fmt.Errorf("withdrawing the intent: %w", err)
		} else if n == 0 {
			return fmt.Errorf("%w: it was settled before", ErrIntentState)
		}
		return sums{}.change(i, Intent{}).apply(ctx, tx)
	})
}
