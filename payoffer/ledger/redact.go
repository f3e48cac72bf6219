package ledger

import (
	"context"
	"database/sql"
	"errors"
)

// ErrRedaction is returned for a receipt that does not exist or is not an operator's entry.
var ErrRedaction = errors.New("the ledger has no such entry of yours; only entries of 'record' can be redacted")

// Redact replaces the external id of an operator's entry. It erases the operator's notes on the receipt, which may
// repeat the id, and signs out its browsers; all other facts stay. Copies, delivered notifications and free space of the database may still
// contain the id. Error: ErrRedaction.
func (l *Ledger) Redact(ctx context.Context, offer, account, externalID, replacement, note string) (receipt Receipt, err error) {
	err = l.writeSums(ctx, []lock{{offerLock, offer}}, func(ctx context.Context, r *recorder) (err error) {
		var found bool
		receipt, found, err = atMostOne(receiptTable.query(ctx, r.tx, `
			offer = $1 AND account = $2 AND external_id = $3 AND evidence_level = 'manual'`, offer, account, externalID))
		if err != nil {
			return err
		}
		if !found {
			return ErrRedaction
		}
		before := receipt
		receipt.ExternalID, receipt.UpdatedAt = replacement, r.now
		receipt.Version++
		r.changed = true
		return redact(ctx, r.tx, before, receipt, note)
	})
	return receipt, err
}

// redact stores the receipt under its new ID, and the transition.
func redact(ctx context.Context, tx *sql.Tx, before, r Receipt, note string) error {
	if err := receiptTable.update(ctx, tx, r.ID, before, r); err != nil {
		return err
	}
	for _, update := range []struct {
		does, statement string
		values          []any
	}{
		{"renaming the returns", `UPDATE returns SET external_id = $1 WHERE account = $2 AND external_id = $3`,
			[]any{r.ExternalID, r.Account, before.ExternalID}},
		{"deleting the browsers", `DELETE FROM entries WHERE offer = $1 AND payment = $2`,
			[]any{r.Offer, r.Account + " " + before.Name()}},
		{"erasing the notes", `UPDATE transitions SET note = '' WHERE receipt_id = $1`, []any{r.ID}},
	} {
		if _, err := execute(ctx, tx, update.does, update.statement, update.values...); err != nil {
			return err
		}
	}
	return insertTransition(ctx, tx, r, Transition{From: r.Status, Cause: CauseRedacted, Note: note})
}
