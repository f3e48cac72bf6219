package ledger

import (
	"context"
	"fmt"
)

// Claims lists up to limit intents of an offer that are settled by somebody's word
// alone, a facilitator's or the operator's, oldest first: those with an ID above
// after.
func (l *Ledger) Claims(ctx context.Context, offer string, after int64, limit int) ([]Intent, error) {
	return collect(ctx, l, scanIntent, selectIntents+`
		state = 'settled' AND evidence = 'facilitator' AND offer = $1 AND id > $2 ORDER BY id LIMIT $3`, offer, after, limit)
}

// RetractClaim makes a claim a definite no, with a reason code: the payer and the
// payment identifier are free again, and so is the transaction that it named, which
// stays with it as a hint. Repeating it changes nothing. Errors: ErrNoIntent, and
// ErrIntentState for what the chain shows or what is open.
func (l *Ledger) RetractClaim(ctx context.Context, key IntentKey, reason string) error {
	return l.changeIntent(ctx, key, func(i *Intent) error {
		switch {
		case i.State == IntentRefused:
			return nil
		case i.State != IntentSettled || i.Evidence != EvidenceFacilitator:
			return fmt.Errorf("%w: it is %s by %q", ErrIntentState, i.State, i.Evidence)
		}
		i.State, i.Evidence, i.Reason, i.Answer = IntentRefused, "", reason, nil
		return nil
	})
}

// ClaimRefused makes a claim, of this transaction, of an intent that was refused
// with the reason code. Errors: ErrNoIntent, ErrIntentState for what was not
// refused so, and ErrTransaction.
func (l *Ledger) ClaimRefused(ctx context.Context, key IntentKey, hash, reason string) error {
	return l.claim(ctx, key, hash, func(i *Intent, taken bool) error {
		switch {
		case i.State != IntentRefused || i.Reason != reason:
			return fmt.Errorf("%w: it is %s for %q", ErrIntentState, i.State, i.Reason)
		case taken:
			return ErrTransaction
		}
		i.State, i.Evidence, i.Reason, i.Transaction = IntentSettled, EvidenceFacilitator, "", hash
		return nil
	})
}
