package ledger

import (
	"context"
	"fmt"
)

// Aside is a transition that a sink was not told of, and that holds up no other
// any more.
type Aside struct {
	Transition
	// Sink is its name, and Reason a short machine word for why.
	Sink, Reason string
	// Since is when the sink first refused the transition, in Unix seconds.
	Since int64
}

// A row of set_aside without a reason is a transition that its sink refuses and
// that is still tried. So long it is not set aside.

// RefuseTransition notes at the Unix second now that a sink refuses a transition,
// and returns since when it has done so. AdvanceSink forgets it.
func (l *Ledger) RefuseTransition(ctx context.Context, offer, sink string, seq, now int64) (since int64, err error) {
	err = l.transact(ctx, func(ctx context.Context, tx *transaction) error {
		since, _, err = first(ask(ctx, tx, scanValue[int64], `
			INSERT INTO set_aside (offer, sink, seq, reason, at) VALUES ($1, $2, $3, '', $4)
			ON CONFLICT (offer, sink, seq) DO UPDATE SET at = set_aside.at RETURNING at`, offer, sink, seq, now))
		if err != nil {
			return fmt.Errorf("noting the refusal of sink %q: %w", sink, err)
		}
		return nil
	})
	return since, err
}

// SetAside puts a transition aside for a reason and advances the sink past it, in
// one transaction. now is when it was refused, unless that was noted before.
// Error: ErrSinkTaken.
func (l *Ledger) SetAside(ctx context.Context, offer, sink, owner string, seq int64, reason string, now int64) error {
	return l.transact(ctx, func(ctx context.Context, tx *transaction) error {
		_, err := tx.exec(ctx, "setting a transition aside", `
			INSERT INTO set_aside (offer, sink, seq, reason, at) VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (offer, sink, seq) DO UPDATE SET reason = excluded.reason`, offer, sink, seq, reason, now)
		if err != nil {
			return err
		}
		return advanceSink(ctx, tx, offer, sink, owner, seq)
	})
}

// Asides lists what all sinks of an offer have set aside, in the order of commits.
func (l *Ledger) Asides(ctx context.Context, offer string) ([]Aside, error) {
	return collect(ctx, l, scanAside, `
		SELECT a.sink, a.reason, a.at, `+transitionColumns+`
		FROM set_aside a JOIN transitions t ON t.offer = a.offer AND t.seq = a.seq JOIN receipts r ON r.id = t.receipt_id`+precedingTransitions+`
		WHERE a.offer = $1 AND a.reason <> '' ORDER BY a.seq, a.sink`, offer)
}

func scanAside(row scanner) (a Aside, err error) {
	err = row.Scan(append([]any{&a.Sink, &a.Reason, &a.Since}, a.columns()...)...)
	return a, err
}

// ForgetAside takes a transition from those that a sink has set aside; one that is
// not among them is no error.
func (l *Ledger) ForgetAside(ctx context.Context, offer, sink string, seq int64) error {
	return l.transact(ctx, func(ctx context.Context, tx *transaction) error {
		_, err := tx.exec(ctx, "forgetting a transition that was set aside", `
			DELETE FROM set_aside WHERE offer = $1 AND sink = $2 AND seq = $3 AND reason <> ''`, offer, sink, seq)
		return err
	})
}
