package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// Intent is an x402 authorization that was, or is about to be, sent to a facilitator.
type Intent struct {
	IntentKey
	// Progress is where the payment stands. The ledger sets State, CreatedAt, and what it needs itself.
	Progress
	// Offer is the ID of the offer, and Account the account that gets the money.
	Offer, Account string
	// Rail and Testnet are those of the account. The ledger sets them.
	Rail    string
	Testnet bool
	// Own says that the payer is one of the operator's own addresses.
	Own bool
	// Amount is in atomic units of the asset.
	Amount int64
	// USDCents is the amount's value in US cents; nil while unknown.
	USDCents *int64
	// PaymentID is the value of the payment-identifier extension, or empty. It is unique
	// among the payer's intents that are not refused.
	PaymentID string
	// Fingerprint is the hex SHA-256 of the authorization's fields and signature.
	Fingerprint string
	// Version is the x402 version of the first request.
	Version int
	// Payload and Requirement are the exact JSON bytes sent to the facilitator.
	Payload, Requirement []byte
	// ValidBefore is the end of the authorization, in Unix seconds.
	ValidBefore int64
	// Secret is the hex SHA-256 of what only the payer of the charged request knows. It is
	// empty if there is none, and after EndBrowsers.
	Secret string
	// Since is Lookup.Since of the request, or 0. It is not stored.
	Since int64
	// UpdatedAt is set by the ledger, in Unix seconds.
	UpdatedAt int64

	// ID is set by the ledger and grows.
	ID int64
}

var (
	// ErrPaymentID: another open or settled intent of the payer has the payment identifier.
	ErrPaymentID = errors.New("the payment identifier belongs to another payment; use a new one")
	// ErrNoIntent: the ledger has no intent with the key.
	ErrNoIntent = errors.New("the ledger has no such x402 payment")
	// ErrTransaction: another intent already names the transaction of the claim.
	ErrTransaction = errors.New("this transaction already belongs to another x402 payment")
)

// IntentExistsError is returned for an authorization that is in the ledger already.
type IntentExistsError struct{ Existing Intent }

func (i *IntentExistsError) Error() string {
	return fmt.Sprintf("the ledger already has the authorization, in the state %s", i.Existing.State)
}

var intentTable = table[Intent]{"intents", func(i *Intent) []column {
	return []column{
		{"id", &i.ID}, {"network", &i.Network}, {"asset", &i.Asset}, {"payer", &i.From}, {"nonce", &i.Nonce},
		{"offer", &i.Offer}, {"account", &i.Account}, {"rail", &i.Rail}, {"testnet", &i.Testnet}, {"own", &i.Own},
		{"amount", &i.Amount}, {"usd_cents", &i.USDCents}, {"payment_id", &i.PaymentID}, {"fingerprint", &i.Fingerprint},
		{"version", &i.Version}, {"payload", &i.Payload}, {"requirement", &i.Requirement}, {"facilitator", &i.Facilitator},
		{"valid_before", &i.ValidBefore}, {"state", &i.State}, {"owner", &i.Owner}, {"lease_until", &i.LeaseUntil},
		{"tx", &i.Transaction}, {"answer", &i.Answer}, {"reason", &i.Reason}, {"evidence", &i.Evidence},
		{"created_at", &i.CreatedAt}, {"updated_at", &i.UpdatedAt}, {"reopened", &i.Reopened},
		{"unacknowledged", &i.Unacknowledged}, {"acknowledged_at", &i.AcknowledgedAt}, {"rejected_until", &i.RejectedUntil},
		{"poll_at", &i.PollAt}, {"secret", &i.Secret},
	}
}}

const byIntentKey = `network = $1 AND asset = $2 AND payer = $3 AND nonce = $4`

// Intent reads one intent.
func (l *Ledger) Intent(ctx context.Context, key IntentKey) (Intent, bool, error) {
	key = key.Canonical()
	return atMostOne(intentTable.read(ctx, l, byIntentKey, key.Network, key.Asset, key.From, key.Nonce))
}

// OpenIntents lists up to limit open intents of an offer with an ID above after, oldest first.
func (l *Ledger) OpenIntents(ctx context.Context, offer string, after int64, limit int) ([]Intent, error) {
	return intentTable.read(ctx, l, `state = 'settling' AND offer = $1 AND id > $2 ORDER BY id LIMIT $3`, offer, after, limit)
}

// Claims lists up to limit intents of an offer that only a facilitator or the operator
// reported as settled, with an ID above after, oldest first.
func (l *Ledger) Claims(ctx context.Context, offer string, after int64, limit int) ([]Intent, error) {
	return intentTable.read(ctx, l, `
		state = 'settled' AND evidence = 'facilitator' AND offer = $1 AND id > $2 ORDER BY id LIMIT $3`, offer, after, limit)
}

// intentOf reads an intent inside a transaction. Error: ErrNoIntent.
func intentOf(ctx context.Context, tx *sql.Tx, where string, args ...any) (Intent, error) {
	i, found, err := atMostOne(intentTable.query(ctx, tx, where, args...))
	if err == nil && !found {
		err = ErrNoIntent
	}
	return i, err
}
