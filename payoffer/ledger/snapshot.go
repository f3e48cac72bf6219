package ledger

import (
	"context"
	"database/sql"
	"fmt"
	"iter"
)

const snapshotPage = 500 // receipts

// Snapshot reads an offer in one transaction. It must be closed.
type Snapshot struct {
	ledger *Ledger
	db     *database
	tx     *sql.Tx
	offer  string
	Totals []Total
}

// Snapshot begins to read an offer. Changes that are committed later are not in it, and do
// not wait for it.
func (l *Ledger) Snapshot(ctx context.Context, offer string) (s *Snapshot, err error) {
	// The transaction ends with the context of the caller, and not with that of this call.
	err = l.whileReading(ctx, func(_ context.Context, read *sql.DB) error {
		tx, err := read.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
		if err != nil {
			return err
		}
		s = &Snapshot{ledger: l, db: l.db, tx: tx, offer: offer}
		all, err := query(ctx, tx, totalTable.scan, selectTotals(`offer = $1`), offer)
		if s.Totals = sorted(all); err != nil {
			s.Close()
		}
		return err
	})
	return s, err
}

// TotalsAndReceipts returns the sums of an offer and up to limit receipts with an ID below before (0
// for all), newest first, at one moment.
func (l *Ledger) TotalsAndReceipts(ctx context.Context, offer string, before int64, limit int) (totals []Total, receipts []Receipt, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	s, err := l.Snapshot(ctx, offer)
	if err != nil {
		return nil, nil, err
	}
	defer s.Close()
	receipts, err = receiptTable.query(ctx, s.tx, newestBelow, offer, idBelow(before), limit)
	return s.Totals, receipts, l.wrapReadError(err)
}

// Close ends the snapshot.
func (s *Snapshot) Close() { _ = s.tx.Rollback() }

// Receipts reads all receipts of the offer with their transitions, oldest first, page by
// page. Closing the ledger does not wait for it: the next page then is an error.
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

func (s *Snapshot) page(ctx context.Context, last int64) (page []RecordedReceipt, err error) {
	err = s.ledger.whileReading(ctx, func(ctx context.Context, _ *sql.DB) error {
		if s.ledger.db != s.db {
			return ErrNotOpen
		}
		receipts, err := receiptTable.query(ctx, s.tx, `offer = $1 AND id > $2 ORDER BY id LIMIT $3`, s.offer, last, snapshotPage)
		if err != nil || len(receipts) == 0 {
			return err
		}
		transitions, err := query(ctx, s.tx, scanTransition, selectHistory, s.offer, receipts[0].ID, receipts[len(receipts)-1].ID)
		for _, r := range receipts {
			n := 0
			for n < len(transitions) && transitions[n].ReceiptID == r.ID {
				n++
			}
			page = append(page, RecordedReceipt{r, transitions[:n]})
			transitions = transitions[n:]
		}
		return err
	})
	return page, err
}

// wrapReadError wraps an error of reading, or nil.
func (l *Ledger) wrapReadError(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("reading the ledger: %w", l.dialect.conceal(err))
}
