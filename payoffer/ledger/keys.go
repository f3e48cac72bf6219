package ledger

import (
	"context"
	"errors"
	"slices"
)

// ErrKeys is returned by RememberKeys where the ledger remembers a key that is
// not among those given.
var ErrKeys = errors.New("another instance of this ledger has other keys")

// RememberKeys keeps the ids of all keys that go by a name, which instances share:
// keys are added and never taken away. Where the ledger remembers one that is not
// among them they come from another storage than those of the other instances:
// ErrKeys, and nothing is kept.
func (l *Ledger) RememberKeys(ctx context.Context, name string, ids ...string) error {
	return l.transact(ctx, func(tx *transaction) error {
		if err := l.dialect.orderHistory(ctx, tx.Tx); err != nil { // two that start at once
			return err
		}
		known, err := query(ctx, tx, scanValue[string], `SELECT id FROM instance_keys WHERE name = $1`, name)
		if err != nil {
			return err
		}
		for _, id := range known {
			if !slices.Contains(ids, id) {
				return ErrKeys
			}
		}
		for _, id := range ids {
			_, err := tx.exec(ctx, "remembering the id of a key", `
				INSERT INTO instance_keys (name, id, noted_at) VALUES ($1, $2, $3) ON CONFLICT (name, id) DO NOTHING`, name, id, l.now().Unix())
			if err != nil {
				return err
			}
		}
		return nil
	})
}
