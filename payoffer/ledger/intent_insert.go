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
	// No other intent of the payer is inserted meanwhile.
	return l.writeSums(ctx, []lock{{payerLock, i.From}}, func(ctx context.Context, r *recorder) error {
		found, err := l.related(ctx, r.tx, i)
		if err != nil {
			return fmt.Errorf("looking for the payer's intents: %w", err)
		}
		if id := cmp.Or(found.known, found.conflicting); id != 0 {
			other, err := intentOf(ctx, r.tx, `id = $1`, id)
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
		return r.insertIntent(ctx, i)
	})
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
	return l.writeSums(ctx, []lock{{payerLock, i.From}, {offerLock, s.Offer}}, func(ctx context.Context, r *recorder) error {
		if err := r.insertUnknown(ctx, i); err != nil {
			return err
		}
		_, err := r.record(ctx, s)
		return err
	})
}

// RejectIntent stores a new intent as refused: its authorization is never sent. Errors:
// *IntentExistsError, errNotRegistered.
func (l *Ledger) RejectIntent(ctx context.Context, i Intent) error {
	i.State, i.Evidence = IntentRefused, ""
	if err := l.complete(&i); err != nil {
		return err
	}
	return l.writeSums(ctx, nil, func(ctx context.Context, r *recorder) error { return r.insertUnknown(ctx, i) })
}

// insertUnknown is insertIntent, or returns *IntentExistsError for a key that the ledger has.
func (r *recorder) insertUnknown(ctx context.Context, i Intent) error {
	existing, err := intentOf(ctx, r.tx, byIntentKey, i.Network, i.Asset, i.From, i.Nonce)
	switch {
	case errors.Is(err, ErrNoIntent):
		return r.insertIntent(ctx, i)
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
func (r *recorder) insertIntent(ctx context.Context, i Intent) error {
	r.changed = r.changed || i.State != IntentRefused
	err := r.tx.QueryRowContext(ctx, `
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
	err = intentTable.insertNew(ctx, r.tx, &i)
	failpoint.Hit(failpoint.TransactionIntent)
	return err
}
