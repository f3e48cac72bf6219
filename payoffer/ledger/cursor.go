package ledger

import (
	"context"
	"fmt"
)

// Cursor says how far an account was read.
type Cursor struct {
	Offer, Account string
	// Position is the last position covered, in the rail's own terms, and
	// Anchor what must still be found there, such as a block's hash.
	Position, Anchor string
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
	_, err := tx.ExecContext(ctx, `
		INSERT INTO cursors (account, offer, position, anchor, ok_at) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (account) DO UPDATE SET position = excluded.position, anchor = excluded.anchor, ok_at = excluded.ok_at`,
		c.Account, c.Offer, c.Position, c.Anchor, c.OKAt)
	if err != nil {
		return fmt.Errorf("storing the cursor: %w", err)
	}
	return nil
}
