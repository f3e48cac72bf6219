package ledger

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// TakenError is returned by Register for accounts that belong to other offers than
// those that ask for them.
type TakenError struct {
	Taken []Account // as they were asked for
	// owner is the offer that the first of them belongs to.
	owner string
}

func (e *TakenError) Error() string {
	a := e.Taken[0]
	return fmt.Sprintf("the account of %s of offer %q belongs to offer %q on this ledger; give the offer the id %q, or a ledger or an account of its own",
		a.Rail, a.Offer, e.owner, e.owner)
}

// Register stores accounts in one transaction, in two statements however many they
// are. Since and Origin stay as they were stored first; the rail's name and Testnet
// follow the configuration. Nothing is stored where one belongs to another offer.
// Errors: *TakenError, errDemo, errReal.
func (l *Ledger) Register(ctx context.Context, accounts ...Account) error {
	for _, a := range accounts {
		if a.Offer == "" || a.ID == "" || a.Rail == "" {
			return errors.New("an account needs an offer, an id and a rail")
		}
	}
	return l.transact(ctx, func(ctx context.Context, tx *transaction) error {
		stored, err := ask(ctx, tx, scanAccount, `SELECT offer, account, rail, testnet, origin, since FROM accounts`)
		if err != nil {
			return fmt.Errorf("reading the accounts: %w", err)
		}
		known := make(map[string]Account, len(stored))
		for _, a := range stored {
			known[a.ID] = a
		}
		if err := setApart(known, accounts); err != nil {
			return err
		}
		changed := make(map[string]Account)
		for _, a := range accounts {
			before, found := known[a.ID]
			if after := before.registered(a); !found || after != before {
				changed[a.ID], known[a.ID] = after, after
			}
		}
		if err := taken(known, accounts); err != nil || len(changed) == 0 {
			return err
		}
		return storeAccounts(ctx, tx, changed)
	})
}

// registered is an account, which may be none yet, after it was registered as next.
func (a Account) registered(next Account) Account {
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

// taken refuses accounts of other offers.
func taken(known map[string]Account, accounts []Account) error {
	var refused TakenError
	for _, a := range accounts {
		if owner := known[a.ID].Offer; owner != a.Offer {
			if refused.owner == "" {
				refused.owner = owner
			}
			refused.Taken = append(refused.Taken, a)
		}
	}
	if len(refused.Taken) > 0 {
		return &refused
	}
	return nil
}

// storeAccounts stores what was found to be new or changed, by their ids. What another
// instance has stored meanwhile goes before.
func storeAccounts(ctx context.Context, tx *transaction, changed map[string]Account) error {
	var accounts []Account
	var rows [][]any
	for _, id := range slices.Sorted(maps.Keys(changed)) { // two instances lock them in one order
		a := changed[id]
		accounts, rows = append(accounts, a), append(rows, []any{a.ID, a.Offer, a.Rail, a.Testnet, a.Origin, a.Since})
	}
	stored, err := ask(ctx, tx, scanAccount, `
		INSERT INTO accounts (account, offer, rail, testnet, origin, since)
		SELECT value ->> 0, value ->> 1, value ->> 2, CAST(value ->> 3 AS boolean), value ->> 4, CAST(value ->> 5 AS bigint)
		FROM `+tx.dialect.rows()+` WHERE true
		ON CONFLICT (account) DO UPDATE SET
			rail = excluded.rail,
			testnet = excluded.testnet,
			origin = CASE WHEN accounts.origin = '' THEN excluded.origin ELSE accounts.origin END,
			since = CASE WHEN accounts.since = 0 AND accounts.origin = '' THEN excluded.since ELSE accounts.since END
		RETURNING offer, account, rail, testnet, origin, since`, inRows(rows))
	if err != nil {
		return fmt.Errorf("registering accounts: %w", err)
	}
	known := make(map[string]Account, len(stored))
	for _, a := range stored {
		known[a.ID] = a
	}
	return taken(known, accounts)
}

// Cursors reads the cursors of accounts, by their ids, in one statement. An account
// that was never read has none.
func (l *Ledger) Cursors(ctx context.Context, accounts ...string) (map[string]Cursor, error) {
	var rows [][]any
	for _, id := range accounts {
		rows = append(rows, []any{id})
	}
	found, err := collect(ctx, l, scanCursor, `
		SELECT offer, account, position, anchor, ok_at FROM cursors
		WHERE account IN (SELECT value ->> 0 FROM `+l.dialect.rows()+`)`, inRows(rows))
	cursors := make(map[string]Cursor, len(found))
	for _, c := range found {
		cursors[c.Account] = c
	}
	return cursors, err
}
