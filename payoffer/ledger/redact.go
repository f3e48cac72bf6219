package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"regexp"
)

// ErrRedaction is returned for a receipt that is not there, or is not named by the
// operator.
var ErrRedaction = errors.New("no receipt whose name is the operator's to change")

// Redact gives an operator's entry another external id. The one that it had is taken out of everything that is kept of the
// receipt, the notes and the evidence included; its number, its amounts and all
// other facts stay. What holds the old id elsewhere is out of reach: a copy, a
// delivered announcement, and space that the database has let go of and not
// written over yet. Error: ErrRedaction.
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

// redact stores the receipt under its new id, and the transition that tells of it.
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
	_, err = tx.exec(ctx, "storing the transition", `
		INSERT INTO transitions (seq, receipt_id, offer, version, from_status, to_status, amount, refunded, usd_cents, cause, note, at, tag,
			asset, evidence_level, own, testnet, occurred_at)
		VALUES (`+tx.dialect.unnumbered()+`, $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)`,
		r.ID, r.Offer, r.Version, r.Status, r.Status, r.Amount, r.Refunded, r.USDCents,
		CauseRedacted, without(note, old, r.ExternalID), r.UpdatedAt, int64(rand.Uint64()),
		r.Asset, r.EvidenceLevel, r.Own, r.Testnet, r.OccurredAt)
	return err
}

// without replaces a text wherever it stands, in capitals or not.
func without(text, old, replacement string) string {
	return regexp.MustCompile(`(?i)`+regexp.QuoteMeta(old)).ReplaceAllLiteralString(text, replacement)
}

// inJSON is a text as a JSON string.
func inJSON(text string) string {
	encoded, _ := json.Marshal(text) // no text fails
	return string(encoded)
}
