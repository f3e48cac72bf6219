package ledger

import (
	"context"
	"fmt"
	"sync/atomic"
)

// groupSize is the maximum number of changes in one commit, because the first of them
// waits for the last.
const groupSize = 64

// writer commits changes in groups: each commit waits for the disk once.
// Each change has a savepoint, so that a failed one leaves the others as they are. A
// caller learns of success only after the commit.
type writer struct {
	ledger *Ledger
	db     *database
	// plain: the changes read nothing, and other connections write too. Without savepoints
	// a group is one round trip to the server.
	plain   bool
	waiting chan *member
	done    chan struct{} // closed when the writer has ended
}

// member is one change that waits for the writer.
type member struct {
	ctx   context.Context
	do    change
	taken atomic.Bool // set by the writer when it begins the change, or by a caller that leaves
	// done is closed when err or panicked is the outcome.
	done     chan struct{}
	err      error
	panicked any
}

func newWriter(l *Ledger, db *database, plain bool) *writer {
	w := &writer{ledger: l, db: db, plain: plain, waiting: make(chan *member, groupSize), done: make(chan struct{})}
	go w.run()
	return w
}

// Close ends the writer. No other method may be called afterwards.
func (w *writer) Close() error {
	close(w.waiting)
	<-w.done
	return nil
}

// commit commits a change. If ctx ends, commit returns, unless the writer has begun
// the change: then it waits for the outcome.
func (w *writer) commit(ctx context.Context, do change) error {
	m := &member{ctx: ctx, do: do, done: make(chan struct{})}
	select {
	case w.waiting <- m:
	case <-ctx.Done():
		return waitError(ctx)
	}
	select {
	case <-m.done:
	case <-ctx.Done():
		if m.taken.CompareAndSwap(false, true) {
			return waitError(ctx)
		}
		<-m.done
	}
	if m.panicked != nil {
		panic(m.panicked)
	}
	return m.err
}

func waitError(ctx context.Context) error {
	return fmt.Errorf("waiting for other writers of the ledger: %w", ctx.Err())
}

func (w *writer) run() {
	defer close(w.done)
	for m := range w.waiting {
		var group []*member
		for more := true; more; {
			if m.taken.CompareAndSwap(false, true) { // else its caller has left
				group = append(group, m)
			}
			if more = len(group) < groupSize; more {
				select {
				case m, more = <-w.waiting:
				default:
					more = false
				}
			}
		}
		w.store(group)
		for _, m := range group {
			close(m.done)
		}
	}
}

// store commits a group. If the group fails, because of a full disk for example, each
// change is tried on its own, as is one that may succeed at the next attempt.
func (w *writer) store(group []*member) {
	// Not a caller's context: a caller that leaves would undo the changes of the others.
	ctx := context.Background()
	if w.plain {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, patience) // a server may hang
		defer cancel()
	}
	stored := len(group) > 1 && w.storeTogether(ctx, group) == nil
	for _, m := range group {
		if !stored || w.ledger.dialect.transient(m.err) {
			m.err = w.ledger.dialect.conceal(w.ledger.alone(ctx, w.db, m.call))
		}
	}
}

// storeTogether commits a group in one transaction. Its error says that nothing of it is
// stored.
func (w *writer) storeTogether(ctx context.Context, group []*member) error {
	return w.ledger.attempt(ctx, w.db, func(ctx context.Context, tx *transaction) error {
		for _, m := range group {
			store := w.storeBehindSavepoint
			if w.plain {
				store = storePlain
			}
			if err := store(ctx, tx, m); err != nil {
				return err
			}
		}
		return nil
	})
}

func storePlain(ctx context.Context, tx *transaction, m *member) error {
	m.err = m.call(ctx, tx)
	return m.err
}

// storeBehindSavepoint stores one change. Its error is that of the whole transaction.
func (w *writer) storeBehindSavepoint(ctx context.Context, tx *transaction, m *member) error {
	tx.queue("", "SAVEPOINT member")
	if err := tx.flush(ctx); err != nil {
		return err
	}
	one := &transaction{session: tx.session, dialect: tx.dialect}
	m.err = m.call(ctx, one)
	if m.err == nil {
		m.err = one.flush(ctx)
	}
	tx.reported = tx.reported || one.reported
	if m.err == nil {
		tx.queue("", "RELEASE member")
		return nil
	}
	if w.ledger.dialect.undone(m.err) {
		return m.err
	}
	tx.queue("", "ROLLBACK TO member")
	tx.queue("", "RELEASE member")
	return tx.flush(ctx)
}

// call runs the change and stores a panic for its caller.
func (m *member) call(ctx context.Context, tx *transaction) (err error) {
	defer func() {
		if m.panicked = recover(); m.panicked != nil {
			err = fmt.Errorf("a change of the ledger panicked: %v; report this as a bug", m.panicked)
		}
	}()
	return m.do(ctx, tx)
}
