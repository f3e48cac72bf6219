package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/failpoint"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/accounting"
)

// Record commits observations in one transaction: rows, returns, transitions, sums, joined
// intents, and the cursor (or nil) that covers them. It returns the rows. An addendum without
// a row, and a Once observation of money in another account, have none. It is idempotent.
// Errors: ErrObservation, ErrChanged, errNotRegistered.
//
// An observation with an intent settles it by EvidenceChain; a dropped one reopens it. A chain
// uses an authorization once. If a second movement names the intent, the first has left the
// chain, and the intent is linked to the second one, unless the first is final.
func (l *Ledger) Record(ctx context.Context, cursor *Cursor, observations ...Observation) ([]Receipt, error) {
	for i := range observations {
		if err := observations[i].Validate(); err != nil {
			return nil, err
		}
	}
	// Transitions of an offer are numbered in the order of their commits.
	locks := make([]lock, len(observations))
	for n, s := range observations {
		locks[n] = lock{offerLock, s.Offer}
	}
	var receipts []Receipt
	err := l.writeSums(ctx, locks, func(ctx context.Context, r *recorder) error {
		receipts = nil
		for _, s := range observations {
			receipt, err := r.record(ctx, s)
			if err != nil {
				return fmt.Errorf("recording %q: %w", s.ExternalID, err)
			}
			if receipt.ID != 0 {
				receipts = append(receipts, receipt)
			}
		}
		if cursor == nil {
			return nil
		}
		return l.storeCursor(ctx, r.tx, cursor)
	})
	if err != nil {
		return nil, err
	}
	return receipts, nil
}

// ErrChanged is returned by Record if the version of a receipt is not the one that an
// observation expects.
var ErrChanged = errors.New("the receipt has changed since it was read; read it again")

// recorder is a transaction that changes receipts or intents.
type recorder struct {
	tx        *sql.Tx
	now       int64
	forUpdate string
	delta     accounting.Sums
	stored    accounting.Sums // the sums before it, as far as they were read
	changed   bool            // a receipt or a sum
}

// writeSums runs a change with its locks. It then changes the sums, as the last locks of the transaction.
func (l *Ledger) writeSums(ctx context.Context, locks []lock, do func(ctx context.Context, r *recorder) error) error {
	changed := false
	err := l.write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if err := l.dialect.lock(ctx, tx, locks...); err != nil {
			return err
		}
		r := recorder{tx: tx, now: l.now().Unix(), forUpdate: l.dialect.forUpdate()}
		r.delta, r.stored = accounting.Sums{}, accounting.Sums{}
		if err := do(ctx, &r); err != nil {
			return err
		}
		changed = r.changed
		err := addToTotals(ctx, tx, r.delta)
		failpoint.Hit(failpoint.TransactionSums)
		return err
	})
	if changed {
		l.changes.Add(1)
	}
	return err
}

// record stores one observation and returns its row, if there is one.
func (r *recorder) record(ctx context.Context, s Observation) (Receipt, error) {
	account, err := accountOf(ctx, r.tx, s.Offer, s.Account, "")
	if err != nil {
		return Receipt{}, err
	}
	s.Testnet = s.Testnet || account.Testnet
	stored, err := r.returns(ctx, s)
	if err != nil {
		return Receipt{}, err
	}
	old, _, err := atMostOne(receiptTable.query(ctx, r.tx, `account = $1 AND external_id = $2`, s.Account, s.ExternalID))
	if err != nil {
		return Receipt{}, err
	}
	if s.ExpectedVersion != nil && *s.ExpectedVersion != old.Version {
		return Receipt{}, ErrChanged
	}
	if s.Once && old.Version == 0 {
		elsewhere, err := r.isElsewhere(ctx, s)
		if err != nil || elsewhere {
			return Receipt{}, err
		}
	}
	next, latest := accounting.Merge(old, stored, s)
	if s.Addendum && old.Version == 0 {
		if err := r.storeReturns(ctx, s, nil, stored, latest); err != nil {
			return Receipt{}, err
		}
		return Receipt{}, r.deleteUnmet(ctx, s.Account)
	}
	if !s.Addendum {
		if err := r.joinIntent(ctx, &next, s); err != nil {
			return Receipt{}, err
		}
	}
	if !reflect.DeepEqual(old, next) {
		if err := r.change(ctx, old, &next, s, stored, latest); err != nil {
			return Receipt{}, err
		}
	}
	if old.Version == 0 {
		stored = nil // link all returns to the new row
	}
	return next, r.storeReturns(ctx, s, &next.ID, stored, latest)
}

// isElsewhere reports whether another account of the offer has a receipt with the external ID.
// The lock of the offer serializes concurrent records of it.
func (r *recorder) isElsewhere(ctx context.Context, s Observation) (bool, error) {
	_, found, err := atMostOne(query(ctx, r.tx, scanValue[int64], `
		SELECT id FROM receipts WHERE external_id = $3
			AND account IN (SELECT account FROM accounts WHERE offer = $1 AND account <> $2)`, s.Offer, s.Account, s.ExternalID))
	return found, err
}

// returns reads the returns of the payment.
func (r *recorder) returns(ctx context.Context, s Observation) (stored accounting.ReturnRecords, err error) {
	all, err := returnTable.query(ctx, r.tx, `account = $1 AND external_id = $2`, s.Account, s.ExternalID)
	if len(all) > 0 {
		stored = accounting.ReturnRecords{}
	}
	for _, w := range all {
		stored[w.ID] = w.Return
	}
	return stored, err
}

// change stores the row with its transition and its part of the sums.
func (r *recorder) change(ctx context.Context, old Receipt, next *Receipt, s Observation, stored, latest accounting.ReturnRecords) error {
	failpoint.Hit(failpoint.TransactionJoin)
	next.UpdatedAt = r.now
	steps := next.Steps(old, stored, latest)
	next.Version += int64(len(steps))
	r.changed = true
	if old.Version == 0 {
		next.ObservedAt = r.now
		if err := receiptTable.insertNew(ctx, r.tx, next); err != nil {
			return err
		}
	} else if err := receiptTable.update(ctx, r.tx, next.ID, old, *next); err != nil {
		return err
	}
	failpoint.Hit(failpoint.TransactionRow)
	r.delta.Change(old.Total(), next.Total())
	if err := r.checkSumLimits(ctx, *next); err != nil {
		return err
	}
	from := old.Status
	for i, step := range steps {
		movedAt := step.Return.At
		undone := !step.Return.Gone && stored[step.Return.ID].At >= movedAt // dated as what it undoes
		if undone || movedAt < next.OccurredAt || movedAt > r.now {
			movedAt = 0 // a time that cannot be right
		}
		one := *next
		one.Version, one.Status, one.Refunded = old.Version+int64(i)+1, step.Status, step.Refunded
		if err := insertTransition(ctx, r.tx, one, Transition{
			From: from, Cause: s.Cause, Note: s.Note, ReturnID: step.Return.ID, ReturnKind: step.Return.Kind, MovedAt: movedAt,
		}); err != nil {
			return err
		}
		failpoint.Hit(failpoint.TransactionTransition)
		from = step.Status
	}
	return nil
}

// insertTransition stores t as the transition of a receipt from a status to its new state.
func insertTransition(ctx context.Context, tx *sql.Tx, r Receipt, t Transition) error {
	t.ReceiptID, t.Offer, t.Version, t.At, t.Tag = r.ID, r.Offer, r.Version, r.UpdatedAt, int64(rand.Uint64())
	t.After = accounting.Facts{
		Classification: accounting.Classification{Status: r.Status, EvidenceLevel: r.EvidenceLevel, Own: r.Own, Testnet: r.Testnet},
		Asset:          r.Asset, Amount: r.Amount, Refunded: r.Refunded, USDCents: r.USDCents, OccurredAt: r.OccurredAt,
	}
	_, err := transitionTable.insert(ctx, tx, "", t)
	return err
}

// joinIntent links the row to the intent of the observation, and updates the intent.
func (r *recorder) joinIntent(ctx context.Context, next *Receipt, s Observation) error {
	if s.EvidenceLevel != LevelChain {
		return nil
	}
	if next.IntentID == nil && s.Intent != nil && next.State != StatusDropped {
		if err := r.link(ctx, next, s.Intent.Canonical()); err != nil {
			return err
		}
	}
	if next.IntentID == nil {
		return nil
	}
	old, err := intentOf(ctx, r.tx, `id = $1`+r.forUpdate, *next.IntentID)
	if err != nil {
		return err
	}
	intent, change := old, IntentChange{Event: accounting.EventProven, Transaction: next.Transaction, Answer: s.Answer}
	if next.State == StatusDropped {
		if old.State != IntentSettled {
			return nil
		}
		change = IntentChange{Event: accounting.EventGone, Reason: s.Cause}
	}
	if intent.Progress, err = old.Next(change, time.Unix(r.now, 0)); err != nil {
		return err
	}
	if reflect.DeepEqual(old, intent) {
		return nil
	}
	return r.updateIntent(ctx, old, &intent)
}

// link links the intent to the row instead of one that is not final. It ignores
// authorizations that this offer did not send.
func (r *recorder) link(ctx context.Context, next *Receipt, key IntentKey) error {
	intent, err := intentOf(ctx, r.tx, byIntentKey+` AND offer = $5 AND account = $6`+r.forUpdate,
		key.Network, key.Asset, key.From, key.Nonce, next.Offer, next.Account)
	if errors.Is(err, ErrNoIntent) {
		return nil
	}
	if err != nil {
		return err
	}
	// A final row keeps its intent.
	if _, err := execute(ctx, r.tx, "unlinking the intent",
		`UPDATE receipts SET intent_id = NULL WHERE intent_id = $1 AND NOT final`, intent.ID); err != nil {
		return err
	}
	linked, _, err := atMostOne(query(ctx, r.tx, scanValue[bool],
		`SELECT EXISTS (SELECT 1 FROM receipts WHERE intent_id = $1)`, intent.ID))
	if err == nil && !linked {
		next.IntentID = &intent.ID
	}
	return err
}

const (
	// unmetDays is how long returns wait for their payment: longer than the 30 days for
	// which a provider lists missed events. Most are those of the account's other products.
	unmetDays  = 35
	unmetBatch = 20 // the number of returns that are deleted at once
)

// storedReturn is a return of a payment. receipt is nil while the payment is unknown.
type storedReturn struct {
	Return
	offer, account, externalID string
	receipt                    *int64
	recordedAt                 int64
}

var returnTable = table[storedReturn]{"returns", func(w *storedReturn) []column {
	return []column{
		{"offer", &w.offer}, {"account", &w.account}, {"external_id", &w.externalID}, {"return_id", &w.ID}, {"receipt_id", &w.receipt},
		{"kind", &w.Kind}, {"amount", &w.Amount}, {"currency", &w.Currency}, {"gone", &w.Gone}, {"at", &w.At}, {"rank", &w.Rank},
		{"recorded_at", &w.recordedAt},
	}
}}

// storeReturns stores new returns. receipt is nil while the payment is unknown.
func (r *recorder) storeReturns(ctx context.Context, s Observation, receipt *int64, stored, latest accounting.ReturnRecords) error {
	var added []storedReturn
	for _, w := range latest {
		if w != stored[w.ID] {
			added = append(added, storedReturn{w, s.Offer, s.Account, s.ExternalID, receipt, r.now})
		}
	}
	return returnTable.upsert(ctx, r.tx, `account, external_id, return_id`, added...)
}

// deleteUnmet deletes some returns whose payment was not observed in unmetDays.
func (r *recorder) deleteUnmet(ctx context.Context, account string) error {
	_, err := execute(ctx, r.tx, "deleting returns without a payment", `
		DELETE FROM returns WHERE (account, external_id, return_id) IN (
			SELECT account, external_id, return_id FROM returns
			WHERE receipt_id IS NULL AND account = $1 AND recorded_at < $2 ORDER BY recorded_at LIMIT $3)`,
		account, r.now-unmetDays*24*60*60, unmetBatch)
	return err
}
