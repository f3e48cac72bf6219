package ledger

import "context"

// Outgoing is a transfer that left an account. It may be a refund, which only
// the operator knows.
type Outgoing struct {
	// Offer and Account are where it left, and ExternalID names the movement as
	// those of receipts are named.
	Offer, Account, ExternalID string
	// Transaction is the chain's, and To the payee's address, as Payer of
	// receipts is written.
	Transaction, To string
	// Asset names the unit, and Amount counts it in atomic units.
	Asset      string
	Amount     int64
	OccurredAt int64 // in Unix seconds
}

// NoteOutgoing keeps transfers. The same again changes nothing.
func (l *Ledger) NoteOutgoing(ctx context.Context, transfers ...Outgoing) error {
	return l.transact(ctx, func(ctx context.Context, tx *transaction) error {
		for _, o := range transfers {
			_, err := tx.exec(ctx, "keeping an outgoing transfer", `
				INSERT INTO outgoing (account, external_id, offer, tx, payee, asset, amount, occurred_at, noted_at)
				VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
				ON CONFLICT (account, external_id) DO NOTHING`,
				o.Account, o.ExternalID, o.Offer, o.Transaction, o.To, o.Asset, o.Amount, o.OccurredAt, l.now().Unix())
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// RefundedBy is the id of the return that a transaction of the operator's is.
func RefundedBy(transaction string) string { return "transaction:" + transaction }

// Sent is what the account sent in a transaction, and what of that is booked as
// refunds, both in atomic units; 0 for what is not known.
func (l *Ledger) Sent(ctx context.Context, offer, account, transaction string) (sent, booked int64, err error) {
	_, _, err = first(collect(ctx, l, func(row scanner) (any, error) { return nil, row.Scan(&sent, &booked) }, `
		SELECT coalesce((SELECT CAST(sum(amount) AS BIGINT) FROM outgoing WHERE offer = $1 AND account = $2 AND tx = $3), 0),
			coalesce((SELECT CAST(sum(amount) AS BIGINT) FROM returns WHERE offer = $1 AND account = $2 AND return_id = $4 AND gone), 0)`,
		offer, account, transaction, RefundedBy(transaction)))
	return sent, booked, err
}

// RefundCandidates lists up to limit outgoing transfers to somebody who had paid
// to the same account before, whichever of the two was read first, with what of
// their Amount no refund of the payee names yet; newest first.
func (l *Ledger) RefundCandidates(ctx context.Context, offer string, limit int) ([]Outgoing, error) {
	return collect(ctx, l, func(row scanner) (o Outgoing, err error) {
		err = row.Scan(&o.Offer, &o.Account, &o.ExternalID, &o.Transaction, &o.To, &o.Asset, &o.Amount, &o.OccurredAt)
		return o, err
	}, `
		SELECT offer, account, external_id, tx, payee, asset, amount - booked, occurred_at FROM (
			SELECT o.*, CAST(coalesce((SELECT sum(w.amount) FROM returns w JOIN receipts r ON r.id = w.receipt_id
				WHERE w.account = o.account AND w.return_id = '`+RefundedBy("")+`' || o.tx AND w.gone AND r.payer = o.payee), 0) AS BIGINT) AS booked
			FROM outgoing o WHERE offer = $1 AND EXISTS (SELECT 1 FROM receipts r
				WHERE r.account = o.account AND r.payer = o.payee AND r.payer <> '' AND r.occurred_at <= o.occurred_at)) AS sent
		WHERE amount > booked ORDER BY noted_at DESC, external_id LIMIT $2`, offer, limit)
}
