package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// protection is how long a charge that left its payer in doubt goes on
// answering for the payer's next authorizations after a 200 has named it. The
// signature of a settled authorization is public on the chain, so that the
// first 200 may have gone to a stranger.
const protection = 2 * time.Minute

// quoted is how long authorizations are signed for (x402, maxTimeoutSeconds):
// one that ends sooner than this after a charge was signed before it.
const quoted = 5 * time.Minute

// ConflictError is returned for an authorization that another payment of its
// payer, on whatever chain, is in the way of: settling it could charge the
// payer twice for one purchase.
type ConflictError struct {
	// Other is open, or was charged and answers for the authorization too.
	Other Intent
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("authorization %s of the same payer is %s", e.Other.Nonce, e.Other.State)
}

// InTheWay finds the payment of the payer because of which i, which is not
// known, is not to be settled now: an open one; one that was charged after i
// had been turned away because of it, which i's end tells (TurnedUntil), or
// that ends after i, which was signed before it and left; one that came after i
// (Since) and was charged already; or one that was charged while its payer was
// left in doubt, until a 200 has named it for a while. A payment identifier that
// the charge does not have makes i a purchase of its own.
func (l *Ledger) InTheWay(ctx context.Context, i Intent) (other Intent, found bool, err error) {
	i.IntentKey = i.Canonical()
	return first(collect(ctx, l, scanIntent, selectIntents+aheadOf, l.ahead(i)...))
}

// aheadOf chooses the payment in the way of another one; an open one first.
const aheadOf = `offer = $1 AND payer = $2 AND id <> $3 AND (state = 'settling' OR (
		state = 'settled' AND ($4 = '' OR payment_id = $4) AND (
			turned_until >= $5 OR valid_before > $5 AND created_at + $8 > $5 OR told_at = 0 OR (doubt AND told_at > $6) OR ($7 > 0 AND id >= $7))))
	ORDER BY CASE state WHEN 'settling' THEN 0 ELSE 1 END, id LIMIT 1`

// ahead are the arguments of aheadOf.
func (l *Ledger) ahead(i Intent) []any {
	return []any{i.Offer, i.From, i.ID, i.PaymentID, i.ValidBefore, l.now().Add(-protection).Unix(), i.Since, int64(quoted / time.Second)}
}

// Since is the ID from which on an intent of the payer is newer than this
// question.
func (l *Ledger) Since(ctx context.Context, offer, payer string) (id int64, err error) {
	id, _, err = first(collect(ctx, l, scanValue[int64], `SELECT COALESCE(max(id), 0) + 1 FROM intents WHERE offer = $1 AND payer = $2`,
		offer, IntentKey{From: payer}.Canonical().From))
	return id, err
}

// inTheWay returns a *ConflictError for what InTheWay finds, and an
// *IntentExistsError where that is i itself.
func (l *Ledger) inTheWay(ctx context.Context, tx *transaction, i Intent) error {
	other, err := intentOf(ctx, tx, aheadOf, l.ahead(i)...)
	switch {
	case errors.Is(err, ErrNoIntent):
		return nil
	case err != nil:
		return fmt.Errorf("looking for other payments of the payer: %w", err)
	case other.IntentKey == i.IntentKey: // since it was looked for
		return &IntentExistsError{Existing: other}
	default:
		return &ConflictError{Other: other}
	}
}

// inherit lets an intent answer for what was turned away because of one that
// was not charged then, and may still be sent: its payer is in doubt about
// whichever of them comes first.
func inherit(ctx context.Context, tx *transaction, i *Intent) (err error) {
	i.TurnedUntil, _, err = first(query(ctx, tx, scanValue[int64], `SELECT COALESCE(max(turned_until), 0) FROM intents
		WHERE offer = $1 AND payer = $2 AND payment_id = $3 AND state = 'refused' AND turned_until > $4`,
		i.Offer, i.From, i.PaymentID, i.CreatedAt))
	i.Doubt = i.TurnedUntil > 0
	return err
}

// TurnAway remembers that an authorization that ends at until (Unix seconds)
// was turned away because of the intent: it, and what its payer signed before,
// gets the intent's answer if that is charged. Whoever is turned away by an open
// one is in doubt about it. It returns the intent as it stands now. Errors:
// ErrNoIntent.
func (l *Ledger) TurnAway(ctx context.Context, key IntentKey, until int64) (now Intent, err error) {
	err = l.changeIntent(ctx, key, func(i *Intent) error {
		i.TurnedUntil = max(i.TurnedUntil, until)
		i.Doubt = i.Doubt || i.State == IntentSettling
		now = *i
		return nil
	})
	return now, err
}

// DoubtIntent notes that an answer left the payer in doubt about the intent:
// what was told before counts no more. Errors: ErrNoIntent.
func (l *Ledger) DoubtIntent(ctx context.Context, key IntentKey) error {
	return l.changeIntent(ctx, key, func(i *Intent) error {
		i.Doubt, i.ToldAt = true, 0
		return nil
	})
}

// TellIntent notes that a 200 which names a charge was written. atOnce says
// that it was the answer to the request that brought the payment; any other
// came late, and its payer was in doubt. Only the first one counts. Errors:
// ErrNoIntent.
func (l *Ledger) TellIntent(ctx context.Context, key IntentKey, atOnce bool) error {
	return l.changeIntent(ctx, key, func(i *Intent) error {
		if i.ToldAt == 0 && i.State == IntentSettled {
			i.ToldAt, i.Doubt = l.now().Unix(), i.Doubt || !atOnce
		}
		return nil
	})
}
