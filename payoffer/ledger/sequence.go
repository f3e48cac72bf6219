package ledger

import (
	"context"
	"sync"
	"time"
)

const (
	orderPause   = 50 * time.Millisecond // the minimum time between two orderings in the background
	orderEvery   = 5 * time.Second       // the interval of checks for changes by other processes
	orderTimeout = 5 * time.Second       // the maximum duration of one ordering
	orderWait    = time.Second           // the maximum time for which a reader waits for one
)

// sequencer numbers transitions and adds changes to the sums, on a database with several
// writers. Otherwise a transaction would wait for the commit of the one before it. One
// process at a time does so, with a lock.
type sequencer struct {
	ledger        *Ledger
	db            *database
	closing, done chan struct{} // closed to end the sequencer, and when it has ended
	news          chan struct{} // receives after a change by this process
	mu            sync.Mutex    // held while ordering
}

func newSequencer(l *Ledger, db *database) *sequencer {
	s := &sequencer{ledger: l, db: db, closing: make(chan struct{}), done: make(chan struct{}), news: make(chan struct{}, 1)}
	go s.run()
	return s
}

// Close ends the sequencer after the ordering that is running.
func (s *sequencer) Close() error {
	close(s.closing)
	<-s.done
	return nil
}

// notify requests an ordering. A nil sequencer does nothing.
func (s *sequencer) notify() {
	if s == nil {
		return
	}
	select {
	case s.news <- struct{}{}:
	default: // it was requested
	}
}

func (s *sequencer) run() {
	defer close(s.done)
	look := time.NewTicker(orderEvery)
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

// order orders all changes that any process has committed. After an error they are
// ordered later, so that readers of the history miss nothing.
func (s *sequencer) order(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, orderTimeout)
	defer cancel()
	if !s.unordered(ctx) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unordered(ctx) {
		_ = s.store(ctx)
	}
}

func (s *sequencer) unordered(ctx context.Context) bool {
	left, found, err := first(query(ctx, s.db, scanValue[bool], `
		SELECT EXISTS (SELECT 1 FROM transitions WHERE seq < 0) OR EXISTS (SELECT 1 FROM total_changes)`))
	return err == nil && found && left
}

func (s *sequencer) store(ctx context.Context) error {
	return s.ledger.alone(ctx, s.db, func(_ context.Context, tx *transaction) error {
		for _, text := range tx.dialect.ordering() {
			tx.queue("ordering the history", text)
		}
		return nil
	})
}

// order orders the history before it is read.
func (l *Ledger) order(ctx context.Context) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.db != nil && l.db.sequencer != nil {
		ctx, cancel := context.WithTimeout(ctx, orderWait)
		defer cancel()
		l.db.sequencer.order(ctx)
	}
}
