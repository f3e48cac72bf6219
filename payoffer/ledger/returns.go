package ledger

import "context"

// Returns lists what is known of the returns of one payment: the latest word on
// each, in the order of their times.
func (l *Ledger) Returns(ctx context.Context, offer, account, externalID string) ([]Return, error) {
	return collect(ctx, l, func(row scanner) (r Return, err error) {
		err = row.Scan(&r.ID, &r.Kind, &r.Amount, &r.Currency, &r.Gone, &r.At, &r.Rank)
		return r, err
	}, `
		SELECT return_id, kind, amount, currency, gone, at, rank FROM returns
		WHERE offer = $1 AND account = $2 AND external_id = $3 ORDER BY at, return_id`, offer, account, externalID)
}

// PaidBy lists up to limit receipts of money that a payer sent to an account, that
// arrived, and that is not all gone back: the newest first.
func (l *Ledger) PaidBy(ctx context.Context, offer, account, payer string, limit int) ([]Receipt, error) {
	return collect(ctx, l, scanReceipt, selectReceipts+`
		offer = $1 AND account = $2 AND payer = $3 AND payer <> '' AND status = 'confirmed' ORDER BY id DESC LIMIT $4`,
		offer, account, payer, limit)
}
