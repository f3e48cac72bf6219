package ledger

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"

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
	err := l.write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		// No other intent of the payer is inserted meanwhile.
		if err := l.dialect.lock(ctx, tx, lock{payerLock, i.From}); err != nil {
			return err
		}
		found, err := l.related(ctx, tx, i)
		if err != nil {
			return fmt.Errorf("looking for the payer's intents: %w", err)
		}
		if id := cmp.Or(found.known, found.conflicting); id != 0 {
			other, err := intentOf(ctx, tx, `id = $1`, id)
			switch {
			case err != nil:
				return err
			case found.known != 0:
				return &IntentExistsError{Existing: other}
			}
			return &ConflictError{Other: other}
		}
		if found.identified != 0 {
			return ErrPaymentID
		}
		return insertIntent(ctx, tx, i)
	})
	l.countChange(err == nil)
	return err
}

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
	err := l.write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if err := l.dialect.lock(ctx, tx, lock{payerLock, i.From}, lock{offerLock, s.Offer}); err != nil {
			return err
		}
		if err := requireUnknown(ctx, tx, i.IntentKey); err != nil {
			return err
		}
		if err := insertIntent(ctx, tx, i); err != nil {
			return err
		}
		r := l.newRecorder(tx)
		if _, err := r.record(ctx, s); err != nil {
			return err
		}
		return addToTotals(ctx, tx, r.delta)
	})
	l.countChange(err == nil)
	return err
}

// RejectIntent stores a new intent as refused: its authorization is never sent. Errors:
// *IntentExistsError, errNotRegistered.
func (l *Ledger) RejectIntent(ctx context.Context, i Intent) error {
	i.State, i.Evidence = IntentRefused, ""
	if err := l.complete(&i); err != nil {
		return err
	}
	return l.write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if err := requireUnknown(ctx, tx, i.IntentKey); err != nil {
			return err
		}
		return insertIntent(ctx, tx, i)
	})
}

// requireUnknown returns *IntentExistsError for a key that the ledger has.
func requireUnknown(ctx context.Context, tx *sql.Tx, key IntentKey) error {
	existing, err := intentOf(ctx, tx, byIntentKey, key.Network, key.Asset, key.From, key.Nonce)
	switch {
	case errors.Is(err, ErrNoIntent):
		return nil
	case err != nil:
		return fmt.Errorf("looking for the intent: %w", err)
	}
	return &IntentExistsError{Existing: existing}
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

// insertIntent stores a new intent with the rail of its account. It copies RejectedUntil of
// earlier refused intents with its payment identifier, because the authorizations that were
// rejected because of them may still be sent. Error: errNotRegistered.
func insertIntent(ctx context.Context, tx *sql.Tx, i Intent) error {
	err := tx.QueryRowContext(ctx, `
		SELECT rail, testnet, (SELECT coalesce(max(rejected_until), 0) FROM intents
			WHERE offer = $1 AND payer = $3 AND payment_id = $4 AND state = 'refused' AND rejected_until > $5)
		FROM accounts WHERE offer = $1 AND account = $2`, i.Offer, i.Account, i.From, i.PaymentID, i.CreatedAt).
		Scan(&i.Rail, &i.Testnet, &i.RejectedUntil)
	if errors.Is(err, sql.ErrNoRows) {
		return notRegistered(i.Offer, i.Account)
	}
	if err != nil {
		return fmt.Errorf("reading the account of the intent: %w", err)
	}
	i.Unacknowledged = i.RejectedUntil > 0
	err = insertRow(ctx, tx, "intents", intentColumns(&i))
	failpoint.Hit(failpoint.TransactionIntent)
	return err
}
