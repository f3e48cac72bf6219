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
	patience = 30 * time.Second // the maximum duration of an operation
	attempts = 10               // the maximum number of attempts of a transaction
)

// change is the work of a transaction. It runs again after a conflict with another writer,
// so it must not keep results of an earlier run. Its context outlives a caller that leaves.
// Transactions take their locks in one order, so that they do not wait for each other in a
// circle: the named locks (lock) in one statement, receipts, intents by ID, and the sums last.
type change func(ctx context.Context, tx *sql.Tx) error

// write runs a change in one durable transaction. It returns nil only if the file of the
// database is still at its path.
func (l *Ledger) write(ctx context.Context, do change) error {
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
	var err error
	if l.db.writer != nil {
		err = l.db.writer.commit(ctx, do)
	} else {
		err = l.writeAlone(ctx, l.db, do)
	}
	if err != nil {
		return l.dialect.conceal(err)
	}
	return l.requirePresent(l.db, compareEvery)
}

// writeAlone runs a change in its own transaction, and again after conflicts, each time after a
// longer random pause.
func (l *Ledger) writeAlone(ctx context.Context, db *database, do change) error {
	for attempt := 1; ; attempt++ {
		err := l.attempt(ctx, db, do)
		if err == nil || !l.dialect.transient(err) || attempt == attempts {
			return err
		}
		select {
		case <-time.After(rand.N(time.Millisecond << attempt)):
		case <-ctx.Done():
			return waitError(ctx)
		}
	}
}

func (l *Ledger) attempt(ctx context.Context, db *database, do change) error {
	failpoint.Hit(failpoint.TransactionBefore)
	if ctx.Done() != nil { // the context of the group commit never ends
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, patience)
		defer cancel()
	}
	conn, err := db.write.Conn(ctx)
	if err != nil {
		return fmt.Errorf("beginning a ledger transaction: %w", err)
	}
	defer conn.Close()
	// A caller that leaves must not interrupt a commit, whose outcome would be unknown.
	if deadline, ends := ctx.Deadline(); ends {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(context.WithoutCancel(ctx), deadline)
		defer cancel()
	}
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("beginning a ledger transaction: %w", err)
	}
	defer func() { _ = tx.Rollback() }() // after a commit this does nothing
	failpoint.Hit(failpoint.TransactionBegun)
	if err := do(ctx, tx); err != nil {
		return err
	}
	failpoint.Hit(failpoint.TransactionBeforeCommit)
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("committing a ledger transaction: %w", err)
	}
	failpoint.Hit(failpoint.TransactionCommitted)
	return nil
}

// execute runs a statement and returns the number of rows that it changed. doing is the prefix
// of its error.
func execute(ctx context.Context, tx *sql.Tx, doing, text string, args ...any) (changed int64, err error) {
	result, err := tx.ExecContext(ctx, text, args...)
	if err == nil {
		changed, err = result.RowsAffected()
	}
	if err != nil {
		return 0, fmt.Errorf("%s: %w", doing, err)
	}
	return changed, nil
}

// writeStatement runs one statement in a transaction, and returns the number of rows that it changed.
func (l *Ledger) writeStatement(ctx context.Context, doing, text string, args ...any) (changed int64, err error) {
	err = l.write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		changed, err = execute(ctx, tx, doing, text, args...)
		return err
	})
	return changed, err
}

// lock names what a transaction excludes other transactions from until it ends.
type lock struct {
	space lockSpace
	name  string
}

// lockSpace is what the name of a lock belongs to. Locks are taken in the order of their spaces.
type lockSpace int32

const (
	payerLock    lockSpace = 1885435248 + iota // inserting an intent of a payer
	offerLock                                  // changing receipts of an offer, with their transitions
	entryLock                                  // signing in browsers of a payment
	accountsLock                               // registering accounts
	keysLock                                   // remembering keys
)
