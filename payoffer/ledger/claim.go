package ledger

import (
	"context"
	"fmt"
)

// Claims lists up to limit intents of an offer that only a facilitator or the operator
// reported as settled, with an ID above after, oldest first.
func (l *Ledger) Claims(ctx context.Context, offer string, after int64, limit int) ([]Intent, error) {
	return collect(ctx, l, scanIntent, selectIntents+`
		state = 'settled' AND evidence = 'facilitator' AND offer = $1 AND id > $2 ORDER BY id LIMIT $3`, offer, after, limit)
}

// RetractClaim changes a claim to refused, with a reason code. The payer can pay again, and
// other intents can use the payment identifier and the transaction. The hash stays as a hint.
// It is idempotent. Errors: ErrNoIntent, and ErrIntentState unless the intent is a claim.
func (l *Ledger) RetractClaim(ctx context.Context, key IntentKey, reason string) error {
	return l.changeIntent(ctx, key, func(i *Intent) error {
		switch {
		case i.State == IntentRefused:
			return nil
		case i.State != IntentSettled || i.Evidence != EvidenceFacilitator:
			return fmt.Errorf("%w: its state is %s with evidence %q", ErrIntentState, i.State, i.Evidence)
		}
		i.State, i.Evidence, i.Reason, i.Answer = IntentRefused, "", reason, nil
		return nil
	})
}

// ClaimRefused changes an intent that was refused with the reason code to a claim of the
// transaction. Errors: ErrNoIntent, ErrIntentState for any other intent, ErrTransaction.
func (l *Ledger) ClaimRefused(ctx context.Context, key IntentKey, hash, reason string) error {
	return l.changeWithTransaction(ctx, key, hash, func(i *Intent, named bool) error {
		switch {
		case i.State != IntentRefused || i.Reason != reason:
			return fmt.Errorf("%w: its state is %s with reason %q", ErrIntentState, i.State, i.Reason)
		case named:
			return ErrTransaction
		}
		i.State, i.Evidence, i.Reason, i.Transaction = IntentSettled, EvidenceFacilitator, "", hash
		return nil
	})
}
