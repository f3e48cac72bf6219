package ledger

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/failpoint"
)

const (
	patience = 30 * time.Second // the maximum duration of an operation
	attempts = 10               // the maximum number of attempts of a transaction
)

// change is the work of a transaction. It runs again after a conflict with another writer,
// so it must not keep results of an earlier run. Its context outlives a caller that leaves.
type change func(ctx context.Context, tx *transaction) error

// transact runs a change in one durable transaction.
func (l *Ledger) transact(ctx context.Context, do change) error {
	return l.opened(ctx, func(db *database) error {
		if db.writer != nil {
			return db.writer.commit(ctx, do)
		}
		return l.dialect.conceal(l.alone(ctx, db, do))
	})
}

// transactGrouped is transact for a change that reads and rejects nothing, so that it can be
// committed in a group on every database.
func (l *Ledger) transactGrouped(ctx context.Context, do change) error {
	return l.opened(ctx, func(db *database) error { return db.groupWriter.commit(ctx, do) })
}

// opened runs use while the ledger is open. It returns nil only if the file of the
// database is still at its path.
func (l *Ledger) opened(ctx context.Context, use func(*database) error) error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.db == nil {
		return ErrNotOpen
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := l.requirePresent(l.db, compareEvery); err != nil {
		return err
	}
	if err := use(l.db); err != nil {
		return err
	}
	return l.requirePresent(l.db, compareEvery)
}

// alone runs a change in its own transaction, and again after conflicts.
func (l *Ledger) alone(ctx context.Context, db *database, do change) (err error) {
	for attempt := range attempts {
		if err = pause(ctx, attempt); err != nil {
			break
		}
		if err = l.attempt(ctx, db, do); err == nil || !l.dialect.transient(err) {
			break
		}
	}
	return err
}

// pause waits before all attempts but the first, longer each time, for a random time.
func pause(ctx context.Context, attempt int) error {
	if attempt == 0 {
		return nil
	}
	select {
	case <-time.After(rand.N(time.Millisecond << attempt)):
		return nil
	case <-ctx.Done():
		return waitError(ctx)
	}
}

func (l *Ledger) attempt(ctx context.Context, db *database, do change) error {
	failpoint.Hit(failpoint.TransactionBefore)
	cancel := func() {}
	if ctx.Done() != nil { // that of the writer never ends
		ctx, cancel = context.WithTimeout(ctx, patience)
	}
	defer cancel()
	s, err := l.dialect.session(ctx, db)
	if err != nil {
		return fmt.Errorf("beginning a ledger transaction: %w", err)
	}
	// A caller that leaves must not interrupt a commit, whose outcome would be unknown.
	if deadline, ends := ctx.Deadline(); ends {
		ctx, cancel = context.WithDeadline(context.WithoutCancel(ctx), deadline)
		defer cancel()
	}
	defer s.end() // after a commit this only gives back the connection
	failpoint.Hit(failpoint.TransactionBegun)
	tx := &transaction{session: s, dialect: l.dialect}
	if err := do(ctx, tx); err != nil {
		return err
	}
	failpoint.Hit(failpoint.TransactionBeforeCommit)
	err = s.commit(ctx, tx.waiting)
	if tx.reported {
		l.changes.Add(1)
		db.sequencer.notify()
	}
	if err != nil {
		return fmt.Errorf("committing a ledger transaction: %w", err)
	}
	failpoint.Hit(failpoint.TransactionCommitted)
	db.writes.prepare(ctx)
	return nil
}
