package ledger

import (
	"context"
	"database/sql"
	"errors"
)

const byIntentKey = `network = $1 AND asset = $2 AND payer = $3 AND nonce = $4`

// Intent reads one intent.
func (l *Ledger) Intent(ctx context.Context, key IntentKey) (Intent, bool, error) {
	key = key.Canonical()
	return first(collect(ctx, l, scanIntent, `SELECT `+intentColumns+` FROM intents WHERE `+byIntentKey,
		key.Network, key.Asset, key.From, key.Nonce))
}

// OpenIntents lists up to limit intents of an offer whose outcome is unknown,
// oldest first: those with an ID above after.
func (l *Ledger) OpenIntents(ctx context.Context, offer string, after int64, limit int) ([]Intent, error) {
	return collect(ctx, l, scanIntent, `SELECT `+intentColumns+`
		FROM intents WHERE state = 'settling' AND offer = $1 AND id > $2 ORDER BY id LIMIT $3`, offer, after, limit)
}

// SettledUnproven lists up to limit intents of an offer that a facilitator says
// it settled and whose Transfer has not been recorded, oldest first: those with
// an ID above after.
func (l *Ledger) SettledUnproven(ctx context.Context, offer string, after int64, limit int) ([]Intent, error) {
	return collect(ctx, l, scanIntent, `SELECT `+intentColumns+`
		FROM intents WHERE state = 'settled' AND evidence = 'facilitator' AND offer = $1 AND id > $2
		ORDER BY id LIMIT $3`, offer, after, limit)
}

// intentOf reads an intent inside a transaction. Error: ErrNoIntent.
func intentOf(ctx context.Context, tx *transaction, where string, args ...any) (Intent, error) {
	i, err := scanIntent(tx.QueryRowContext(ctx, `SELECT `+intentColumns+` FROM intents WHERE `+where, args...))
	if errors.Is(err, sql.ErrNoRows) {
		return Intent{}, ErrNoIntent
	}
	return i, err
}

// intentByKey reads an intent that the transaction will change. Error:
// ErrNoIntent.
func intentByKey(ctx context.Context, tx *transaction, key IntentKey) (Intent, error) {
	return intentOf(ctx, tx, byIntentKey+tx.dialect.forUpdate(), key.Network, key.Asset, key.From, key.Nonce)
}
