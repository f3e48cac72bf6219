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
	err = l.transact(ctx, func(ctx context.Context, tx *transaction) error {
		var found bool
		receipt, found, err = first(queryTx(ctx, tx, scanReceipt, selectReceipts+`
			offer = $1 AND account = $2 AND external_id = $3 AND evidence_level = 'manual'`+tx.dialect.forUpdate(),
			offer, account, externalID))
		if err != nil {
			return err
		}
		if !found {
			return ErrRedaction
		}
		receipt.ExternalID, receipt.UpdatedAt = replacement, l.now().Unix()
		receipt.Version++
		return redact(ctx, tx, receipt, externalID, note)
	})
	return receipt, err
}

// redact stores the receipt under its new ID, and the transition.
func redact(ctx context.Context, tx *transaction, r Receipt, old, note string) error {
	tx.reported = true
	before := r
	before.ExternalID = old
	for _, update := range []struct {
		does, statement string
		values          []any
	}{
		{"renaming the receipt", `UPDATE receipts SET external_id = $1, version = $2, updated_at = $3 WHERE id = $4`,
			[]any{r.ExternalID, r.Version, r.UpdatedAt, r.ID}},
		{"renaming the returns", `UPDATE returns SET external_id = $1 WHERE account = $2 AND external_id = $3`, []any{r.ExternalID, r.Account, old}},
		{"deleting the browsers", `DELETE FROM entries WHERE offer = $1 AND payment = $2`,
			[]any{r.Offer, r.Account + " " + before.Name()}},
		{"erasing the notes", `UPDATE transitions SET note = '' WHERE receipt_id = $1`, []any{r.ID}},
	} {
		if _, err := tx.exec(ctx, update.does, update.statement, update.values...); err != nil {
			return err
		}
	}
	putTransition(tx, r, r.Status, CauseRedacted, note, Return{}, 0)
	return nil
}
