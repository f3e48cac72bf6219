package ledger

import (
	"context"
	"errors"
	"reflect"
)

// join links the row to the intent that the sighting names, and makes the
// intent say what the chain says.
func (r *recorder) join(ctx context.Context, next *Receipt, s Sighting) error {
	if s.EvidenceLevel != LevelChain {
		return nil
	}
	if next.IntentID == nil && s.Intent != nil && next.State != StatusDropped {
		if err := r.link(ctx, next, s.Intent.Canonical()); err != nil {
			return err
		}
	}
	if next.IntentID == nil {
		return nil
	}
	old, err := intentOf(ctx, r.tx, `id = $1`+r.tx.dialect.forUpdate(), *next.IntentID)
	if err != nil {
		return err
	}
	intent := old
	if next.State == StatusDropped {
		intent.reopen(s.Cause)
	} else {
		if err := intent.settle(next.Transaction, s.Answer, EvidenceChain); err != nil {
			return err
		}
		intent.Transaction = next.Transaction // also when it moved to this row
	}
	if reflect.DeepEqual(old, intent) {
		return nil
	}
	return updateIntent(ctx, r.tx, r.delta, old, intent, r.now)
}

// link takes the intent from a row that is not final. An authorization that
// was not sent by this offer is no intent of ours.
func (r *recorder) link(ctx context.Context, next *Receipt, key IntentKey) error {
	intent, err := intentByKey(ctx, r.tx, key)
	if errors.Is(err, ErrNoIntent) {
		return nil
	}
	if err != nil {
		return err
	}
	if intent.Offer != next.Offer || intent.Account != next.Account {
		return nil
	}
	// Without a row there is nothing to free; a final row keeps its intent.
	if _, err := r.tx.ExecContext(ctx,
		`UPDATE receipts SET intent_id = NULL WHERE intent_id = $1 AND NOT final`, intent.ID); err != nil {
		return err
	}
	var taken bool
	if err := r.tx.QueryRowContext(ctx,
		`SELECT EXISTS (SELECT 1 FROM receipts WHERE intent_id = $1)`, intent.ID).Scan(&taken); err != nil {
		return err
	}
	if !taken {
		next.IntentID = &intent.ID
	}
	return nil
}
