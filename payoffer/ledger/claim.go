package ledger

import "context"

// Claims lists up to limit intents of an offer that only a facilitator or the operator
// reported as settled, with an ID above after, oldest first.
func (l *Ledger) Claims(ctx context.Context, offer string, after int64, limit int) ([]Intent, error) {
	return collect(ctx, l, scanIntent, selectIntents+`
		state = 'settled' AND evidence = 'facilitator' AND offer = $1 AND id > $2 ORDER BY id LIMIT $3`, offer, after, limit)
}
