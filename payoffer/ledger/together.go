package ledger

import (
	"context"
	"fmt"
	"sync/atomic"
)

// groupSize bounds how many changes are committed together: whoever comes first
// waits for the last of them.
const groupSize = 64

// writer commits, one group after the other, what waits for the one connection of
// a database that has no other writer. What waits together is committed together:
// a commit waits for the disk, whatever it holds. Each change of a group has a
// savepoint of its own, so that one that fails leaves the others as they are.
// Nobody is told of success before the commit that covers it.
type writer struct {
	ledger *Ledger
	db     *database
	// plain says that there are other writers, and that its changes need no savepoints: they
	// ask for nothing, so that a group is one way to the server.
	plain   bool
	waiting chan *member
	done    chan struct{} // closed when it has ended
}

// member is one change that waits for the writer.
type member struct {
	ctx context.Context
	do  change
	// taken is set by the writer, or by a caller who left before.
	taken atomic.Bool
	// done is closed when err or panicked is what became of it.
	done     chan struct{}
	err      error
	panicked any
}

func newWriter(l *Ledger, db *database, plain bool) *writer {
	w := &writer{ledger: l, db: db, plain: plain, waiting: make(chan *member, groupSize), done: make(chan struct{})}
	go w.run()
	return w
}

// Close ends the writer, which nobody may use any more.
func (w *writer) Close() error {
	close(w.waiting)
	<-w.done
	return nil
}

// commit has the change committed. A caller whose context ends leaves, unless its
// change is being made: then it learns what became of it.
func (w *writer) commit(ctx context.Context, do change) error {
	m := &member{ctx: ctx, do: do, done: make(chan struct{})}
	select {
	case w.waiting <- m:
	case <-ctx.Done():
		return left(ctx)
	}
	select {
	case <-m.done:
	case <-ctx.Done():
		if m.taken.CompareAndSwap(false, true) {
			return left(ctx)
		}
		<-m.done
	}
	if m.panicked != nil {
		panic(m.panicked)
	}
	return m.err
}

func left(ctx context.Context) error {
	return fmt.Errorf("waiting for other writers of the ledger: %w", ctx.Err())
}

func (w *writer) run() {
	defer close(w.done)
	for m := range w.waiting {
		group := w.take(nil, m)
		for more := true; more && len(group) < groupSize; {
			select {
			case m, open := <-w.waiting:
				if more = open; open {
					group = w.take(group, m)
				}
			default:
				more = false
			}
		}
		w.store(group)
		for _, m := range group {
			close(m.done)
		}
	}
}

// take adds a member to the group unless its caller has left.
func (w *writer) take(group []*member, m *member) []*member {
	if m.taken.CompareAndSwap(false, true) {
		group = append(group, m)
	}
	return group
}

// store makes the changes of a group. What undoes all of them, such as a full disk,
// may be the doing of one: each is tried alone then, as is one that may succeed when it
// is tried again.
func (w *writer) store(group []*member) {
	// Not a caller's: whoever leaves would undo the changes of the others. The driver has
	// a goroutine for each statement that could be given up, and none has to be: no
	// other process is waited for, and nobody can take a disk back that hangs.
	ctx := context.Background()
	if w.plain {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, patience) // a server may hang
		defer cancel()
	}
	stored := len(group) > 1 && w.together(ctx, group) == nil
	for _, m := range group {
		if stored && !w.ledger.dialect.transient(m.err) {
			continue
		}
		m.err = w.ledger.dialect.conceal(w.ledger.alone(ctx, w.db, m.call))
	}
}

// together makes the changes of a group in one transaction. Its error says that
// none of them is stored.
func (w *writer) together(ctx context.Context, group []*member) error {
	return w.ledger.attempt(ctx, w.db, func(ctx context.Context, tx *transaction) error {
		for _, m := range group {
			if err := w.member(ctx, tx, m); err != nil {
				return err
			}
		}
		return nil
	})
}

// member makes one change of a group. Its error is that of the whole transaction.
func (w *writer) member(ctx context.Context, tx *transaction, m *member) error {
	if !w.plain {
		return w.apart(ctx, tx, m)
	}
	m.err = m.call(ctx, tx)
	return m.err
}

// apart makes one change behind a savepoint. Its error is that of the whole
// transaction.
func (w *writer) apart(ctx context.Context, tx *transaction, m *member) error {
	tx.put("", "SAVEPOINT member")
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
		tx.put("", "RELEASE member")
		return nil
	}
	if w.ledger.dialect.undone(m.err) {
		return m.err
	}
	tx.put("", "ROLLBACK TO member")
	tx.put("", "RELEASE member")
	return tx.flush(ctx)
}

// call runs the change and keeps a panic for its caller.
func (m *member) call(ctx context.Context, tx *transaction) (err error) {
	defer func() {
		if m.panicked = recover(); m.panicked != nil {
			err = fmt.Errorf("a change of the ledger panicked: %v", m.panicked)
		}
	}()
	return m.do(ctx, tx)
}
