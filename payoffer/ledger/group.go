package ledger

import (
	"context"
	"database/sql"
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
	ledger  *Ledger
	db      *database
	waiting chan *member
	done    chan struct{} // closed when the writer has ended
}

// member is one change that waits for the writer.
type member struct {
	do    change
	taken atomic.Bool   // set by the writer when it begins the change, or by a caller that leaves
	done  chan struct{} // closed when err is the outcome
	err   error
}

func newWriter(l *Ledger, db *database) *writer {
	w := &writer{ledger: l, db: db, waiting: make(chan *member, groupSize), done: make(chan struct{})}
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
	m := &member{do: do, done: make(chan struct{})}
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
	ctx := context.Background() // a caller that leaves would undo the changes of the others
	stored := len(group) > 1 && w.ledger.attempt(ctx, w.db, func(ctx context.Context, tx *sql.Tx) error {
		for _, m := range group {
			if err := m.store(ctx, tx); err != nil {
				return err
			}
		}
		return nil
	}) == nil
	for _, m := range group {
		if !stored || w.ledger.dialect.transient(m.err) {
			m.err = w.ledger.writeAlone(ctx, w.db, m.call)
		}
	}
}

// store stores one change of a group. Its error is that of the whole transaction.
func (m *member) store(ctx context.Context, tx *sql.Tx) error {
	if _, err := tx.ExecContext(ctx, "SAVEPOINT member"); err != nil {
		return err
	}
	end := "RELEASE member"
	if m.err = m.call(ctx, tx); m.err != nil {
		end = "ROLLBACK TO member; RELEASE member"
	}
	_, err := tx.ExecContext(ctx, end) // fails if SQLite has rolled back the whole transaction
	return err
}

// call runs the change. A panic is an error of its caller only.
func (m *member) call(ctx context.Context, tx *sql.Tx) (err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			err = fmt.Errorf("a change of the ledger panicked: %v; report this as a bug", panicked)
		}
	}()
	return m.do(ctx, tx)
}
