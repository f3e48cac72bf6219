package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
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

// SetOrigin stores the origin of an account unless one is stored already, and
// returns the stored one. Error: errNotRegistered.
func (l *Ledger) SetOrigin(ctx context.Context, offer, account, origin string) (stored string, err error) {
	err = l.transact(ctx, func(ctx context.Context, tx *transaction) (err error) {
		var found bool
		stored, found, err = first(queryTx(ctx, tx, scanValue[string], `
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
	err = l.transact(ctx, func(ctx context.Context, tx *transaction) error {
		lowered = false
		a, err := accountOf(ctx, tx, offer, account)
		if err != nil {
			return err
		}
		before, err := strconv.ParseInt(a.Origin, 10, 64)
		if a.Origin != "" && (err != nil || before <= to) {
			return err
		}
		if _, err = tx.exec(ctx, "lowering the origin", `
			UPDATE accounts SET origin = $1 WHERE offer = $2 AND account = $3`, origin, offer, account); err != nil || a.Origin == "" {
			return err
		}
		lowered = true
		if _, err = tx.exec(ctx, "lowering the origin", `
			DELETE FROM cursors WHERE offer = $1 AND account = $2 AND position NOT LIKE '{%'`, offer, account); err != nil {
			return err
		}
		_, err = tx.exec(ctx, "lowering the origin", `UPDATE cursors SET anchor = '' WHERE offer = $1 AND account = $2`, offer, account)
		return err
	})
	return lowered, err
}

// Account reads a registered account. Error: errNotRegistered.
func (l *Ledger) Account(ctx context.Context, offer, account string) (Account, error) {
	a, found, err := first(collect(ctx, l, scanAccount, selectAccounts+` AND account = $2`, offer, account))
	if err == nil && !found {
		err = fmt.Errorf("offer %q, account %q: %w", offer, account, errNotRegistered)
	}
	return a, err
}

// Accounts returns all accounts that an offer ever had, removed ones too.
func (l *Ledger) Accounts(ctx context.Context, offer string) ([]Account, error) {
	return collect(ctx, l, scanAccount, selectAccounts+` ORDER BY account`, offer)
}

const selectAccounts = fromAccounts + `offer = $1`

const fromAccounts = `
	SELECT offer, account, rail, testnet, origin, since FROM accounts WHERE `

func scanAccount(row scanner) (a Account, err error) {
	err = row.Scan(&a.Offer, &a.ID, &a.Rail, &a.Testnet, &a.Origin, &a.Since)
	return a, err
}

// accountOf reads an account and locks it: its origin stays until the transaction ends.
func accountOf(ctx context.Context, tx *transaction, offer, id string) (Account, error) {
	a, found, err := first(queryTx(ctx, tx, scanAccount, selectAccounts+` AND account = $2`+tx.dialect.forUpdate(), offer, id))
	if err == nil && !found {
		err = fmt.Errorf("offer %q, account %q: %w", offer, id, errNotRegistered)
	}
	return a, err
}

// Offers returns the IDs of all offers that have receipts or x402 payments.
func (l *Ledger) Offers(ctx context.Context) ([]string, error) {
	return collect(ctx, l, scanValue[string],
		`SELECT offer FROM totals WHERE count > 0 UNION SELECT offer FROM currency_totals WHERE count > 0 ORDER BY offer`)
}

// Cursor is the position up to which an account was read.
type Cursor struct {
	Offer, Account string
	Position       string // the last position that was read, in the terms of the rail
	Anchor         string // identifies the position, such as a block's hash
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
	return first(collect(ctx, l, scanCursor, `
		SELECT offer, account, position, anchor, ok_at FROM cursors WHERE offer = $1 AND account = $2`,
		offer, account))
}

func scanCursor(row scanner) (c Cursor, err error) {
	err = row.Scan(&c.Offer, &c.Account, &c.Position, &c.Anchor, &c.OKAt)
	return c, err
}

func (c *Cursor) store(ctx context.Context, tx *transaction) error {
	a, err := accountOf(ctx, tx, c.Offer, c.Account)
	if err != nil || c.Origin != "" && c.Origin != a.Origin {
		return err
	}
	if c.ExpectedPosition != nil {
		stored, _, err := first(queryTx(ctx, tx, scanValue[string], `
			SELECT position FROM cursors WHERE offer = $1 AND account = $2`+tx.dialect.forUpdate(), c.Offer, c.Account))
		if err != nil || stored != *c.ExpectedPosition {
			return err
		}
	}
	_, err = tx.exec(ctx, "storing the cursor", `
		INSERT INTO cursors (account, offer, position, anchor, ok_at) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (account) DO UPDATE SET position = excluded.position, anchor = excluded.anchor, ok_at = excluded.ok_at`,
		c.Account, c.Offer, c.Position, c.Anchor, c.OKAt)
	return err
}

// AccountState is the reading state of an account.
type AccountState struct {
	Account          string
	Position, Anchor string // of its cursor, empty without one
	Open             bool   // it has receipts that are not final
}

// AccountStates returns the reading states of the accounts whose IDs begin with a prefix,
// except those at the given position without open receipts.
func (l *Ledger) AccountStates(ctx context.Context, prefix, position string) ([]AccountState, error) {
	return collect(ctx, l, func(row scanner) (s AccountState, err error) {
		err = row.Scan(&s.Account, &s.Position, &s.Anchor, &s.Open)
		return s, err
	}, `SELECT account, position, anchor, open FROM (
			SELECT a.account, coalesce(c.position, '') AS position, coalesce(c.anchor, '') AS anchor,
				EXISTS (SELECT 1 FROM receipts r WHERE r.offer = a.offer AND r.account = a.account AND NOT r.final) AS open
			FROM accounts a LEFT JOIN cursors c ON c.account = a.account
			WHERE substr(a.account, 1, length($1)) = $1) AS stored
		WHERE position <> $2 OR open`, prefix, position)
}

// moveAtOnce is the number of cursors that one statement moves.
const moveAtOnce = 100

// MoveCursors moves the cursors of accounts in one transaction, like Record with each. It
// does not use Offer and Account of the cursor. ExpectedPosition must be set. Accounts without a cursor
// get one if their origin is Origin.
func (l *Ledger) MoveCursors(ctx context.Context, to Cursor, accounts ...string) error {
	return l.transact(ctx, func(ctx context.Context, tx *transaction) error {
		for part := range slices.Chunk(accounts, moveAtOnce) {
			args := []any{to.Position, to.Anchor, to.OKAt, *to.ExpectedPosition}
			for n := range moveAtOnce {
				args = append(args, part[min(n, len(part)-1)])
			}
			text := moveCursors
			if *to.ExpectedPosition == "" {
				text, args[3] = setCursors+l.dialect.forUpdate()+` ON CONFLICT (account) DO NOTHING`, to.Origin
			}
			if _, err := tx.exec(ctx, "moving cursors", text, args...); err != nil {
				return err
			}
		}
		return nil
	})
}

var (
	moveCursors = `UPDATE cursors SET position = $1, anchor = $2, ok_at = $3 WHERE position = $4 AND account IN ` + placeholders(5, moveAtOnce)
	setCursors  = `INSERT INTO cursors (account, offer, position, anchor, ok_at) SELECT account, offer, $1, $2, $3 FROM accounts
		WHERE origin = $4 AND account IN ` + placeholders(5, moveAtOnce) + ` ORDER BY account`
)
