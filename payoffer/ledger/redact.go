package ledger

import (
	"context"
	"errors"
)

// ErrRedaction is returned for a receipt that does not exist or is not an operator's entry.
var ErrRedaction = errors.New("the ledger has no such entry of yours; only entries of 'record' can be redacted")

// Redact replaces the external id of an operator's entry. It erases the operator's notes on the receipt, which may
// repeat the id, and signs out its browsers; all other facts stay. Copies, delivered notifications and free space of the database may still
// contain the id. Error: ErrRedaction.
func (l *Ledger) Redact(ctx context.Context, offer, account, externalID, replacement, note string) (receipt Receipt, err error) {
	err = l.writeSums(ctx, []lock{{offerLock, offer}}, func(ctx context.Context, r *recorder) error {
		before, found, err := atMostOne(receiptTable.query(ctx, r.tx, `
			offer = $1 AND account = $2 AND external_id = $3 AND evidence_level = 'manual'`, offer, account, externalID))
		if err == nil && !found {
			err = ErrRedaction
		}
		if err != nil {
			return err
		}
		receipt, r.changed = before, true
		receipt.ExternalID, receipt.Version, receipt.UpdatedAt = replacement, before.Version+1, r.now
		if err := receiptTable.update(ctx, r.tx, receipt.ID, before, receipt); err != nil {
			return err
		}
		for _, one := range []struct {
			does, statement string
			values          []any
		}{
			{"renaming the returns", `UPDATE returns SET external_id = $1 WHERE account = $2 AND external_id = $3`,
				[]any{replacement, account, externalID}},
			{"deleting the browsers", `DELETE FROM entries WHERE offer = $1 AND payment = $2`,
				[]any{offer, account + " " + before.Name()}},
			{"erasing the notes", `UPDATE transitions SET note = '' WHERE receipt_id = $1`, []any{receipt.ID}},
		} {
			if _, err := execute(ctx, r.tx, one.does, one.statement, one.values...); err != nil {
				return err
			}
		}
		return insertTransition(ctx, r.tx, receipt, Transition{From: receipt.Status, Cause: CauseRedacted, Note: note})
	})
	return receipt, err
}
