package ledger

import (
	"context"
	"fmt"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/book"
)

const (
	// unmetDays is how long returns wait for their payment: longer than the 30
	// days for which a provider lists what a webhook missed. Most never meet
	// it, for they are those of the account's other products.
	unmetDays = 35
	// unmetBatch bounds how many are forgotten when another one is kept.
	unmetBatch = 20
)

// returns reads what is known of the returns of a payment.
func (r *recorder) returns(ctx context.Context, account, externalID string) (known book.Words, err error) {
	words, err := query(ctx, r.tx, scanWord, `
		SELECT return_id, kind, amount, gone, proven, at, rank FROM returns
		WHERE account = $1 AND external_id = $2`, account, externalID)
	if err != nil {
		return nil, fmt.Errorf("reading the returns: %w", err)
	}
	known = book.Words{}
	for _, w := range words {
		known[w.ID] = w
	}
	return known, nil
}

func scanWord(row scanner) (w book.Word, err error) {
	err = row.Scan(&w.ID, &w.Kind, &w.Amount, &w.Gone, &w.Proven, &w.At, &w.Rank)
	return w, err
}

// storeReturns stores the words of told that are not known; receipt is nil while
// the payment is not there.
func (r *recorder) storeReturns(ctx context.Context, s Sighting, receipt *int64, known, told book.Words) error {
	for _, w := range told {
		if w == known[w.ID] {
			continue
		}
		_, err := r.tx.exec(ctx, fmt.Sprintf("storing return %q", w.ID), `
			INSERT INTO returns (offer, account, external_id, return_id, receipt_id, kind, amount, gone, proven, at, rank,
				noted_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
			ON CONFLICT (account, external_id, return_id) DO UPDATE SET receipt_id = excluded.receipt_id,
				kind = excluded.kind, amount = excluded.amount, gone = excluded.gone, proven = excluded.proven,
				at = excluded.at, rank = excluded.rank, noted_at = excluded.noted_at`,
			s.Offer, s.Account, s.ExternalID, w.ID, receipt, w.Kind, w.Amount, w.Gone, w.Proven, w.At, w.Rank, r.now)
		if err != nil {
			return err
		}
	}
	return nil
}

// forget removes some returns that have waited too long for their payment.
func (r *recorder) forget(ctx context.Context, account string) error {
	_, err := r.tx.exec(ctx, "forgetting returns", `
		DELETE FROM returns WHERE (account, external_id, return_id) IN (
			SELECT account, external_id, return_id FROM returns
			WHERE receipt_id IS NULL AND account = $1 AND noted_at < $2 ORDER BY noted_at LIMIT $3)`,
		account, r.now-unmetDays*24*60*60, unmetBatch)
	return err
}
