package ledger

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
)

type price struct {
	offer        string
	since, cents int64
}

var priceTable = table[price]{"prices", func(p *price) []column {
	return []column{{"offer", &p.offer}, {"since", &p.since}, {"usd_cents", &p.cents}}
}}

// StorePrices stores the prices that are in force since a Unix second, in US cents by the IDs of
// their offers, in one transaction. A price that is in force already is not stored again.
func (l *Ledger) StorePrices(ctx context.Context, since int64, prices map[string]int64) error {
	return l.write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		inForce, err := priceTable.query(ctx, tx, `
			since = (SELECT max(since) FROM prices p WHERE p.offer = prices.offer AND since <= $1)`, since)
		if err != nil {
			return fmt.Errorf("reading the prices: %w", err)
		}
		var changed []price
		for _, id := range slices.Sorted(maps.Keys(prices)) { // two instances lock them in one order
			if !slices.ContainsFunc(inForce, func(p price) bool { return p.offer == id && p.cents == prices[id] }) {
				changed = append(changed, price{id, since, prices[id]})
			}
		}
		return priceTable.upsert(ctx, tx, `offer, since`, changed...)
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
