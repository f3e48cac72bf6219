package ledger

import (
	"context"
	"errors"
	"fmt"
)

// IntentState is the outcome of an intent.
type IntentState string

// The states of an intent.
const (
	// IntentSettling is open: the outcome is unknown.
	IntentSettling IntentState = "settling"
	// IntentSettled was paid. Intent.Evidence is the proof.
	IntentSettled IntentState = "settled"
	// IntentRefused was not paid and cannot be paid any more.
	IntentRefused IntentState = "refused"
)

// The evidence that an intent was paid.
const (
	// EvidenceFacilitator is a facilitator's unverified report. It is not counted.
	EvidenceFacilitator = "facilitator"
	// EvidenceChain is the Transfer log.
	EvidenceChain = "chain"
)

// Intent is an x402 authorization that was, or is about to be, sent to a facilitator.
type Intent struct {
	IntentKey
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
	// Facilitator is the host of the facilitator to which it is sent, or empty.
	Facilitator string
	// ValidBefore is the end of the authorization, in Unix seconds.
	ValidBefore int64
	// State is set by the ledger.
	State IntentState
	// Owner is the instance that works on it, until LeaseUntil (Unix seconds).
	Owner      string
	LeaseUntil int64
	// Transaction is the hash that the facilitator reported or that was found on the chain, or empty.
	Transaction string
	// Answer is the stored SettleResponse, or nil.
	Answer []byte
	// Reason is the code of a refusal or of the last unknown outcome.
	Reason   string
	Evidence string
	// AcknowledgedAt is when the first 200 that names the charge was written, in Unix seconds;
	// 0 if none was.
	AcknowledgedAt int64
	// Unacknowledged reports whether the payer got another response before that 200.
	Unacknowledged bool
	// RejectedUntil is the latest end, in Unix seconds, of the payer's other authorizations
	// that were rejected because of this one; 0 for none.
	RejectedUntil int64
	// Secret is the hex SHA-256 of what only the payer of the charged request knows. It is
	// empty if there is none, and after EndBrowsers.
	Secret string
	// Since is Lookup.Since of the request, or 0. It is not stored.
	Since int64
	// CreatedAt and UpdatedAt are set by the ledger, in Unix seconds.
	CreatedAt, UpdatedAt int64

	// ID is set by the ledger and grows.
	ID int64
	// reopened reports whether it was settled before, so that it was certainly sent.
	reopened bool
	// pollAt is when it is due to be resolved, in Unix seconds.
	pollAt int64
}

var (
	// ErrPaymentID: another open or settled intent of the payer has the payment identifier.
	ErrPaymentID = errors.New("the payment identifier belongs to another payment; use a new one")
	// ErrNoIntent: the ledger has no intent with the key.
	ErrNoIntent = errors.New("the ledger has no such x402 payment")
	// ErrIntentState: the intent's state does not allow the change.
	ErrIntentState = errors.New("the x402 payment is not changed (compare 'caddy pay-offer intents')")
	// ErrTransaction: another intent already names the transaction of the claim.
	ErrTransaction = errors.New("this transaction already belongs to another x402 payment")
	// errLeaseHeld: another owner has the lease of the intent.
	errLeaseHeld = errors.New("another attempt is settling this x402 payment; wait for its result")
)

// IntentExistsError is returned for an authorization that is in the ledger already.
type IntentExistsError struct{ Existing Intent }

func (e *IntentExistsError) Error() string {
	return fmt.Sprintf("the ledger already has the authorization, in the state %s", e.Existing.State)
}

const selectIntents = `SELECT ` + intentColumns + ` FROM intents WHERE `

const intentColumns = `id, network, asset, payer, nonce, offer, account, rail, testnet, own, amount, usd_cents,
	payment_id, fingerprint, version, payload, requirement, facilitator, valid_before, state, owner, lease_until,
	tx, answer, reason, evidence, created_at, updated_at, reopened, unacknowledged, acknowledged_at, rejected_until, poll_at, secret`

func scanIntent(row scanner) (i Intent, err error) {
	err = row.Scan(i.columns()...)
	return i, err
}

// columns are the destinations of intentColumns.
func (i *Intent) columns() []any {
	return []any{&i.ID, &i.Network, &i.Asset, &i.From, &i.Nonce, &i.Offer, &i.Account, &i.Rail, &i.Testnet, &i.Own,
		&i.Amount, &i.USDCents, &i.PaymentID, &i.Fingerprint, &i.Version, &i.Payload, &i.Requirement, &i.Facilitator,
		&i.ValidBefore, &i.State, &i.Owner, &i.LeaseUntil, &i.Transaction, &i.Answer, &i.Reason, &i.Evidence,
		&i.CreatedAt, &i.UpdatedAt, &i.reopened, &i.Unacknowledged, &i.AcknowledgedAt, &i.RejectedUntil, &i.pollAt, &i.Secret}
}

const byIntentKey = `network = $1 AND asset = $2 AND payer = $3 AND nonce = $4`

// Intent reads one intent.
func (l *Ledger) Intent(ctx context.Context, key IntentKey) (Intent, bool, error) {
	key = key.Canonical()
	return first(collect(ctx, l, scanIntent, selectIntents+byIntentKey,
		key.Network, key.Asset, key.From, key.Nonce))
}

// OpenIntents lists up to limit open intents of an offer with an ID above after, oldest first.
func (l *Ledger) OpenIntents(ctx context.Context, offer string, after int64, limit int) ([]Intent, error) {
	return collect(ctx, l, scanIntent, selectIntents+`
		state = 'settling' AND offer = $1 AND id > $2 ORDER BY id LIMIT $3`, offer, after, limit)
}

// intentOf reads an intent inside a transaction. Error: ErrNoIntent.
func intentOf(ctx context.Context, tx *transaction, where string, args ...any) (Intent, error) {
	i, found, err := first(queryTx(ctx, tx, scanIntent, selectIntents+where, args...))
	if err == nil && !found {
		err = ErrNoIntent
	}
	return i, err
}

// intentByKey reads and locks an intent that the transaction changes. Error: ErrNoIntent.
func intentByKey(ctx context.Context, tx *transaction, key IntentKey) (Intent, error) {
	return intentOf(ctx, tx, byIntentKey+tx.dialect.forUpdate(), key.Network, key.Asset, key.From, key.Nonce)
}
