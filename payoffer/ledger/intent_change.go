package ledger

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/failpoint"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/accounting"
)

// InsertIntent commits an open intent. Only then may it be sent to a facilitator. Errors, in
// the order of the checks: *IntentExistsError, *ConflictError, ErrPaymentID, errNotRegistered.
func (l *Ledger) InsertIntent(ctx context.Context, i Intent) error {
	i.State, i.Evidence = IntentSettling, ""
	if err := l.complete(&i); err != nil {
		return err
	}
	tried := false
	return l.transact(ctx, func(ctx context.Context, tx *transaction) error {
		// The first attempt only inserts. If it fails, the second one finds the reason.
		if tried {
			if err := l.findObstacle(ctx, tx, i); err != nil {
				return err
			}
		}
		tried = true
		insertIntent(tx, i)
		reservePaymentID(tx, i)
		// Once its row exists, no other intent of the payer can be opened.
		tx.dialect.abortUnless(tx, `EXISTS (SELECT 1 FROM intents WHERE payer = $2 AND `+sameKey+` AND (payment_id = '' OR id = (
				SELECT intent_id FROM payment_ids WHERE payer = $2 AND payment_id = $4)))
			AND NOT EXISTS (SELECT 1 FROM intents WHERE `+conflicts+` AND NOT `+sameKey+`)`,
			append(l.conflictArgs(i), i.Network, i.Asset, i.Nonce)...)
		addMoved(tx, i.IntentKey, accounting.Classification{}, openClassification)
		return nil
	})
}

// sameKey is byIntentKey with the arguments of conflicts.
const sameKey = `(network = $9 AND asset = $10 AND nonce = $11)`

// ImportIntent commits an intent that was settled elsewhere, with its Transfer, even if another
// intent of its payer is open. It stores no Secret, because the sender may have read the
// authorization on the chain. Errors: *IntentExistsError, errNotRegistered, ErrObservation.
func (l *Ledger) ImportIntent(ctx context.Context, i Intent, s Observation) error {
	if err := s.Validate(); err != nil {
		return err
	}
	i.State, i.Evidence, i.Transaction, i.Secret = IntentSettled, EvidenceChain, s.Transaction, ""
	if err := l.complete(&i); err != nil {
		return err
	}
	s.Intent = &i.IntentKey
	return l.transact(ctx, func(ctx context.Context, tx *transaction) error {
		tx.dialect.lock(tx, s.ExternalID)
		if err := requireUnknown(ctx, tx, i.IntentKey); err != nil {
			return err
		}
		inserted := insertIntent(tx, i)
		reservePaymentID(tx, i) // no effect if another payment has it
		if err := tx.flush(ctx); err != nil {
			return err
		}
		if inserted.changed == 0 {
			return notRegistered(i)
		}
		r := recorder{tx: tx, now: i.CreatedAt, delta: accounting.Sums{}, stored: accounting.Sums{}}
		if _, err := r.record(ctx, s); err != nil {
			return err
		}
		addToTotals(tx, r.delta)
		return nil
	})
}

// findObstacle returns the reason why an intent cannot be opened, or nil.
func (l *Ledger) findObstacle(ctx context.Context, tx *transaction, i Intent) error {
	conflicting := queueQuery(tx, scanIntent, selectIntents+conflicts+openFirst, l.conflictArgs(i)...)
	identified := queueQuery(tx, scanValue[string], `SELECT state FROM intents WHERE state <> 'refused' AND id = (
		SELECT intent_id FROM payment_ids WHERE payer = $1 AND payment_id = $2)`, i.From, i.PaymentID)
	account := queueQuery(tx, scanValue[string], `SELECT account FROM accounts WHERE offer = $1 AND account = $2`, i.Offer, i.Account)
	if err := requireUnknown(ctx, tx, i.IntentKey); err != nil {
		return err
	}
	if other, found := conflicting.one(); found {
		return &ConflictError{Other: other}
	}
	if _, found := identified.one(); found {
		return ErrPaymentID
	}
	if _, found := account.one(); !found {
		return notRegistered(i)
	}
	return nil
}

// requireUnknown returns *IntentExistsError for a key that the ledger has.
func requireUnknown(ctx context.Context, tx *transaction, key IntentKey) error {
	existing, err := intentOf(ctx, tx, byIntentKey, key.Network, key.Asset, key.From, key.Nonce)
	switch {
	case errors.Is(err, ErrNoIntent):
		return nil
	case err != nil:
		return fmt.Errorf("looking for the intent: %w", err)
	}
	return &IntentExistsError{Existing: existing}
}

func notRegistered(i Intent) error {
	return fmt.Errorf("offer %q, account %q: %w", i.Offer, i.Account, errNotRegistered)
}

// complete makes the key of a new intent canonical, sets its times, and checks it.
func (l *Ledger) complete(i *Intent) error {
	i.IntentKey = i.Canonical()
	if i.Network == "" || i.Asset == "" || i.From == "" || i.Nonce == "" || i.Fingerprint == "" {
		return errors.New("the x402 payment lacks network, asset, payer, nonce or fingerprint; report this as a bug")
	}
	if !accounting.Storable(i.Network, i.Asset, i.From, i.Nonce, i.PaymentID, i.Fingerprint, i.Facilitator, i.Transaction, i.Reason, i.Secret) {
		return errors.New("a text of the x402 payment is not UTF-8 or contains U+0000; report this as a bug")
	}
	i.CreatedAt = l.now().Unix()
	i.UpdatedAt = i.CreatedAt
	return nil
}

// insertIntent stores the row if its account is registered. It copies
// rejected_until of earlier refused intents with its payment identifier, because the
// authorizations that were rejected because of them may still be sent.
func insertIntent(tx *transaction, i Intent) *statement {
	inserted := tx.queue("inserting the intent", `
		INSERT INTO intents (network, asset, payer, nonce, offer, account, own, amount, usd_cents,
			payment_id, fingerprint, version, payload, requirement, facilitator, valid_before, state, owner, lease_until,
			tx, reason, evidence, created_at, updated_at, secret, rail, testnet, unacknowledged, rejected_until)
		SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $23, $24,
			rail, testnet, before.rejected > 0, before.rejected
		FROM accounts, (SELECT COALESCE(max(rejected_until), 0) AS rejected FROM intents
			WHERE offer = $5 AND payer = $3 AND payment_id = $10 AND state = 'refused' AND rejected_until > $23) AS before
		WHERE accounts.offer = $5 AND accounts.account = $6`,
		i.Network, i.Asset, i.From, i.Nonce, i.Offer, i.Account, i.Own, i.Amount, i.USDCents,
		i.PaymentID, i.Fingerprint, i.Version, i.Payload, i.Requirement, i.Facilitator, i.ValidBefore, i.State, i.Owner,
		i.LeaseUntil, i.Transaction, i.Reason, i.Evidence, i.CreatedAt, i.Secret)
	failpoint.Hit(failpoint.TransactionIntent)
	return inserted
}

// reservePaymentID gives the payment identifier to the intent if it is free or a refused intent has it.
func reservePaymentID(tx *transaction, i Intent) {
	if i.PaymentID == "" {
		return
	}
	tx.queue("reserving the payment identifier", `
		INSERT INTO payment_ids (payer, payment_id, intent_id)
		SELECT $3, $5, id FROM intents WHERE `+byIntentKey+`
		ON CONFLICT (payer, payment_id) DO UPDATE SET intent_id = excluded.intent_id
		WHERE (SELECT state FROM intents WHERE id = payment_ids.intent_id) = 'refused'`,
		i.Network, i.Asset, i.From, i.Nonce, i.PaymentID)
}

// SettleIntent records that an intent was paid. It is idempotent and never overwrites a
// stored answer or EvidenceChain. Only EvidenceChain settles a refused intent. Errors:
// ErrNoIntent, ErrIntentState, and ErrTransaction with EvidenceFacilitator.
func (l *Ledger) SettleIntent(ctx context.Context, key IntentKey, hash string, answer []byte, evidence string) error {
	switch evidence {
	case EvidenceChain:
		return l.changeIntent(ctx, key, func(i *Intent) error { return i.settle(hash, answer, evidence) })
	case EvidenceFacilitator:
		key, tried := key.Canonical(), false
		return l.transact(ctx, func(ctx context.Context, tx *transaction) error {
			tx.dialect.lock(tx, key.Network+" "+hash)
			// As in InsertIntent, the second attempt finds the reason.
			if !tried {
				tried = true
				settleOpen(tx, key, hash, answer, l.now().Unix())
				return nil
			}
			return l.changeWithTransactionIn(ctx, tx, key, hash, func(i *Intent, named bool) error {
				if named && i.State == IntentSettling {
					return ErrTransaction
				}
				return i.settle(hash, answer, evidence)
			})
		})
	default:
		return fmt.Errorf("unknown evidence %q of an intent; report this as a bug", evidence)
	}
}

// changeWithTransaction is changeIntent for a claim that a transaction paid the intent. named reports
// whether another intent of the network names that transaction. It locks the transaction.
func (l *Ledger) changeWithTransaction(ctx context.Context, key IntentKey, hash string, f func(i *Intent, named bool) error) error {
	key = key.Canonical()
	return l.transact(ctx, func(ctx context.Context, tx *transaction) error {
		tx.dialect.lock(tx, key.Network+" "+hash)
		return l.changeWithTransactionIn(ctx, tx, key, hash, f)
	})
}

func (l *Ledger) changeWithTransactionIn(ctx context.Context, tx *transaction, key IntentKey, hash string, f func(i *Intent, named bool) error) error {
	others := queueQuery(tx, scanValue[int64], `SELECT id FROM intents WHERE `+otherWithTransaction+` LIMIT 1`,
		key.Network, key.Asset, key.From, key.Nonce, hash)
	return l.changeIntentIn(ctx, tx, key, func(i *Intent) error {
		_, named := others.one()
		return f(i, named)
	})
}

// otherWithTransaction selects the other intents that name the transaction.
const otherWithTransaction = `network = $1 AND tx = $5 AND tx <> '' AND state <> 'refused' AND NOT (asset = $2 AND payer = $3 AND nonce = $4)`

// settleOpen settles an open intent whose transaction no other intent names. For any other it fails.
func settleOpen(tx *transaction, key IntentKey, hash string, answer []byte, now int64) {
	args := []any{key.Network, key.Asset, key.From, key.Nonce, hash}
	tx.dialect.abortUnless(tx, `EXISTS (SELECT 1 FROM intents WHERE `+byIntentKey+` AND state = 'settling'`+tx.dialect.forUpdate()+`)
		AND NOT EXISTS (SELECT 1 FROM intents WHERE `+otherWithTransaction+`)`, args...)
	tx.queue("updating the intent", `
		UPDATE intents SET state = 'settled', evidence = 'facilitator', tx = CASE $5 WHEN '' THEN tx ELSE $5 END,
			answer = $6, reason = '', updated_at = $7
		WHERE `+byIntentKey, append(args, answer, now)...)
	addMoved(tx, key, openClassification, claimedClassification)
}

func (i *Intent) settle(transaction string, answer []byte, evidence string) error {
	if i.State == IntentRefused && evidence != EvidenceChain {
		return fmt.Errorf("%w: it was refused", ErrIntentState)
	}
	if i.Answer == nil && len(answer) > 0 {
		i.Answer = answer
	}
	if i.State == IntentSettled && (i.Evidence == EvidenceChain || evidence == EvidenceFacilitator) {
		return nil
	}
	i.State, i.Evidence, i.Reason = IntentSettled, evidence, ""
	if transaction != "" {
		i.Transaction = transaction
	}
	return nil
}

// RefuseIntent records that an intent cannot be paid any more, and the reason code. Errors:
// ErrNoIntent, and ErrIntentState for a settled intent.
func (l *Ledger) RefuseIntent(ctx context.Context, key IntentKey, reason string) error {
	return l.changeIntent(ctx, key, func(i *Intent) error {
		switch i.State {
		case IntentSettled:
			return fmt.Errorf("%w: it was settled", ErrIntentState)
		case IntentSettling:
			i.State, i.Reason = IntentRefused, reason
		}
		return nil
	})
}

// UpdateOpenIntent stores a transaction or reason that is not empty, and gives owner the
// lease until the Unix second lease. A past one releases it. Errors:
// errLeaseHeld, ErrNoIntent, ErrIntentState.
func (l *Ledger) UpdateOpenIntent(ctx context.Context, key IntentKey, owner string, lease int64, transaction, reason string) error {
	return l.changeIntent(ctx, key, func(i *Intent) error {
		if i.State != IntentSettling {
			return fmt.Errorf("%w: it was %s", ErrIntentState, i.State)
		}
		if i.Owner != owner && i.Leased(l.now()) {
			return errLeaseHeld
		}
		i.Owner, i.LeaseUntil = owner, lease
		if now := l.now(); lease <= now.Unix() {
			// If the process ends before this, the intent is due when its lease ends.
			i.pollAt = now.Unix() + untilPoll(i.CreatedAt, now, longestOpen)
		}
		if transaction != "" {
			i.Transaction = transaction
		}
		if reason != "" {
			i.Reason = reason
		}
		return nil
	})
}

// MoveIntent assigns an open intent to another facilitator (its host). The intent must not
// have been sent. Only the owner of the lease may call it. Errors: as for WithdrawIntent.
func (l *Ledger) MoveIntent(ctx context.Context, key IntentKey, owner, facilitator string) error {
	return l.changeIntent(ctx, key, func(i *Intent) error {
		if err := i.requireUnsent(owner); err != nil {
			return err
		}
		i.Facilitator = facilitator
		return nil
	})
}

// ReopenIntent makes the outcome of a settled intent unknown again, because its transaction
// is not on the chain. The hash stays as a hint. It is idempotent. Errors: ErrNoIntent, and
// ErrIntentState for a refused intent.
func (l *Ledger) ReopenIntent(ctx context.Context, key IntentKey, reason string) error {
	return l.changeIntent(ctx, key, func(i *Intent) error {
		if i.State == IntentRefused {
			return fmt.Errorf("%w: it was refused", ErrIntentState)
		}
		i.reopen(reason)
		return nil
	})
}

func (i *Intent) reopen(reason string) {
	if i.State != IntentSettled {
		return
	}
	i.State, i.Evidence, i.Reason = IntentSettling, "", reason
	i.Answer, i.Owner, i.LeaseUntil, i.pollAt, i.reopened = nil, "", 0, 0, true
}

// changeIntent runs f on the stored intent and stores the result.
func (l *Ledger) changeIntent(ctx context.Context, key IntentKey, f func(*Intent) error) error {
	return l.transact(ctx, func(ctx context.Context, tx *transaction) error {
		return l.changeIntentIn(ctx, tx, key.Canonical(), f)
	})
}

func (l *Ledger) changeIntentIn(ctx context.Context, tx *transaction, key IntentKey, f func(*Intent) error) error {
	old, err := intentByKey(ctx, tx, key)
	if err != nil {
		return err
	}
	next := old
	if err := f(&next); err != nil || reflect.DeepEqual(old, next) {
		return err
	}
	delta := accounting.Sums{}
	updateIntent(tx, delta, old, next, l.now().Unix())
	addToTotals(tx, delta)
	return nil
}

// updateIntent stores the fields that change after the insert.
func updateIntent(tx *transaction, delta accounting.Sums, old, next Intent, now int64) {
	delta.Change(old.total(), next.total())
	tx.queue("updating the intent", `
		UPDATE intents SET state = $1, owner = $2, lease_until = $3, tx = $4, answer = $5, reason = $6, evidence = $7,
			updated_at = $8, reopened = $9, facilitator = $10, unacknowledged = $11, acknowledged_at = $12, rejected_until = $13, poll_at = $14
		WHERE id = $15`,
		next.State, next.Owner, next.LeaseUntil, next.Transaction, next.Answer, next.Reason, next.Evidence,
		now, next.reopened, next.Facilitator, next.Unacknowledged, next.AcknowledgedAt, next.RejectedUntil, next.pollAt, next.ID)
}

// WithdrawIntent deletes an open intent that was not sent, so that the same authorization
// is accepted again. If its payer may still expect it, a row remembers it for insertIntent.
// Only the owner of the lease may call it. Errors: ErrNoIntent, errLeaseHeld, and
// ErrIntentState if it was ever settled or has a transaction.
func (l *Ledger) WithdrawIntent(ctx context.Context, key IntentKey, owner string) error {
	return l.transact(ctx, func(ctx context.Context, tx *transaction) error {
		i, err := intentByKey(ctx, tx, key.Canonical())
		if err != nil {
			return err
		}
		if err := i.requireUnsent(owner); err != nil {
			return err
		}
		now := l.now().Unix()
		tx.queue("withdrawing the payment identifier", `DELETE FROM payment_ids WHERE intent_id = $1`, i.ID)
		tx.queue("deleting expired withdrawn intents", `DELETE FROM intents
			WHERE offer = $1 AND payer = $2 AND state = 'refused' AND reason = $3 AND rejected_until <= $4`, i.Offer, i.From, reasonWithdrawn, now)
		if i.Facilitator == "" || i.Unacknowledged {
			// insertIntent reads this row. No authorization has its nonce.
			until := max(i.RejectedUntil, min(i.ValidBefore, now+int64(rememberedFor/time.Second)))
			tx.queue("remembering the withdrawn intent", `UPDATE intents SET state = 'refused', reason = $1, nonce = $2, rejected_until = $3,
				updated_at = $4, payload = $5, requirement = $5 WHERE id = $6`,
				reasonWithdrawn, fmt.Sprintf("%s/%d", i.Nonce, i.ID), until, now, []byte{}, i.ID)
		} else {
			tx.queue("withdrawing the intent", `DELETE FROM intents WHERE id = $1`, i.ID)
		}
		addToTotals(tx, accounting.Sums{}.Change(i.total(), Total{}))
		return nil
	})
}

// reasonWithdrawn is the reason of a row that remembers a withdrawn intent.
const reasonWithdrawn = "withdrawn"

// rememberedFor bounds how long a withdrawn intent is remembered. Payments that are valid
// for longer are refused.
const rememberedFor = 15 * time.Minute

// requireUnsent returns an error if the intent may have been sent or is not owner's.
func (i *Intent) requireUnsent(owner string) error {
	switch {
	case i.State != IntentSettling:
		return fmt.Errorf("%w: it was %s", ErrIntentState, i.State)
	case i.Transaction != "" || i.reopened:
		return fmt.Errorf("%w: it was sent", ErrIntentState)
	case i.Owner != owner:
		return errLeaseHeld
	}
	return nil
}
