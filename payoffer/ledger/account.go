package ledger

import (
	"context"
	"errors"
	"fmt"
	"strconv"
)

// Account is where the money of one rail of an offer arrives.
type Account struct {
	// Offer is the offer's id.
	Offer string
	// ID names the account on its rail in canonical form, as in
	// "eip155:84532/erc20:0x036c…/0x…" (CAIP-19 asset and payee).
	ID string
	// Rail is the rail's name.
	Rail string
	// Testnet says that money here is worth nothing.
	Testnet bool
	// Since is when the account was first watched, in Unix seconds, by the clock
	// of that machine and uncorrected; 0 where that was not kept.
	Since int64
	// Origin is the position on the rail at Since: earlier money is not counted.
	// It is a block or a Unix second, in decimal digits; empty while unknown.
	Origin string
}

// errNotRegistered is returned for an offer and account that were not
// registered together.
var errNotRegistered = errors.New("the account is not registered for this offer")

// SetOrigin stores the origin of an account unless one is stored already, and
// returns the stored one. Error: errNotRegistered.
func (l *Ledger) SetOrigin(ctx context.Context, offer, account, origin string) (stored string, err error) {
	err = l.transact(ctx, func(ctx context.Context, tx *transaction) (err error) {
		var found bool
		stored, found, err = first(ask(ctx, tx, scanValue[string], `
			UPDATE accounts SET origin = CASE WHEN origin = '' THEN $1 ELSE origin END
			WHERE offer = $2 AND account = $3 RETURNING origin`, origin, offer, account))
		if err == nil && !found {
			return errNotRegistered
		}
		return err
	})
	return stored, err
}

// LowerOrigin moves the origin of an account to an earlier position, in decimal digits, and
// reports whether the stored one was later. It deletes the cursor, so that the account is read
// again from there. Rows stay. An unknown origin is set. Error: errNotRegistered.
func (l *Ledger) LowerOrigin(ctx context.Context, offer, account, origin string) (lowered bool, err error) {
	to, err := strconv.ParseInt(origin, 10, 64)
	if err != nil || to < 0 {
		return false, fmt.Errorf("%q is no position to begin at", origin)
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
		_, err = tx.exec(ctx, "lowering the origin", `DELETE FROM cursors WHERE offer = $1 AND account = $2`, offer, account)
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

// Accounts lists all accounts that an offer ever had, those that were removed
// from the configuration included.
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

// accountOf reads a registered account.
func accountOf(ctx context.Context, tx *transaction, offer, id string) (Account, error) {
	a, found, err := first(ask(ctx, tx, scanAccount, selectAccounts+` AND account = $2`, offer, id))
	if err == nil && !found {
		err = fmt.Errorf("offer %q, account %q: %w", offer, id, errNotRegistered)
	}
	return a, err
}

// Offers lists the ids of all offers that have receipts or x402 payments.
func (l *Ledger) Offers(ctx context.Context) ([]string, error) {
	return collect(ctx, l, scanValue[string],
		`SELECT offer FROM totals WHERE count > 0 UNION SELECT offer FROM currency_totals WHERE count > 0 ORDER BY offer`)
}

// Cursor says how far an account was read.
type Cursor struct {
	Offer, Account string
	// Position is the last position covered, in the rail's own terms, and
	// Anchor what must still be found there, such as a block's hash.
	Position, Anchor string
	// Upon is the Position, empty for none, that stood when the reading began: where
	// another stands by now the cursor stays: the origin was lowered, or another instance
	// moved it. nil is stored upon whatever stands.
	Upon *string
	// OKAt is when the source last answered, in Unix seconds; 0 for never.
	OKAt int64
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
	if _, err := accountOf(ctx, tx, c.Offer, c.Account); err != nil {
		return err
	}
	if c.Upon != nil {
		standing, _, err := first(ask(ctx, tx, scanValue[string], `
			SELECT position FROM cursors WHERE offer = $1 AND account = $2`+tx.dialect.forUpdate(), c.Offer, c.Account))
		if err != nil || standing != *c.Upon {
			return err
		}
	}
	_, err := tx.exec(ctx, "storing the cursor", `
		INSERT INTO cursors (account, offer, position, anchor, ok_at) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (account) DO UPDATE SET position = excluded.position, anchor = excluded.anchor, ok_at = excluded.ok_at`,
		c.Account, c.Offer, c.Position, c.Anchor, c.OKAt)
	return err
}
