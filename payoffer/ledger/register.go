package ledger

import (
	"context"
	"database/sql"
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
	return l.write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if err := l.dialect.lock(ctx, tx, lock{accountsLock, ""}); err != nil {
			return err
		}
		all, err := accountTable.query(ctx, tx, `TRUE ORDER BY account`+l.dialect.forUpdate())
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
			if found && before.Offer != a.Offer {
				return fmt.Errorf("the account of %s of offer %q belongs to offer %q on the ledger %s. If its payments were only tests, stop the server and delete this ledger. "+
					"Otherwise give the offer the id %q, or a ledger or an account of its own",
					a.Rail, a.Offer, before.Offer, l.Name(), before.Offer)
			}
			if after := before.merge(a); after != before {
				stored[a.ID], changed[a.ID] = after, after
			}
		}
		return accountTable.upsert(ctx, tx, `offer, account`, slices.Collect(maps.Values(changed))...)
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

// Cursors reads the cursors of accounts by their IDs, in one query.
func (l *Ledger) Cursors(ctx context.Context, accounts ...string) (map[string]Cursor, error) {
	if len(accounts) == 0 {
		return nil, nil
	}
	found, err := cursorTable.read(ctx, l, `account IN `+placeholders(1, len(accounts)), anyOf(accounts)...)
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

func (k *KeysError) Error() string { return "the ledger was used with other keys of " + k.Name }

// RememberKeys adds the IDs of all keys that the instances share, by name. If the ledger
// knows another ID of a name, the keys are not from the storage of the other instances:
// then it stores nothing and returns a *KeysError.
func (l *Ledger) RememberKeys(ctx context.Context, keys map[string][]string) error {
	return l.write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if err := l.dialect.lock(ctx, tx, lock{keysLock, ""}); err != nil {
			return err
		}
		known, err := keyTable.query(ctx, tx, `TRUE ORDER BY name, id`)
		if err != nil {
			return err
		}
		for _, key := range known {
			if ids, asked := keys[key.name]; asked && !slices.Contains(ids, key.id) {
				return &KeysError{key.name}
			}
		}
		var all []storedKey
		for name, ids := range keys {
			for _, id := range ids {
				all = append(all, storedKey{name, id, l.now().Unix()})
			}
		}
		_, err = keyTable.insert(ctx, tx, ` ON CONFLICT (name, id) DO NOTHING`, all...)
		return err
	})
}

// ForgetKeys deletes the IDs of all keys, after they were lost, and returns their names.
func (l *Ledger) ForgetKeys(ctx context.Context) (names []string, err error) {
	err = l.write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		names, err = query(ctx, tx, scanValue[string], `DELETE FROM instance_keys RETURNING name`)
		return err
	})
	slices.Sort(names)
	return slices.Compact(names), err
}

type storedKey struct {
	name, id   string
	recordedAt int64
}

var keyTable = table[storedKey]{"instance_keys", func(k *storedKey) []column {
	return []column{{"name", &k.name}, {"id", &k.id}, {"recorded_at", &k.recordedAt}}
}}
