package ledger

import (
	"context"
	"slices"
)

// Standing is how an account stands that is read together with others.
type Standing struct {
	Account string
	// Position and Anchor are those of its cursor, empty for none.
	Position, Anchor string
	// Open says that it has receipts which may still change.
	Open bool
}

// Standings lists how the accounts stand whose names begin with a prefix, but for those
// whose cursor stands at a position with nothing else to tell.
func (l *Ledger) Standings(ctx context.Context, prefix, position string) ([]Standing, error) {
	return collect(ctx, l, func(row scanner) (s Standing, err error) {
		err = row.Scan(&s.Account, &s.Position, &s.Anchor, &s.Open)
		return s, err
	}, `SELECT account, position, anchor, open FROM (
			SELECT a.account, coalesce(c.position, '') AS position, coalesce(c.anchor, '') AS anchor,
				EXISTS (SELECT 1 FROM receipts r WHERE r.offer = a.offer AND r.account = a.account AND NOT r.final) AS open
			FROM accounts a LEFT JOIN cursors c ON c.account = a.account
			WHERE substr(a.account, 1, length($1)) = $1) AS standing
		WHERE position <> $2 OR open`, prefix, position)
}

// moveAtOnce is how many cursors one statement moves: its text is the same for any
// number.
const moveAtOnce = 100

// MoveCursors moves the cursors of accounts in one transaction, each as one Record with
// that cursor does. Its Offer and Account are not read, and Upon must be set.
func (l *Ledger) MoveCursors(ctx context.Context, to Cursor, accounts ...string) error {
	return l.transact(ctx, func(ctx context.Context, tx *transaction) error {
		for part := range slices.Chunk(accounts, moveAtOnce) {
			args := []any{to.Position, to.Anchor, to.OKAt, *to.Upon}
			for n := range moveAtOnce {
				args = append(args, part[min(n, len(part)-1)])
			}
			text := moveCursors
			if *to.Upon == "" {
				text = setCursors
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
		WHERE $4 = '' AND account IN ` + placeholders(5, moveAtOnce) + ` ON CONFLICT (account) DO NOTHING`
)
