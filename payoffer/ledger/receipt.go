package ledger

import (
	"context"
	"encoding/json"
	"math"
)

const receiptColumns = `id, offer, account, rail, external_id, tx, via, asset, amount, refunded, usd_cents,
	refunded_cents, status, state, final, evidence_level, evidence, payer, own, testnet, intent_id, version, revision,
	occurred_at, observed_at, updated_at`

func scanReceipt(row scanner) (r Receipt, err error) {
	var evidence string
	err = row.Scan(&r.ID, &r.Offer, &r.Account, &r.Rail, &r.ExternalID, &r.Transaction, &r.Via, &r.Asset, &r.Amount,
		&r.Refunded, &r.USDCents, &r.RefundedCents, &r.Status, &r.State, &r.Final, &r.EvidenceLevel,
		&evidence, &r.Payer, &r.Own, &r.Testnet, &r.IntentID, &r.Version, &r.Revision, &r.OccurredAt, &r.ObservedAt,
		&r.UpdatedAt)
	if evidence != "" {
		r.Evidence = json.RawMessage(evidence)
	}
	return r, err
}

// Receipt reads one receipt of an offer; false when there is none.
func (l *Ledger) Receipt(ctx context.Context, offer, account, externalID string) (Receipt, bool, error) {
	return first(collect(ctx, l, scanReceipt, `SELECT `+receiptColumns+`
		FROM receipts WHERE offer = $1 AND account = $2 AND external_id = $3`, offer, account, externalID))
}

// Receipts lists up to limit receipts of an offer, newest first: those with
// an ID below before, or from the newest when before is 0.
func (l *Ledger) Receipts(ctx context.Context, offer string, before int64, limit int) ([]Receipt, error) {
	if before == 0 {
		before = math.MaxInt64
	}
	return collect(ctx, l, scanReceipt, `SELECT `+receiptColumns+`
		FROM receipts WHERE offer = $1 AND id < $2 ORDER BY id DESC LIMIT $3`, offer, before, limit)
}

// Unfinal lists up to limit receipts of an account that the chain may still
// change, oldest first.
func (l *Ledger) Unfinal(ctx context.Context, offer, account string, limit int) ([]Receipt, error) {
	return collect(ctx, l, scanReceipt, `SELECT `+receiptColumns+`
		FROM receipts WHERE offer = $1 AND account = $2 AND NOT final ORDER BY id LIMIT $3`, offer, account, limit)
}

// Asserted lists up to limit receipts of an account that rest on unsigned words
// and are not dropped, oldest first: those with an ID above after.
func (l *Ledger) Asserted(ctx context.Context, offer, account string, after int64, limit int) ([]Receipt, error) {
	return collect(ctx, l, scanReceipt, `SELECT `+receiptColumns+`
		FROM receipts
		WHERE evidence_level = 'asserted' AND state <> 'dropped' AND offer = $1 AND account = $2 AND id > $3
		ORDER BY id LIMIT $4`, offer, account, after, limit)
}
