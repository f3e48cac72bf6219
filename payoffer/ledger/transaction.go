package ledger

import (
	"context"
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

// change is what a transaction is to do: all of it or nothing. It runs again when
// other writers were in the way, so it must not keep what an earlier run found. Its
// context is the transaction's, which outlives a caller who leaves.
type change func(ctx context.Context, tx *transaction) error

// transact runs change in one durable transaction.
func (l *Ledger) transact(ctx context.Context, do change) error {
	return l.opened(ctx, func(db *database) error {
		if db.writer != nil {
			return db.writer.commit(ctx, do)
		}
		return l.dialect.conceal(l.alone(ctx, db, do))
	})
}

// gather is transact for a change that asks for nothing and refuses nothing: those that
// wait together are committed together.
func (l *Ledger) gather(ctx context.Context, do change) error {
	return l.opened(ctx, func(db *database) error { return db.gatherer.commit(ctx, do) })
}

// opened runs use while the ledger is open. It returns nil only for a database whose file
// is still in its place.
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

// alone runs change in a transaction of its own, again while other writers are in
// its way.
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

func (l *Ledger) attempt(ctx context.Context, db *database, do change) error {
	failpoint.Hit(failpoint.TransactionBefore)
	ctx, cancel := waiting(ctx)
	defer cancel()
	s, err := l.dialect.session(ctx, db)
	if err != nil {
		return fmt.Errorf("beginning a ledger transaction: %w", err)
	}
	ctx, cancel = lasting(ctx)
	defer cancel()
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
		db.sequencer.note()
	}
	if err != nil {
		return fmt.Errorf("committing a ledger transaction: %w", err)
	}
	failpoint.Hit(failpoint.TransactionCommitted)
	db.writes.prepare(ctx)
	return nil
}

// waiting is the context of who waits for a connection. One that never ends is the one
// writer's, and stays as it is.
func waiting(ctx context.Context) (context.Context, context.CancelFunc) {
	if ctx.Done() == nil {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, patience)
}

// lasting is waiting for what must not be broken off because a caller leaves: of a
// commit that was, nobody would know what became of it. A deadline stays.
func lasting(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, ends := ctx.Deadline()
	if !ends {
		return ctx, func() {}
	}
	return context.WithDeadline(context.WithoutCancel(ctx), deadline)
}
