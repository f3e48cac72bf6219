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
func (l *Ledger) Snapshot(ctx context.Context, offer string) (*Snapshot, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.db == nil {
		return nil, ErrNotOpen
	}
	tx, err := l.db.read.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	if err != nil {
		return nil, l.wrapReadError(err)
	}
	s := &Snapshot{ledger: l, db: l.db, tx: tx, offer: offer}
	all, err := query(ctx, tx, totalTable.scan, selectTotals(`offer = $1`), offer)
	if err != nil {
		s.Close()
		return nil, l.wrapReadError(err)
	}
	s.Totals = sorted(all)
	return s, nil
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

func (s *Snapshot) page(ctx context.Context, last int64) ([]RecordedReceipt, error) {
	s.ledger.mu.RLock()
	defer s.ledger.mu.RUnlock()
	if s.ledger.db != s.db {
		return nil, ErrNotOpen
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	receipts, err := receiptTable.query(ctx, s.tx, `offer = $1 AND id > $2 ORDER BY id LIMIT $3`, s.offer, last, snapshotPage)
	if err != nil || len(receipts) == 0 {
		return nil, s.ledger.wrapReadError(err)
	}
	transitions, err := query(ctx, s.tx, scanTransition, selectHistory, s.offer, receipts[0].ID, receipts[len(receipts)-1].ID)
	if err != nil {
		return nil, s.ledger.wrapReadError(err)
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

// wrapReadError wraps an error of reading, or nil.
func (l *Ledger) wrapReadError(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("reading the ledger: %w", l.dialect.conceal(err))
}

// quoteDays is how long a quote is kept. Nodes drop an unconfirmed transaction after 14.
const quoteDays = 30

// StoreQuote stores that satoshis were quoted for usdCents at a Unix second, and deletes
// quotes that are 30 days old.
func (l *Ledger) StoreQuote(ctx context.Context, offer string, satoshis, usdCents, at int64) error {
	return l.write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if err := quoteTable.upsert(ctx, tx, `offer, satoshis, at`, Quote{offer, satoshis, usdCents, at}); err != nil {
			return err
		}
		_, err := execute(ctx, tx, "deleting old quotes", `DELETE FROM quotes WHERE offer = $1 AND at < $2`,
			offer, l.now().Unix()-quoteDays*24*60*60)
		return err
	})
}

// Quote is a quoted amount and its value.
type Quote struct {
	Offer              string
	Satoshis, USDCents int64
	At                 int64 // when it was quoted, in Unix seconds
}

var quoteTable = table[Quote]{"quotes", func(q *Quote) []column {
	return []column{{"offer", &q.Offer}, {"satoshis", &q.Satoshis}, {"usd_cents", &q.USDCents}, {"at", &q.At}}
}}

// Quoted returns the largest quote of at most the satoshis that was given between two Unix
// seconds, or else the smallest one of which they lack at most one percent, an exchange's fee,
// and the newest of equal ones.
func (l *Ledger) Quoted(ctx context.Context, offer string, satoshis, since, until int64) (q Quote, found bool, err error) {
	// + 0 makes SQLite use the index of the time: an hour has few quotes.
	return atMostOne(quoteTable.read(ctx, l, `offer = $1 AND satoshis + 0 <= $5 AND at BETWEEN $3 AND $4
		ORDER BY satoshis > $2, abs(satoshis - $2), at DESC LIMIT 1`, offer, satoshis, since, until, satoshis+satoshis/99))
}
