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

// RefundedBy is the id of the return that a transaction of the operator's is.
func RefundedBy(transaction string) string { return "transaction:" + transaction }
