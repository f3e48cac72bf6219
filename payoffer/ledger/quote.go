package ledger

import (
	"context"
	"errors"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/accounting"
)

// quoteDays is how long a quote is kept: a transaction of Bitcoin that nobody
// mined for two weeks is dropped by the nodes.
const quoteDays = 30

// NoteQuote keeps that satoshis were asked for usdCents, in US cents, at the
// Unix second at. Quotes that are 30 days old are forgotten.
func (l *Ledger) NoteQuote(ctx context.Context, offer string, satoshis, usdCents, at int64) error {
	if offer == "" || !accounting.Storable(offer) || satoshis <= 0 || usdCents < 0 {
		return errors.New("a quote needs an offer, satoshis above 0 and US cents from 0 on")
	}
	return l.transact(ctx, func(ctx context.Context, tx *transaction) error {
		_, err := tx.exec(ctx, "storing the quote", `
			INSERT INTO quotes (offer, satoshis, at, usd_cents) VALUES ($1, $2, $3, $4)
			ON CONFLICT (offer, satoshis, at) DO UPDATE SET usd_cents = excluded.usd_cents`, offer, satoshis, at, usdCents)
		if err != nil {
			return err
		}
		_, err = tx.exec(ctx, "forgetting quotes", `DELETE FROM quotes WHERE offer = $1 AND at < $2`,
			offer, l.now().Unix()-quoteDays*24*60*60)
		return err
	})
}

// Quote is an amount that was asked for, and its value in US cents.
type Quote struct{ Satoshis, USDCents int64 }

// Quoted returns, of the quotes that were given from since to until, in Unix
// seconds, the one with the most satoshis that are not more than these; the newest
// where it was given twice.
func (l *Ledger) Quoted(ctx context.Context, offer string, satoshis, since, until int64) (q Quote, found bool, err error) {
	// The sum keeps SQLite to the index over the time: an hour has few quotes.
	return first(collect(ctx, l, scanQuote, `
		SELECT satoshis, usd_cents FROM quotes WHERE offer = $1 AND satoshis + 0 <= $2 AND at BETWEEN $3 AND $4
		ORDER BY satoshis + 0 DESC, at DESC LIMIT 1`, offer, satoshis, since, until))
}

func scanQuote(row scanner) (q Quote, err error) {
	err = row.Scan(&q.Satoshis, &q.USDCents)
	return q, err
}
