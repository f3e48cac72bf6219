package ledger

import (
	"context"
	"database/sql"
	"fmt"
	"iter"
)

// snapshotPage is how many receipts are read at once.
const snapshotPage = 500

// Snapshot is the ledger as it stood at one moment. It must be closed.
type Snapshot struct {
	ledger *Ledger
	db     *database
	tx     *sql.Tx
	offer  string
	// Totals are the sums of the offer.
	Totals []Total
}

// Snapshot begins to read an offer as it stands now, for readers of more than fits
// into memory. What is written meanwhile is neither seen nor delayed.
func (l *Ledger) Snapshot(ctx context.Context, offer string) (*Snapshot, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.db == nil {
		return nil, ErrNotOpen
	}
	tx, err := l.db.read.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	if err != nil {
		return nil, l.failedReading(err)
	}
	s := &Snapshot{ledger: l, db: l.db, tx: tx, offer: offer}
	if s.Totals, err = query(ctx, tx, scanTotal, selectOfferTotals, offer); err != nil {
		s.Close()
		return nil, l.failedReading(err)
	}
	return s, nil
}

// Books are the sums of an offer, and up to limit of its receipts with an ID below
// before, newest first (0 begins with the newest), all at one moment.
func (l *Ledger) Books(ctx context.Context, offer string, before int64, limit int) (totals []Total, receipts []Receipt, err error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.db == nil {
		return nil, nil, ErrNotOpen
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tx, err := l.db.read.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	if err != nil {
		return nil, nil, l.failedReading(err)
	}
	defer func() { _ = tx.Rollback() }() // there is nothing to lose
	totals, err = query(ctx, tx, scanTotal, selectOfferTotals, offer)
	if err == nil {
		receipts, err = query(ctx, tx, scanReceipt, selectNewest, offer, newestBelow(before), limit)
	}
	return totals, receipts, l.failedReading(err)
}

// Close ends the snapshot.
func (s *Snapshot) Close() { _ = s.tx.Rollback() } // there is nothing to lose

// Receipts reads all receipts of the offer, oldest first, each with its transitions.
// It holds one page of them at a time, and nobody who closes the ledger waits for
// who reads: the next page is an error then.
func (s *Snapshot) Receipts(ctx context.Context) iter.Seq2[RecordedReceipt, error] {
	return func(yield func(RecordedReceipt, error) bool) {
		last := int64(0)
		for {
			page, err := s.page(ctx, last)
			if err != nil {
				yield(RecordedReceipt{}, err)
				return
			}
			for _, one := range page {
				if last = one.ID; !yield(one, nil) {
					return
				}
			}
			if len(page) < snapshotPage {
				return
			}
		}
	}
}

// RecordedReceipt is a receipt with all its transitions.
type RecordedReceipt struct {
	Receipt
	History []Transition
}

// page reads the receipts after the one with the ID last.
func (s *Snapshot) page(ctx context.Context, last int64) ([]RecordedReceipt, error) {
	s.ledger.mu.RLock()
	defer s.ledger.mu.RUnlock()
	if s.ledger.db != s.db {
		return nil, ErrNotOpen
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	receipts, err := query(ctx, s.tx, scanReceipt, selectReceipts+`offer = $1 AND id > $2 ORDER BY id LIMIT $3`,
		s.offer, last, snapshotPage)
	if err != nil || len(receipts) == 0 {
		return nil, s.ledger.failedReading(err)
	}
	transitions, err := query(ctx, s.tx, scanTransition, selectHistory, s.offer, receipts[0].ID, receipts[len(receipts)-1].ID)
	if err != nil {
		return nil, s.ledger.failedReading(err)
	}
	page := make([]RecordedReceipt, len(receipts))
	for i, r := range receipts {
		n := 0
		for n < len(transitions) && transitions[n].ReceiptID == r.ID {
			n++
		}
		page[i] = RecordedReceipt{r, transitions[:n]}
		transitions = transitions[n:]
	}
	return page, nil
}

// failedReading is err as callers see it; nil stays nil.
func (l *Ledger) failedReading(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("reading the ledger: %w", l.dialect.conceal(err))
}
