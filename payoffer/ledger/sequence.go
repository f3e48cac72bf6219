package ledger

import (
	"context"
	"sync"
	"time"
)

const (
	// orderPause is the least time between two orderings that nobody asked for:
	// what is committed meanwhile is ordered together.
	orderPause = 50 * time.Millisecond
	// orderLook is how often it is looked for what another process left behind.
	orderLook = 5 * time.Second
	// orderTimeout bounds one ordering.
	orderTimeout = 5 * time.Second
	// orderWait bounds how long who reads waits for it.
	orderWait = time.Second
)

// sequencer gives transitions their numbers and adds the changes of sums to them,
// on a database where several write at once: a transaction that had to know the
// number of the one before it, or wrote to the same row of a sum, would wait for
// that one's commit. Of all processes one at a time does so, with a lock. Whatever is
// committed then has no number yet or one above those that it finds.
type sequencer struct {
	ledger *Ledger
	db     *database
	// closing is closed when it is to end, and done when it has.
	closing, done chan struct{}
	// news says that something was written here.
	news chan struct{}
	mu   sync.Mutex // held by who orders
}

func newSequencer(l *Ledger, db *database) *sequencer {
	s := &sequencer{ledger: l, db: db, closing: make(chan struct{}), done: make(chan struct{}), news: make(chan struct{}, 1)}
	go s.run()
	return s
}

// Close ends the sequencer, which finishes what it is about first: a connection that is
// broken off would be in use for a while.
func (s *sequencer) Close() error {
	close(s.closing)
	<-s.done
	return nil
}

// note says that something was written, or may have been. A nil sequencer does nothing.
func (s *sequencer) note() {
	if s == nil {
		return
	}
	select {
	case s.news <- struct{}{}:
	default: // it is about to look
	}
}

func (s *sequencer) run() {
	defer close(s.done)
	look := time.NewTicker(orderLook)
	defer look.Stop()
	for {
		select {
		case <-s.closing:
			return
		case <-look.C:
		case <-s.news:
		}
		s.order(context.Background())
		select {
		case <-s.closing:
		case <-time.After(orderPause):
		}
	}
}

// order returns when all that any process committed before is in order, or cannot be
// now: what it leaves is ordered later, and whoever reads the history misses nothing.
func (s *sequencer) order(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, orderTimeout)
	defer cancel()
	if !s.left(ctx) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left(ctx) {
		_ = s.store(ctx)
	}
}

// left reports whether anything is not in order.
func (s *sequencer) left(ctx context.Context) bool {
	left, found, err := first(query(ctx, s.db, scanValue[bool], `
		SELECT EXISTS (SELECT 1 FROM transitions WHERE seq < 0) OR EXISTS (SELECT 1 FROM total_changes)`))
	return err == nil && found && left
}

// store puts everything in order that any process has committed.
func (s *sequencer) store(ctx context.Context) error {
	return s.ledger.alone(ctx, s.db, func(_ context.Context, tx *transaction) error {
		for _, text := range tx.dialect.ordering() {
			tx.put("ordering the history", text)
		}
		return nil
	})
}

// order puts the history in order for who reads it.
func (l *Ledger) order(ctx context.Context) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.db != nil && l.db.sequencer != nil {
		ctx, cancel := context.WithTimeout(ctx, orderWait)
		defer cancel()
		l.db.sequencer.order(ctx)
	}
}
