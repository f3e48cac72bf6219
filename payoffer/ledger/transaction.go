package ledger

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/failpoint"
)

const (
	// patience bounds an operation, which may wait for other instances or for
	// a network that answers no more.
	patience = 30 * time.Second
	// attempts bounds how often a transaction is tried.
	attempts = 10
)

// transaction is one attempt at a durable change.
type transaction struct {
	*sql.Tx
	dialect  dialect
	prepared *prepared
	// reported says that it touches a receipt or a sum.
	reported bool
}

// transact runs change in one durable transaction: all of it or nothing.
// change runs again when other writers were in the way, so it must not keep
// what an earlier run found.
func (l *Ledger) transact(ctx context.Context, change func(*transaction) error) error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.db == nil {
		return ErrNotOpen
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var err error
	for attempt := range attempts {
		if err = pause(ctx, attempt); err != nil {
			break
		}
		if err = l.attempt(ctx, change); err == nil || !l.dialect.transient(err) {
			break
		}
	}
	return l.dialect.conceal(err)
}

// pause waits before all attempts but the first, longer each time and never
// in step with another writer.
func pause(ctx context.Context, attempt int) error {
	if attempt == 0 {
		return nil
	}
	select {
	case <-time.After(rand.N(time.Millisecond << attempt)):
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for other writers of the ledger: %w", ctx.Err())
	}
}

func (l *Ledger) attempt(ctx context.Context, change func(*transaction) error) error {
	failpoint.Hit(failpoint.TransactionBefore)
	tx, err := l.dialect.begin(ctx, l.db.write, l.db.known)
	if err != nil {
		return fmt.Errorf("beginning a ledger transaction: %w", err)
	}
	// After a commit this does nothing; its error would hide the first one.
	defer func() { _ = tx.Rollback() }()
	failpoint.Hit(failpoint.TransactionBegun)
	doing := &transaction{Tx: tx, dialect: l.dialect, prepared: l.db.writes}
	if err := change(doing); err != nil {
		return err
	}
	failpoint.Hit(failpoint.TransactionBeforeCommit)
	err = tx.Commit()
	if doing.reported {
		l.changes.Add(1)
	}
	if err != nil {
		return fmt.Errorf("committing a ledger transaction: %w", err)
	}
	failpoint.Hit(failpoint.TransactionCommitted)
	l.db.writes.prepare(ctx)
	return nil
}
