package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"reflect"

	"github.com/payoffer/caddy-pay-offer/payoffer/failpoint"
)

// Record commits what was seen, in one transaction: the rows, their
// transitions, the sums, the joined intents, and the cursor (nil for none)
// that covers them. It returns the rows in the order of the sightings.
// Recording the same again changes nothing. Errors: ErrSighting,
// ErrNotRegistered; nothing is stored then.
//
// A sighting with an intent settles it by EvidenceChain, and one that says
// dropped makes it unknown again. On a chain an authorization is used once:
// when a second movement names the intent, the first has left the chain, and
// the intent moves, unless the first is final.
func (l *Ledger) Record(ctx context.Context, cursor *Cursor, sightings ...Sighting) ([]Receipt, error) {
	for i := range sightings {
		if err := sightings[i].validate(); err != nil {
			return nil, err
		}
	}
	var receipts []Receipt
	err := l.transact(ctx, func(tx *transaction) error {
		if len(sightings) > 0 {
			if err := tx.dialect.orderHistory(ctx, tx.Tx); err != nil {
				return fmt.Errorf("waiting for earlier records: %w", err)
			}
		}
		receipts = nil
		r := recorder{tx: tx, now: l.now().Unix(), delta: sums{}, stored: sums{}}
		for _, s := range sightings {
			receipt, err := r.record(ctx, s)
			if err != nil {
				return fmt.Errorf("recording %q: %w", s.ExternalID, err)
			}
			receipts = append(receipts, receipt)
		}
		if err := r.delta.apply(ctx, tx); err != nil {
			return err
		}
		failpoint.Hit(failpoint.TransactionSums)
		if cursor == nil {
			return nil
		}
		return cursor.store(ctx, tx)
	})
	if err != nil {
		return nil, err
	}
	return receipts, nil
}

// recorder is one Record.
type recorder struct {
	tx    *transaction
	now   int64
	delta sums
	// stored are the sums before it, as far as they were read.
	stored sums
}

func (r *recorder) record(ctx context.Context, s Sighting) (Receipt, error) {
	account, err := accountOf(ctx, r.tx, s.Offer, s.Account)
	if err != nil {
		return Receipt{}, err
	}
	s.Testnet = s.Testnet || account.Testnet
	old, err := scanReceipt(r.tx.QueryRowContext(ctx,
		`SELECT `+receiptColumns+` FROM receipts WHERE account = $1 AND external_id = $2`+r.tx.dialect.forUpdate(),
		s.Account, s.ExternalID))
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return Receipt{}, err
	}
	next := merge(old, s)
	if err := r.join(ctx, &next, s); err != nil {
		return Receipt{}, err
	}
	if reflect.DeepEqual(old, next) {
		return next, nil
	}
	failpoint.Hit(failpoint.TransactionJoin)
	next.UpdatedAt = r.now
	moved := old.Status != next.Status || old.Amount != next.Amount || old.Refunded != next.Refunded
	if moved {
		next.Version++
	}
	if err := r.store(ctx, &next); err != nil {
		return Receipt{}, err
	}
	failpoint.Hit(failpoint.TransactionRow)
	r.delta.change(old, next)
	if err := r.fits(ctx, next); err != nil {
		return Receipt{}, err
	}
	if !moved {
		return next, nil
	}
	_, err = r.tx.ExecContext(ctx, `
		INSERT INTO transitions (receipt_id, offer, version, from_status, to_status, amount, refunded, cause, at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
		next.ID, next.Offer, next.Version, old.Status, next.Status, next.Amount, next.Refunded, s.Cause, r.now)
	failpoint.Hit(failpoint.TransactionTransition)
	return next, err
}

// store inserts or updates the row.
func (r *recorder) store(ctx context.Context, next *Receipt) error {
	facts := []any{
		next.Transaction, next.Via, next.Asset, next.Amount, next.Refunded, next.USDCents, next.RefundedCents,
		next.Status, next.state, next.reversed, next.reversedAt, next.Final, next.EvidenceLevel, string(next.Evidence),
		next.Payer, next.Own, next.Testnet, next.intentID, next.Version, next.OccurredAt, next.UpdatedAt,
	}
	if next.ID != 0 {
		_, err := r.tx.ExecContext(ctx, `
			UPDATE receipts SET tx = $1, via = $2, asset = $3, amount = $4, refunded = $5, usd_cents = $6,
				refunded_cents = $7, status = $8, state = $9, reversed = $10, reversed_at = $11, final = $12,
				evidence_level = $13, evidence = $14, payer = $15, own = $16, testnet = $17, intent_id = $18,
				version = $19, occurred_at = $20, updated_at = $21
			WHERE id = $22`, append(facts, next.ID)...)
		return err
	}
	next.ObservedAt = r.now
	return r.tx.QueryRowContext(ctx, `
		INSERT INTO receipts (tx, via, asset, amount, refunded, usd_cents, refunded_cents, status, state, reversed,
			reversed_at, final, evidence_level, evidence, payer, own, testnet, intent_id, version, occurred_at,
			updated_at, observed_at, offer, account, rail, external_id)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22,
			$23, $24, $25, $26)
		RETURNING id`,
		append(facts, next.ObservedAt, next.Offer, next.Account, next.Rail, next.ExternalID)...).Scan(&next.ID)
}

// join links the row to the intent that the sighting names, and makes the
// intent say what the chain says.
func (r *recorder) join(ctx context.Context, next *Receipt, s Sighting) error {
	if s.EvidenceLevel != LevelChain {
		return nil
	}
	if next.intentID == nil && s.Intent != nil && next.state != StatusDropped {
		if err := r.link(ctx, next, s.Intent.canonical()); err != nil {
			return err
		}
	}
	if next.intentID == nil {
		return nil
	}
	old, err := intentOf(ctx, r.tx, `id = $1`+r.tx.dialect.forUpdate(), *next.intentID)
	if err != nil {
		return err
	}
	intent := old
	if next.state == StatusDropped {
		intent.reopen(s.Cause)
	} else {
		if err := intent.settle(next.Transaction, s.Answer, EvidenceChain); err != nil {
			return err
		}
		intent.Transaction = next.Transaction // also when it moved to this row
	}
	if reflect.DeepEqual(old, intent) {
		return nil
	}
	return updateIntent(ctx, r.tx, r.delta, old, intent, r.now)
}

// link takes the intent from a row that is not final. An authorization that
// was not sent by this offer is no intent of ours.
func (r *recorder) link(ctx context.Context, next *Receipt, key IntentKey) error {
	intent, err := intentByKey(ctx, r.tx, key)
	if errors.Is(err, ErrNoIntent) {
		return nil
	}
	if err != nil {
		return err
	}
	if intent.Offer != next.Offer || intent.Account != next.Account {
		return nil
	}
	// Without a row there is nothing to free; a final row keeps its intent.
	if _, err := r.tx.ExecContext(ctx,
		`UPDATE receipts SET intent_id = NULL WHERE intent_id = $1 AND NOT final`, intent.ID); err != nil {
		return err
	}
	var taken bool
	if err := r.tx.QueryRowContext(ctx,
		`SELECT EXISTS (SELECT 1 FROM receipts WHERE intent_id = $1)`, intent.ID).Scan(&taken); err != nil {
		return err
	}
	if !taken {
		next.intentID = &intent.ID
	}
	return nil
}
