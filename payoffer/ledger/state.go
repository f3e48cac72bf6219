package ledger

import (
	"context"
	"fmt"
)

// CheckWritable begins a transaction that may write, and stores nothing. The error says
// why a change would not be stored.
func (l *Ledger) CheckWritable(ctx context.Context) error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.db == nil {
		return ErrNotOpen
	}
	if err := l.requirePresent(l.db, compareEvery); err != nil {
		return err
	}
	tx, err := l.db.write.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("beginning a ledger transaction: %w", l.dialect.conceal(err))
	}
	defer func() { _ = tx.Rollback() }()
	var seq int64
	if err := tx.QueryRowContext(ctx, "SELECT coalesce(max(seq), 0) FROM transitions").Scan(&seq); err != nil {
		return fmt.Errorf("reading the ledger: %w", l.dialect.conceal(err))
	}
	return nil
}
