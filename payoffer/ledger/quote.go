package ledger

import (
	"context"
	"database/sql"
)

// quoteDays is how long a quote is kept. Nodes drop an unconfirmed transaction after 14.
const quoteDays = 30

// StoreQuote stores that satoshis were quoted for usdCents at a Unix second, and deletes
// quotes that are 30 days old.
func (l *Ledger) StoreQuote(ctx context.Context, offer string, satoshis, usdCents, at int64) error {
	return l.write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if err := quoteTable.upsert(ctx, tx, `offer, satoshis, at`, Quote{offer, satoshis, usdCents, at}); err != nil {
			return err
		}
		_, err := execute(ctx, tx, "deleting old quotes", `DELETE FROM quotes WHERE offer = $1 AND at < $2`,
			offer, l.now().Unix()-quoteDays*24*60*60)
		return err
	})
}

// Quote is a quoted amount and its value.
type Quote struct {
	Offer              string
	Satoshis, USDCents int64
	At                 int64 // when it was quoted, in Unix seconds
}

var quoteTable = table[Quote]{"quotes", func(q *Quote) []column {
	return []column{{"offer", &q.Offer}, {"satoshis", &q.Satoshis}, {"usd_cents", &q.USDCents}, {"at", &q.At}}
}}

// Quoted returns the largest quote of at most the satoshis that was given between two Unix
// seconds, or else the smallest one of which they lack at most one percent, an exchange's fee,
// and the newest of equal ones.
func (l *Ledger) Quoted(ctx context.Context, offer string, satoshis, since, until int64) (q Quote, found bool, err error) {
	// + 0 makes SQLite use the index of the time: an hour has few quotes.
	return atMostOne(quoteTable.read(ctx, l, `offer = $1 AND satoshis + 0 <= $5 AND at BETWEEN $3 AND $4
		ORDER BY satoshis > $2, abs(satoshis - $2), at DESC LIMIT 1`, offer, satoshis, since, until, satoshis+satoshis/99))
}
