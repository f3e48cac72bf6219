package ledger

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// Register stores accounts in one transaction. Since and Origin stay as they were stored
// first; the rail's name and Testnet follow the configuration. It fails if an account
// belongs to another offer, or if real offers and a demo would share the ledger.
func (l *Ledger) Register(ctx context.Context, accounts ...Account) error {
	for _, a := range accounts {
		if a.Offer == "" || a.ID == "" || a.Rail == "" {
			return errors.New("the account lacks an offer, an id or a rail; report this as a bug")
		}
	}
	return l.transact(ctx, func(ctx context.Context, tx *transaction) error {
		all, err := queryTx(ctx, tx, scanAccount, `SELECT offer, account, rail, testnet, origin, since FROM accounts`)
		if err != nil {
			return fmt.Errorf("reading the accounts: %w", err)
		}
		stored := make(map[string]Account, len(all))
		for _, a := range all {
			stored[a.ID] = a
		}
		if err := requireKind(stored, accounts); err != nil {
			return err
		}
		changed := make(map[string]Account)
		for _, a := range accounts {
			before, found := stored[a.ID]
			if after := before.merge(a); !found || after != before {
				changed[a.ID], stored[a.ID] = after, after
			}
		}
		if err := requireOwner(stored, accounts); err != nil || len(changed) == 0 {
			return err
		}
		return storeAccounts(ctx, tx, changed)
	})
}

// merge returns a stored account (the zero Account for a new one) after next is registered.
func (a Account) merge(next Account) Account {
	if a.ID == "" {
		return next
	}
	if a.Since == 0 && a.Origin == "" {
		a.Since = next.Since
	}
	if a.Origin == "" {
		a.Origin = next.Origin
	}
	a.Rail, a.Testnet = next.Rail, next.Testnet
	return a
}

func requireOwner(stored map[string]Account, accounts []Account) error {
	for _, a := range accounts {
		if owner := stored[a.ID].Offer; owner != a.Offer {
			return fmt.Errorf("the account of %s of offer %q belongs to offer %q on this ledger; give the offer the id %q, or a ledger or an account of its own",
				a.Rail, a.Offer, owner, owner)
		}
	}
	return nil
}

// storeAccounts stores new and changed accounts, by their IDs. Values that another
// instance has stored meanwhile stay.
func storeAccounts(ctx context.Context, tx *transaction, changed map[string]Account) error {
	var accounts []Account
	var rows [][]any
	for _, id := range slices.Sorted(maps.Keys(changed)) { // two instances lock them in one order
		a := changed[id]
		accounts, rows = append(accounts, a), append(rows, []any{a.ID, a.Offer, a.Rail, a.Testnet, a.Origin, a.Since})
	}
	all, err := queryTx(ctx, tx, scanAccount, `
		INSERT INTO accounts (account, offer, rail, testnet, origin, since)
		SELECT value ->> 0, value ->> 1, value ->> 2, CAST(value ->> 3 AS boolean), value ->> 4, CAST(value ->> 5 AS bigint)
		FROM `+tx.dialect.rows()+` WHERE true
		ON CONFLICT (account) DO UPDATE SET
			rail = excluded.rail,
			testnet = excluded.testnet,
			origin = CASE WHEN accounts.origin = '' THEN excluded.origin ELSE accounts.origin END,
			since = CASE WHEN accounts.since = 0 AND accounts.origin = '' THEN excluded.since ELSE accounts.since END
		RETURNING offer, account, rail, testnet, origin, since`, string(offer.JSON(rows)))
	if err != nil {
		return fmt.Errorf("registering accounts: %w", err)
	}
	stored := make(map[string]Account, len(all))
	for _, a := range all {
		stored[a.ID] = a
	}
	return requireOwner(stored, accounts)
}

// Cursors reads the cursors of accounts by their IDs, in one query.
func (l *Ledger) Cursors(ctx context.Context, accounts ...string) (map[string]Cursor, error) {
	var rows [][]any
	for _, id := range accounts {
		rows = append(rows, []any{id})
	}
	found, err := collect(ctx, l, scanCursor, `
		SELECT offer, account, position, anchor, ok_at FROM cursors
		WHERE account IN (SELECT value ->> 0 FROM `+l.dialect.rows()+`)`, string(offer.JSON(rows)))
	cursors := make(map[string]Cursor, len(found))
	for _, c := range found {
		cursors[c.Account] = c
	}
	return cursors, err
}

var (
	errDemo = errors.New("the ledger contains the simulated payments of a demo; name another ledger for offers that take money")
	errReal = errors.New("the ledger contains payments of real offers, and a demo needs a ledger of its own; name another one")
)

// requireKind rejects real offers on the ledger of a demo, and the reverse. The account of a
// demo's checkout marks its ledger and all copies.
func requireKind(known map[string]Account, accounts []Account) error {
	demo := slices.ContainsFunc(accounts, func(a Account) bool { return a.ID == offer.DemoAccount })
	switch _, marked := known[offer.DemoAccount]; {
	case len(known) == 0 || marked == demo:
		return nil
	case marked:
		return errDemo
	default:
		return errReal
	}
}

// KeysError is returned by RememberKeys if the ledger knows a key that is not among those
// given.
type KeysError struct{ Name string }

func (e *KeysError) Error() string { return "the ledger was used with other keys of " + e.Name }

// RememberKeys adds the IDs of all keys that the instances share, by name. If the ledger
// knows another ID of a name, the keys are not from the storage of the other instances:
// then it stores nothing and returns a *KeysError.
func (l *Ledger) RememberKeys(ctx context.Context, keys map[string][]string) error {
	return l.transact(ctx, func(ctx context.Context, tx *transaction) error {
		l.dialect.lock(tx, "keys")
		known, err := queryTx(ctx, tx, scanKey, `SELECT name, id FROM instance_keys ORDER BY name, id`)
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
		_, err = tx.exec(ctx, "storing the ids of keys", `
			INSERT INTO instance_keys (name, id, recorded_at) SELECT value ->> 0, value ->> 1, CAST($2 AS bigint) FROM `+tx.dialect.rows(), string(offer.JSON(fresh)), l.now().Unix())
		return err
	})
}

// ForgetKeys deletes the IDs of all keys, after they were lost, and returns their names.
func (l *Ledger) ForgetKeys(ctx context.Context) (names []string, err error) {
	err = l.transact(ctx, func(ctx context.Context, tx *transaction) error {
		names, err = queryTx(ctx, tx, scanValue[string], `DELETE FROM instance_keys RETURNING name`)
		return err
	})
	slices.Sort(names)
	return slices.Compact(names), err
}

type storedKey struct{ name, id string }

func scanKey(row scanner) (key storedKey, err error) {
	err = row.Scan(&key.name, &key.id)
	return key, err
}
