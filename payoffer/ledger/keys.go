package ledger

import (
	"context"
	"maps"
	"slices"
)

// KeysError is returned by RememberKeys where the ledger remembers a key that is
// not among those given.
type KeysError struct {
	Name string // what the keys go by
}

func (e *KeysError) Error() string { return "the ledger was used with other keys of " + e.Name }

// RememberKeys keeps the ids of all keys that instances share, by the names that
// they go by: keys are added, and only ForgetKeys takes them away. Where the ledger
// remembers one of a name that is not among them they come from another storage than
// those of the other instances: a KeysError, and nothing is kept.
func (l *Ledger) RememberKeys(ctx context.Context, keys map[string][]string) error {
	return l.transact(ctx, func(ctx context.Context, tx *transaction) error {
		l.dialect.lock(tx, "keys") // two that start at once
		known, err := ask(ctx, tx, scanKey, `SELECT name, id FROM instance_keys ORDER BY name, id`)
		if err != nil {
			return err
		}
		remembered := make(map[storedKey]bool)
		for _, key := range known {
			remembered[key] = true
			if ids, asked := keys[key.name]; asked && !slices.Contains(ids, key.id) {
				return &KeysError{key.name}
			}
		}
		var fresh [][]any
		for _, name := range slices.Sorted(maps.Keys(keys)) {
			for _, id := range keys[name] {
				if !remembered[storedKey{name, id}] {
					fresh = append(fresh, []any{name, id})
				}
			}
		}
		if len(fresh) == 0 {
			return nil
		}
		_, err = tx.exec(ctx, "remembering the ids of keys", `
			INSERT INTO instance_keys (name, id, noted_at) SELECT value ->> 0, value ->> 1, CAST($2 AS bigint) FROM `+tx.dialect.rows(), inRows(fresh), l.now().Unix())
		return err
	})
}

// ForgetKeys takes away the ids of all keys, which were lost for good, and returns
// what they went by, each name once.
func (l *Ledger) ForgetKeys(ctx context.Context) (names []string, err error) {
	err = l.transact(ctx, func(ctx context.Context, tx *transaction) error {
		names, err = ask(ctx, tx, scanValue[string], `DELETE FROM instance_keys RETURNING name`)
		return err
	})
	slices.Sort(names)
	return slices.Compact(names), err
}

// storedKey is a key's id under the name that it goes by.
type storedKey struct{ name, id string }

func scanKey(row scanner) (key storedKey, err error) {
	err = row.Scan(&key.name, &key.id)
	return key, err
}
