package ledger

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/payoffer/caddy-pay-offer/payoffer/failpoint"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/book"
)

// InsertIntent commits an intent in the state IntentSettling; only then may
// it be sent to a facilitator. Errors, in the order of the checks:
// *IntentExistsError for a known key, *ConflictError for a payment of the
// payer that is in its way, ErrPaymentID, errNotRegistered.
func (l *Ledger) InsertIntent(ctx context.Context, i Intent) error {
	i.State, i.Evidence = IntentSettling, ""
	return l.insert(ctx, i, func(tx *transaction, i Intent) error {
		if err := l.inTheWay(ctx, tx, i); err != nil {
			return err
		}
		if err := inherit(ctx, tx, &i); err != nil {
			return err
		}
		if err := insertIntent(ctx, tx, &i); err != nil {
			return err
		}
		if err := claimPaymentID(ctx, tx, i); err != nil {
			return err
		}
		// Now that its row is there no other one of the payer can be opened: what
		// was charged since the first look is seen by this one.
		if err := l.inTheWay(ctx, tx, i); err != nil {
			return err
		}
		return addToTotals(ctx, tx, book.Sums{}.Change(Total{}, i.total()))
	})
}

// AdoptIntent commits an intent that was paid before it came here, together
// with the Transfer that it made, whatever else of its payer is open. Errors:
// *IntentExistsError, errNotRegistered, ErrSighting.
func (l *Ledger) AdoptIntent(ctx context.Context, i Intent, s Sighting) error {
	if err := s.Validate(); err != nil {
		return err
	}
	i.State, i.Evidence, i.Transaction = IntentSettled, EvidenceChain, s.Transaction
	s.Intent = &i.IntentKey
	return l.insert(ctx, i, func(tx *transaction, i Intent) error {
		if err := tx.dialect.orderHistory(ctx, tx.Tx); err != nil {
			return err
		}
		if err := insertIntent(ctx, tx, &i); err != nil {
			return err
		}
		// An identifier that another payment has stays there.
		if err := claimPaymentID(ctx, tx, i); err != nil && !errors.Is(err, ErrPaymentID) {
			return err
		}
		r := recorder{tx: tx, now: i.CreatedAt, delta: book.Sums{}, stored: book.Sums{}}
		if _, err := r.record(ctx, s); err != nil {
			return err
		}
		return addToTotals(ctx, tx, r.delta)
	})
}

// insert runs commit for an intent that is whole and not known yet.
func (l *Ledger) insert(ctx context.Context, i Intent, commit func(*transaction, Intent) error) error {
	i.IntentKey = i.Canonical()
	if i.Network == "" || i.Asset == "" || i.From == "" || i.Nonce == "" || i.Fingerprint == "" {
		return errors.New("an intent needs its whole key and a fingerprint")
	}
	if !book.Storable(i.Network, i.Asset, i.From, i.Nonce, i.PaymentID, i.Fingerprint, i.Facilitator, i.Transaction, i.Reason) {
		return errors.New("a text of the intent is not UTF-8 or holds U+0000")
	}
	i.CreatedAt = l.now().Unix()
	i.UpdatedAt = i.CreatedAt
	return l.transact(ctx, func(tx *transaction) error {
		known, err := intentOf(ctx, tx, byIntentKey, i.Network, i.Asset, i.From, i.Nonce)
		switch {
		case err == nil:
			return &IntentExistsError{Existing: known}
		case !errors.Is(err, ErrNoIntent):
			return fmt.Errorf("looking for the intent: %w", err)
		}
		account, err := accountOf(ctx, tx, i.Offer, i.Account)
		if err != nil {
			return err
		}
		i.Rail, i.Testnet = account.Rail, account.Testnet
		return commit(tx, i)
	})
}

// insertIntent stores the row and gives it its ID.
func insertIntent(ctx context.Context, tx *transaction, i *Intent) error {
	id, _, err := first(query(ctx, tx, scanValue[int64], `
		INSERT INTO intents (network, asset, payer, nonce, offer, account, rail, testnet, own, amount, usd_cents,
			payment_id, fingerprint, version, payload, requirement, facilitator, valid_before, state, owner, lease_until,
			tx, reason, evidence, created_at, updated_at, doubt, turned_until)
		VALUES `+placeholders(1, 28)+` RETURNING id`,
		i.Network, i.Asset, i.From, i.Nonce, i.Offer, i.Account, i.Rail, i.Testnet, i.Own, i.Amount, i.USDCents,
		i.PaymentID, i.Fingerprint, i.Version, i.Payload, i.Requirement, i.Facilitator, i.ValidBefore, i.State, i.Owner,
		i.LeaseUntil, i.Transaction, i.Reason, i.Evidence, i.CreatedAt, i.UpdatedAt, i.Doubt, i.TurnedUntil))
	if err != nil {
		return fmt.Errorf("inserting the intent: %w", err)
	}
	i.ID = id
	failpoint.Hit(failpoint.TransactionIntent)
	return nil
}

// claimPaymentID takes the identifier over from a refused intent.
func claimPaymentID(ctx context.Context, tx *transaction, i Intent) error {
	if i.PaymentID == "" {
		return nil
	}
	claimed, err := tx.exec(ctx, "claiming the payment identifier", `
		INSERT INTO payment_ids (payer, payment_id, intent_id) VALUES ($1, $2, $3)
		ON CONFLICT (payer, payment_id) DO UPDATE SET intent_id = excluded.intent_id
		WHERE (SELECT state FROM intents WHERE id = payment_ids.intent_id) = 'refused'`,
		i.From, i.PaymentID, i.ID)
	if err == nil && claimed == 0 {
		return ErrPaymentID
	}
	return err
}

// SettleIntent records that an intent was paid, by EvidenceFacilitator or
// EvidenceChain. Repeating it changes nothing; an answer that is stored and
// evidence of the chain are never overwritten. A refused intent is settled by
// the chain alone. Errors: ErrNoIntent, ErrIntentState, and ErrTransaction for
// a claim of a transaction that another intent of the network names.
func (l *Ledger) SettleIntent(ctx context.Context, key IntentKey, hash string, answer []byte, evidence string) error {
	if evidence != EvidenceFacilitator && evidence != EvidenceChain {
		return fmt.Errorf("unknown evidence %q of an intent", evidence)
	}
	return l.changeIntentIn(ctx, key, func(tx *transaction, i *Intent) error {
		if evidence == EvidenceFacilitator && i.State == IntentSettling {
			if err := claimTransaction(ctx, tx, *i, hash); err != nil {
				return err
			}
		}
		return i.settle(hash, answer, evidence)
	})
}

// claimTransaction refuses a transaction that another intent names. Claims are
// committed one after the other.
func claimTransaction(ctx context.Context, tx *transaction, i Intent, hash string) error {
	if err := tx.dialect.orderHistory(ctx, tx.Tx); err != nil {
		return err
	}
	_, err := intentOf(ctx, tx, `network = $1 AND tx = $2 AND tx <> '' AND id <> $3 AND state <> 'refused' LIMIT 1`, i.Network, hash, i.ID)
	switch {
	case err == nil:
		return ErrTransaction
	case errors.Is(err, ErrNoIntent):
		return nil
	default:
		return err
	}
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

// RefuseIntent records a definite no and its reason code, which frees the
// payer and the payment identifier. Errors: ErrNoIntent, and ErrIntentState
// for a settled intent.
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

// NoteIntent keeps an intent open and records what was learned; an empty
// transaction or reason leaves what is stored. It makes owner, which names
// one attempt, the holder of the lease until the Unix second lease; one that
// is past gives the lease up. Errors: errLeaseHeld while another owner's
// lease runs, ErrNoIntent, ErrIntentState.
func (l *Ledger) NoteIntent(ctx context.Context, key IntentKey, owner string, lease int64, transaction, reason string) error {
	return l.changeIntent(ctx, key, func(i *Intent) error {
		if i.State != IntentSettling {
			return fmt.Errorf("%w: it was %s", ErrIntentState, i.State)
		}
		if i.Owner != owner && i.LeaseUntil > l.now().Unix() {
			return errLeaseHeld
		}
		i.Owner, i.LeaseUntil = owner, lease
		if now := l.now(); lease <= now.Unix() {
			// Whoever is killed at work leaves it to be looked at when the lease ends.
			i.lookAt = now.Unix() + untilLook(i.CreatedAt, now, longestOpen)
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

// MoveIntent hands an open intent of which certainly nothing was sent to
// another facilitator, named without its URL. It is for the owner of the lease
// alone; the lease stays as it is. Errors: as for WithdrawIntent.
func (l *Ledger) MoveIntent(ctx context.Context, key IntentKey, owner, facilitator string) error {
	return l.changeIntent(ctx, key, func(i *Intent) error {
		if err := i.unsent(owner); err != nil {
			return err
		}
		i.Facilitator = facilitator
		return nil
	})
}

// ReopenIntent makes a settled intent unknown again, since its transaction
// left the chain or never was on it: the stored answer and the lease are
// gone, the transaction's hash stays as a hint. Repeating it changes nothing.
// Errors: ErrNoIntent, and ErrIntentState for a refused intent.
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
	i.Answer, i.Owner, i.LeaseUntil, i.lookAt, i.reopened = nil, "", 0, 0, true
}

// changeIntent runs f on the stored intent and stores the outcome.
func (l *Ledger) changeIntent(ctx context.Context, key IntentKey, f func(*Intent) error) error {
	return l.changeIntentIn(ctx, key, func(_ *transaction, i *Intent) error { return f(i) })
}

// changeIntentIn is changeIntent for what needs more of the ledger.
func (l *Ledger) changeIntentIn(ctx context.Context, key IntentKey, f func(*transaction, *Intent) error) error {
	return l.transact(ctx, func(tx *transaction) error {
		old, err := intentByKey(ctx, tx, key.Canonical())
		if err != nil {
			return err
		}
		next := old
		if err := f(tx, &next); err != nil {
			return err
		}
		if reflect.DeepEqual(old, next) {
			return nil
		}
		delta := book.Sums{}
		if err := updateIntent(ctx, tx, delta, old, next, l.now().Unix()); err != nil {
			return err
		}
		return addToTotals(ctx, tx, delta)
	})
}

// updateIntent stores the fields that change after the insert.
func updateIntent(ctx context.Context, tx *transaction, delta book.Sums, old, next Intent, now int64) error {
	delta.Change(old.total(), next.total())
	_, err := tx.exec(ctx, "updating the intent", `
		UPDATE intents SET state = $1, owner = $2, lease_until = $3, tx = $4, answer = $5, reason = $6, evidence = $7,
			updated_at = $8, reopened = $9, facilitator = $10, doubt = $11, told_at = $12, turned_until = $13, look_at = $14
		WHERE id = $15`,
		next.State, next.Owner, next.LeaseUntil, next.Transaction, next.Answer, next.Reason, next.Evidence,
		now, next.reopened, next.Facilitator, next.Doubt, next.ToldAt, next.TurnedUntil, next.lookAt, next.ID)
	return err
}

// WithdrawIntent forgets an open intent of which certainly nothing was sent,
// so that the same authorization can be taken again. It is for the owner of
// the lease alone. Errors: ErrNoIntent, errLeaseHeld for another owner, and
// ErrIntentState for an intent that was refused, settled at any time, or has
// a transaction.
func (l *Ledger) WithdrawIntent(ctx context.Context, key IntentKey, owner string) error {
	return l.transact(ctx, func(tx *transaction) error {
		i, err := intentByKey(ctx, tx, key.Canonical())
		if err != nil {
			return err
		}
		if err := i.unsent(owner); err != nil {
			return err
		}
		if _, err := tx.exec(ctx, "withdrawing the payment identifier", `DELETE FROM payment_ids WHERE intent_id = $1`, i.ID); err != nil {
			return err
		}
		if _, err := tx.exec(ctx, "withdrawing the intent", `DELETE FROM intents WHERE id = $1`, i.ID); err != nil {
			return err
		}
		return addToTotals(ctx, tx, book.Sums{}.Change(i.total(), Total{}))
	})
}

// unsent refuses what may have been sent, or is not owner's.
func (i *Intent) unsent(owner string) error {
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
