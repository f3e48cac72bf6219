package ledger

import (
	"context"
	"maps"
	"slices"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// StorePrices stores the prices that are in force since a Unix second, in US cents by the IDs of
// their offers, in one statement. A price that is in force already is not stored again.
func (l *Ledger) StorePrices(ctx context.Context, since int64, prices map[string]int64) error {
	var rows [][]any
	for _, id := range slices.Sorted(maps.Keys(prices)) { // two instances lock them in one order
		rows = append(rows, []any{id, prices[id]})
	}
	return l.transact(ctx, func(ctx context.Context, tx *transaction) error {
		tx.queue("storing prices", `
			INSERT INTO prices (offer, since, usd_cents)
			SELECT value ->> 0, CAST($2 AS bigint), CAST(value ->> 1 AS bigint) FROM `+tx.dialect.rows()+`
			WHERE CAST(value ->> 1 AS bigint) IS DISTINCT FROM (
				SELECT usd_cents FROM prices WHERE offer = value ->> 0 AND since <= $2 ORDER BY since DESC LIMIT 1)
			ON CONFLICT (offer, since) DO UPDATE SET usd_cents = excluded.usd_cents`, string(offer.JSON(rows)), since)
		return nil
	})
}

// Prices returns the prices of an offer that were in force at some moment between two Unix
// seconds, in US cents, the highest first. Before the first one was stored, the first one was.
func (l *Ledger) Prices(ctx context.Context, offer string, since, until int64) ([]int64, error) {
	return collect(ctx, l, scanValue[int64], `
		SELECT DISTINCT usd_cents FROM prices WHERE offer = $1
			AND since >= coalesce((SELECT max(since) FROM prices WHERE offer = $1 AND since <= $2), 0)
			AND (since <= $3 OR since = (SELECT min(since) FROM prices WHERE offer = $1))
		ORDER BY usd_cents DESC`, offer, since, until)
}
