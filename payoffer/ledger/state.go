package ledger

import (
	"context"
	"fmt"
)

// State says how a ledger is that is open.
type State struct {
	// Shared says that several processes may have it open.
	Shared bool
	// Changed is when a receipt was changed last, in Unix seconds; 0 for never.
	Changed int64
	// Free is the room on the disk of its folder for this process, in bytes; -1
	// where that is not known, as it is of a database on another machine.
	Free int64
}

// State begins a transaction that may write, and stores nothing. The error is why a
// change would not be taken.
func (l *Ledger) State(ctx context.Context) (State, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	s := State{Free: -1}
	folder := l.dialect.folder()
	if s.Shared = folder == ""; !s.Shared {
		s.Free = free(folder)
	}
	if l.db == nil {
		return s, ErrNotOpen
	}
	if err := l.requirePresent(l.db, compareEvery); err != nil {
		return s, err
	}
	tx, err := l.db.write.BeginTx(ctx, nil)
	if err != nil {
		return s, fmt.Errorf("beginning a ledger transaction: %w", l.dialect.conceal(err))
	}
	defer func() { _ = tx.Rollback() }()
	if err := tx.QueryRowContext(ctx, "SELECT coalesce((SELECT at FROM transitions ORDER BY seq DESC LIMIT 1), 0)").Scan(&s.Changed); err != nil {
		return s, fmt.Errorf("reading the ledger: %w", l.dialect.conceal(err))
	}
	return s, nil
}
