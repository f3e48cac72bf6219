package ledger

import (
	"context"
	"errors"
	"fmt"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/book"
)

// ErrSinkTaken is returned by AdvanceSink to who does not hold the sink.
var ErrSinkTaken = errors.New("another owner reads for the sink")

// LeaseSink makes owner, which names one process, the reader for a sink of an
// offer's transitions until the Unix second until; one that is not above now
// gives the lease up. It returns the Seq of the last transition that the sink
// is done with. held is false while another owner's lease runs. A sink that
// is not known starts after the newest transition of the offer.
func (l *Ledger) LeaseSink(ctx context.Context, offer, name, owner string, now, until int64) (after int64, held bool, err error) {
	if offer == "" || name == "" || owner == "" || !book.Storable(offer, name, owner) {
		return 0, false, errors.New("a sink needs an offer, a name and an owner, in UTF-8 without U+0000")
	}
	err = l.transact(ctx, func(tx *transaction) (err error) {
		after, held, err = first(query(ctx, tx, scanValue[int64], `
			INSERT INTO sinks (offer, name, after_seq, owner, lease_until)
			VALUES ($1, $2, coalesce((SELECT max(seq) FROM transitions WHERE offer = $1), 0), $3, $4)
			ON CONFLICT (offer, name) DO UPDATE SET owner = excluded.owner, lease_until = excluded.lease_until
			WHERE sinks.owner = excluded.owner OR sinks.lease_until <= $5
			RETURNING after_seq`, offer, name, owner, until, now))
		if err != nil {
			return fmt.Errorf("leasing sink %q: %w", name, err)
		}
		return nil
	})
	return after, held && err == nil, err
}

// Sink is how far a reader of an offer's transitions has got.
type Sink struct {
	Name  string
	After int64 // the Seq of the last transition that it is done with
	// Until is when the lease of its last reader ended, or ends, in Unix seconds.
	Until int64
}

// Sinks lists the sinks of an offer whose last lease ended after the Unix second
// since.
func (l *Ledger) Sinks(ctx context.Context, offer string, since int64) ([]Sink, error) {
	return collect(ctx, l, func(row scanner) (s Sink, err error) {
		err = row.Scan(&s.Name, &s.After, &s.Until)
		return s, err
	}, `SELECT name, after_seq, lease_until FROM sinks WHERE offer = $1 AND lease_until > $2 ORDER BY name`, offer, since)
}

// AdvanceSink records that a sink is done with the transitions up to the Seq
// after; one below what is stored changes nothing. It is for the owner of the
// sink alone, whose lease may have run out. Error: ErrSinkTaken.
func (l *Ledger) AdvanceSink(ctx context.Context, offer, name, owner string, after int64) error {
	return l.transact(ctx, func(tx *transaction) error { return advanceSink(ctx, tx, offer, name, owner, after) })
}

func advanceSink(ctx context.Context, tx *transaction, offer, name, owner string, after int64) error {
	advanced, err := tx.exec(ctx, fmt.Sprintf("advancing sink %q", name), `
		UPDATE sinks SET after_seq = CASE WHEN after_seq < $1 THEN $1 ELSE after_seq END
		WHERE offer = $2 AND name = $3 AND owner = $4`, after, offer, name, owner)
	if err == nil && advanced == 0 {
		err = ErrSinkTaken
	}
	if err != nil {
		return err
	}
	_, err = tx.exec(ctx, "forgetting refusals", `
		DELETE FROM set_aside WHERE offer = $1 AND sink = $2 AND seq <= $3 AND reason = ''`, offer, name, after)
	return err
}
