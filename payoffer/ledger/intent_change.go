package ledger

import (
	"context"
	"errors"
	"fmt"

	"github.com/payoffer/caddy-pay-offer/payoffer/failpoint"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/book"
)

// InsertIntent commits an intent in the state IntentSettling; only then may
// it be sent to a facilitator. Errors, in the order of the checks:
// *IntentExistsError for a known key, *ConflictError while
// another authorization of the payer is open, ErrPaymentID, errNotRegistered.
func (l *Ledger) InsertIntent(ctx context.Context, i Intent) error {
	i.IntentKey = i.Canonical()
	if i.Network == "" || i.Asset == "" || i.From == "" || i.Nonce == "" || i.Fingerprint == "" {
		return errors.New("an intent needs its whole key and a fingerprint")
	}
	if !book.Storable(i.Network, i.Asset, i.From, i.Nonce, i.PaymentID, i.Fingerprint, i.Facilitator, i.Transaction, i.Reason) {
		return errors.New("a text of the intent is not UTF-8 or holds U+0000")
	}
	i.State, i.Evidence, i.Answer = IntentSettling, "", nil
	i.CreatedAt = l.now().Unix()
	i.UpdatedAt = i.CreatedAt
	return l.transact(ctx, func(tx *transaction) error {
		if err := refuseIntent(ctx, tx, i); err != nil {
			return err
		}
		account, err := accountOf(ctx, tx, i.Offer, i.Account)
		if err != nil {
			return err
		}
		i.Rail, i.Testnet = account.Rail, account.Testnet
		if i.ID, err = insertIntent(ctx, tx, i); err != nil {
			return err
		}
		failpoint.Hit(failpoint.TransactionIntent)
		if err := claimPaymentID(ctx, tx, i); err != nil {
			return err
		}
		return addToTotals(ctx, tx, book.Sums{}.Change(Total{}, i.total()))
	})
}

// refuseIntent finds the known intent, or the open one of the same payer on any
// chain, that the new one would collide with.
func refuseIntent(ctx context.Context, tx *transaction, i Intent) error {
	// The equal authorization sorts before another that is open.
	found, err := intentOf(ctx, tx, `(network = $1 AND asset = $2 AND payer = $3 AND nonce = $4)
		OR (offer = $5 AND payer = $3 AND state = 'settling')
		ORDER BY CASE WHEN network = $1 AND asset = $2 AND nonce = $4 THEN 0 ELSE 1 END, id LIMIT 1`,
		i.Network, i.Asset, i.From, i.Nonce, i.Offer)
	switch {
	case errors.Is(err, ErrNoIntent):
		return nil
	case err != nil:
		return fmt.Errorf("looking for the intent: %w", err)
	case found.IntentKey == i.IntentKey:
		return &IntentExistsError{Existing: found}
	default:
		return &ConflictError{Open: found}
	}
}

func insertIntent(ctx context.Context, tx *transaction, i Intent) (id int64, err error) {
	id, _, err = first(query(ctx, tx, scanValue[int64], `
		INSERT INTO intents (network, asset, payer, nonce, offer, account, rail, testnet, own, amount, usd_cents,
			payment_id, fingerprint, version, payload, requirement, facilitator, valid_before, state, owner, lease_until,
			tx, reason, evidence, created_at, updated_at)
		VALUES `+placeholders(1, 26)+` RETURNING id`,
		i.Network, i.Asset, i.From, i.Nonce, i.Offer, i.Account, i.Rail, i.Testnet, i.Own, i.Amount, i.USDCents,
		i.PaymentID, i.Fingerprint, i.Version, i.Payload, i.Requirement, i.Facilitator, i.ValidBefore, i.State, i.Owner,
		i.LeaseUntil, i.Transaction, i.Reason, i.Evidence, i.CreatedAt, i.UpdatedAt))
	if err != nil {
		return 0, fmt.Errorf("inserting the intent: %w", err)
	}
	return id, nil
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
// the chain alone. Errors: ErrNoIntent, ErrIntentState.
func (l *Ledger) SettleIntent(ctx context.Context, key IntentKey, transaction string, answer []byte, evidence string) error {
	if evidence != EvidenceFacilitator && evidence != EvidenceChain {
		return fmt.Errorf("unknown evidence %q of an intent", evidence)
	}
	return l.changeIntent(ctx, key, func(i *Intent) error {
		return i.settle(transaction, answer, evidence)
	})
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
	i.Answer, i.Owner, i.LeaseUntil, i.reopened = nil, "", 0, true
}

// changeIntent runs f on the stored intent and stores the outcome.
func (l *Ledger) changeIntent(ctx context.Context, key IntentKey, f func(*Intent) error) error {
	return l.transact(ctx, func(tx *transaction) error {
		old, err := intentByKey(ctx, tx, key.Canonical())
		if err != nil {
			return err
		}
		next := old
		if err := f(&next); err != nil {
			return err
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
			updated_at = $8, reopened = $9, facilitator = $10 WHERE id = $11`,
		next.State, next.Owner, next.LeaseUntil, next.Transaction, next.Answer, next.Reason, next.Evidence,
		now, next.reopened, next.Facilitator, next.ID)
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
