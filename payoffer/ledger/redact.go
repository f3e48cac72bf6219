package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"regexp"
)

// ErrRedaction is returned for a receipt that does not exist or is not an operator's entry.
var ErrRedaction = errors.New("the ledger has no such entry of the operator")

// Redact replaces the external ID of an operator's entry in everything that is stored of
// it, notes and evidence included. Copies, delivered notifications and unused space of the
// database may still contain the old ID. Error: ErrRedaction.
func (l *Ledger) Redact(ctx context.Context, offer, account, externalID, replacement, note string) (receipt Receipt, err error) {
	err = l.transact(ctx, func(ctx context.Context, tx *transaction) error {
		var found bool
		receipt, found, err = first(ask(ctx, tx, scanReceipt, selectReceipts+`
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
		if receipt.Evidence != nil {
			receipt.Evidence = json.RawMessage(without(string(receipt.Evidence), inJSON(externalID), inJSON(replacement)))
		}
		return redact(ctx, tx, receipt, externalID, note)
	})
	return receipt, err
}

// redact stores the receipt under its new ID, and the transition.
func redact(ctx context.Context, tx *transaction, r Receipt, old, note string) error {
	tx.reported = true
	if _, err := tx.exec(ctx, "renaming the receipt", `
		UPDATE receipts SET external_id = $1, evidence = $2, version = $3, updated_at = $4 WHERE id = $5`,
		r.ExternalID, string(r.Evidence), r.Version, r.UpdatedAt, r.ID); err != nil {
		return err
	}
	if _, err := tx.exec(ctx, "renaming the returns", `
		UPDATE returns SET external_id = $1 WHERE account = $2 AND external_id = $3`, r.ExternalID, r.Account, old); err != nil {
		return err
	}
	type noted struct {
		version int64
		note    string
	}
	notes, err := ask(ctx, tx, func(row scanner) (n noted, err error) {
		err = row.Scan(&n.version, &n.note)
		return n, err
	}, `SELECT version, note FROM transitions WHERE receipt_id = $1 AND note <> ''`, r.ID)
	if err != nil {
		return err
	}
	for _, n := range notes {
		if clean := without(n.note, old, r.ExternalID); clean != n.note {
			if _, err := tx.exec(ctx, "redacting a note", `UPDATE transitions SET note = $1 WHERE receipt_id = $2 AND version = $3`, clean, r.ID, n.version); err != nil {
				return err
			}
		}
	}
	putTransition(tx, r, r.Status, CauseRedacted, without(note, old, r.ExternalID), Return{}, 0)
	return nil
}

// without replaces a text, in upper or lower case.
func without(text, old, replacement string) string {
	return regexp.MustCompile(`(?i)`+regexp.QuoteMeta(old)).ReplaceAllLiteralString(text, replacement)
}

func inJSON(text string) string {
	encoded, _ := json.Marshal(text) // no text fails
	return string(encoded)
}
