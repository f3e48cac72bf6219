package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Account is where the money of one rail of an offer arrives.
type Account struct {
	Offer   string // the offer's ID
	ID      string // canonical, such as "eip155:84532/erc20:0x036c…/0x…" (CAIP-19 asset and payee)
	Rail    string // the rail's name
	Testnet bool   // money here is worth nothing
	Since   int64  // when it was first watched, in Unix seconds of this machine; 0 if unknown
	// Origin is the position on the rail at Since, before which no money is counted: a
	// block or a Unix second in decimal digits, or empty if unknown.
	Origin string
}

// errNotRegistered is returned for an account that is not registered for the offer.
var errNotRegistered = errors.New("the ledger has no such account of this offer; restart the server to register it")

func notRegistered(offer, account string) error {
	return fmt.Errorf("offer %q, account %q: %w", offer, account, errNotRegistered)
}

// SetOrigin stores the origin of an account unless one is stored already, and
// returns the stored one. Error: errNotRegistered.
func (l *Ledger) SetOrigin(ctx context.Context, offer, account, origin string) (stored string, err error) {
	err = l.write(ctx, func(ctx context.Context, tx *sql.Tx) (err error) {
		var found bool
		stored, found, err = atMostOne(query(ctx, tx, scanValue[string], `
			UPDATE accounts SET origin = CASE WHEN origin = '' THEN $1 ELSE origin END
			WHERE offer = $2 AND account = $3 RETURNING origin`, origin, offer, account))
		if err == nil && !found {
			return errNotRegistered
		}
		return err
	})
	return stored, err
}

// LowerOrigin moves the origin of an account to an earlier position, in decimal digits, or
// sets it, and reports whether it was later before. It then deletes the cursor, so that the
// account is read again from there; rows stay. A position in JSON also says which address is
// published: it stays, without its anchor. Error: errNotRegistered.
func (l *Ledger) LowerOrigin(ctx context.Context, offer, account, origin string) (lowered bool, err error) {
	to, err := strconv.ParseInt(origin, 10, 64)
	if err != nil || to < 0 {
		return false, fmt.Errorf("the stored position %q is not a number; restore a backup of the ledger", origin)
	}
	err = l.write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		lowered = false
		a, err := accountOf(ctx, tx, offer, account, l.dialect.forUpdate())
		if err != nil {
			return err
		}
		before, err := strconv.ParseInt(a.Origin, 10, 64)
		if a.Origin != "" && (err != nil || before <= to) {
			return err
		}
		lowered, a.Origin = a.Origin != "", origin
		err = accountTable.upsert(ctx, tx, `offer, account`, a)
		for _, text := range []string{`DELETE FROM cursors WHERE position NOT LIKE '{%'`, `UPDATE cursors SET anchor = '' WHERE TRUE`} {
			if err == nil && lowered {
				_, err = execute(ctx, tx, "lowering the origin", text+` AND `+oneAccount, offer, account)
			}
		}
		return err
	})
	return lowered, err
}

// Account reads a registered account. Error: errNotRegistered.
func (l *Ledger) Account(ctx context.Context, offer, account string) (a Account, err error) {
	err = l.whileReading(ctx, func(ctx context.Context, read *sql.DB) error {
		a, err = accountOf(ctx, read, offer, account, "")
		return err
	})
	return a, err
}

// Accounts returns all accounts that an offer ever had, removed ones too.
func (l *Ledger) Accounts(ctx context.Context, offer string) ([]Account, error) {
	return accountTable.read(ctx, l, `offer = $1 ORDER BY account`, offer)
}

var accountTable = table[Account]{"accounts", func(a *Account) []column {
	return []column{
		{"offer", &a.Offer}, {"account", &a.ID}, {"rail", &a.Rail},
		{"testnet", &a.Testnet}, {"origin", &a.Origin}, {"since", &a.Since},
	}
}}

const oneAccount = `offer = $1 AND account = $2`

// accountOf reads an account. With forUpdate its origin stays until the transaction ends. Error: errNotRegistered.
func accountOf(ctx context.Context, from queryer, offer, id, forUpdate string) (Account, error) {
	a, found, err := atMostOne(accountTable.query(ctx, from, oneAccount+forUpdate, offer, id))
	if err == nil && !found {
		err = notRegistered(offer, id)
	}
	return a, err
}

// Offers returns the IDs of all offers that have receipts or x402 payments.
func (l *Ledger) Offers(ctx context.Context) ([]string, error) {
	return collect(ctx, l, scanValue[string],
		`SELECT offer FROM totals WHERE count > 0 UNION SELECT offer FROM intents WHERE state = 'settling' ORDER BY offer`)
}

// Cursor is the position up to which an account was read.
type Cursor struct {
	Offer, Account string
	Position       string // the last position that was read, in the terms of the rail
	Anchor         string // identifies the position, such as a block's hash
	Witnessed      string // the last position that a second source has read too; empty for none
	// Origin is the account's origin that the reading began with. If another one is stored
	// now, the cursor stays: the origin was lowered meanwhile. Empty means any.
	Origin string
	// ExpectedPosition is the Position before the reading, or empty. If another one is stored now, the
	// cursor stays: another instance moved it. nil means any.
	ExpectedPosition *string
	OKAt             int64 // when the source last answered, in Unix seconds; 0 for never
}

// Cursor reads the cursor of an account.
func (l *Ledger) Cursor(ctx context.Context, offer, account string) (Cursor, bool, error) {
	return atMostOne(cursorTable.read(ctx, l, oneAccount, offer, account))
}

var cursorTable = table[Cursor]{"cursors", func(c *Cursor) []column {
	return []column{
		{"offer", &c.Offer}, {"account", &c.Account}, {"position", &c.Position}, {"anchor", &c.Anchor},
		{"witnessed", &c.Witnessed}, {"ok_at", &c.OKAt},
	}
}}

// storeCursor stores a cursor unless it was moved, or the origin was lowered, meanwhile.
func (l *Ledger) storeCursor(ctx context.Context, tx *sql.Tx, c *Cursor) error {
	a, err := accountOf(ctx, tx, c.Offer, c.Account, l.dialect.forUpdate())
	if err != nil || c.Origin != "" && c.Origin != a.Origin {
		return err
	}
	if c.ExpectedPosition != nil {
		stored, _, err := atMostOne(cursorTable.query(ctx, tx, oneAccount+l.dialect.forUpdate(), c.Offer, c.Account))
		if err != nil || stored.Position != *c.ExpectedPosition {
			return err
		}
	}
	return cursorTable.upsert(ctx, tx, `account`, *c)
}

// AccountState is the reading state of an account.
type AccountState struct {
	Account
	Cursor Cursor // only its Position, Anchor and Witnessed, which are empty without one
	Open   bool   // it has receipts that are not final
}

// AccountStates returns the reading states of the accounts whose IDs begin with a prefix.
func (l *Ledger) AccountStates(ctx context.Context, prefix string) ([]AccountState, error) {
	return collect(ctx, l, func(row scanner) (s AccountState, err error) {
		c := &s.Cursor
		err = row.Scan(&s.Offer, &s.ID, &s.Rail, &s.Testnet, &s.Origin, &s.Since, &c.Position, &c.Anchor, &c.Witnessed, &s.Open)
		return s, err
	}, `SELECT a.offer, a.account, a.rail, a.testnet, a.origin, a.since,
			coalesce(c.position, ''), coalesce(c.anchor, ''), coalesce(c.witnessed, ''),
			EXISTS (SELECT 1 FROM receipts r WHERE r.offer = a.offer AND r.account = a.account AND NOT r.final)
		FROM accounts a LEFT JOIN cursors c ON c.account = a.account
		WHERE substr(a.account, 1, length($1)) = $1`, prefix)
}

// MoveCursors moves the cursors of several accounts in one transaction, like Record with each. Two
// instances lock them in one order.
func (l *Ledger) MoveCursors(ctx context.Context, cursors ...Cursor) error {
	inOrder := slices.SortedFunc(slices.Values(cursors), func(a, b Cursor) int { return strings.Compare(a.Account, b.Account) })
	return l.write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		for _, c := range inOrder {
			if err := l.storeCursor(ctx, tx, &c); err != nil {
				return err
			}
		}
		return nil
	})
}

func anyOf(values []string) []any {
	all := make([]any, len(values))
	for n, value := range values {
		all[n] = value
	}
	return all
}
