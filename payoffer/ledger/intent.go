package ledger

import (
	"context"
	"errors"
	"fmt"
)

// IntentState says what became of an intent.
type IntentState string

// The states of an intent.
const (
	// IntentSettling is open: the outcome is unknown until a truth source
	// answers.
	IntentSettling IntentState = "settling"
	// IntentSettled was paid, by the evidence that the intent names.
	IntentSettled IntentState = "settled"
	// IntentRefused is a definite no: it was not paid and cannot be any more.
	IntentRefused IntentState = "refused"
)

// What says that an intent was paid.
const (
	// EvidenceFacilitator is a facilitator's success: a claim, counted in no sum.
	EvidenceFacilitator = "facilitator"
	// EvidenceChain is the Transfer log.
	EvidenceChain = "chain"
)

// Intent is an x402 authorization that was, or is about to be, sent to a
// facilitator. It is no receipt.
type Intent struct {
	IntentKey
	// Offer and Account say for what and to where it pays.
	Offer, Account string
	// Rail and Testnet are those of the account; the ledger fills them in.
	Rail    string
	Testnet bool
	// Own says that the payer is one of the operator's own addresses.
	Own bool
	// Amount is in atomic units of the asset.
	Amount int64
	// USDCents is the amount's value in US cents; nil while unknown.
	USDCents *int64
	// PaymentID is the identifier of the payment-identifier extension, or
	// empty. It is unique among the payer's intents that are not refused.
	PaymentID string
	// Fingerprint is the hex SHA-256 of the authorization's fields and
	// signature: equal for identical payloads in any encoding.
	Fingerprint string
	// Version is the x402 version of the request that first brought it.
	Version int
	// Payload and Requirement are the exact JSON bytes sent to the facilitator.
	Payload, Requirement []byte
	// Facilitator is the name of the facilitator that was asked; no URL,
	// which may hold a key.
	Facilitator string
	// ValidBefore is the end of the authorization, in Unix seconds.
	ValidBefore int64
	// State is set by the ledger; InsertIntent makes it IntentSettling.
	State IntentState
	// Owner names the attempt that works on it, and LeaseUntil the Unix
	// second after which another may take it over.
	Owner      string
	LeaseUntil int64
	// Transaction is the hash that the facilitator named or that was found on
	// the chain, or empty.
	Transaction string
	// Answer is the SettleResponse to answer replays with; nil while unknown.
	Answer []byte
	// Reason is the code of a refusal or of the last unknown outcome.
	Reason string
	// Evidence is empty, EvidenceFacilitator or EvidenceChain.
	Evidence string
	// ToldAt is when the first 200 that names the charge was written, in Unix
	// seconds; 0 while none was. Doubt says that its payer had to wait for it.
	ToldAt int64
	Doubt  bool
	// TurnedUntil is the latest end, in Unix seconds, of the payer's other
	// authorizations that were turned away because of this one; 0 for none.
	TurnedUntil int64
	// Since is the ID from which on the payer's other intents are newer than the
	// request that brings this one, or 0 where nobody asked. It is not stored.
	Since int64
	// CreatedAt and UpdatedAt are set by the ledger, in Unix seconds.
	CreatedAt, UpdatedAt int64

	// ID is set by the ledger and grows with the order of the inserts.
	ID int64
	// reopened says that it was settled once: something was sent.
	reopened bool
	// lookAt is when it is to be looked at again, in Unix seconds.
	lookAt int64
}

var (
	// ErrPaymentID is returned for a payment identifier that another open or
	// settled intent of the payer has.
	ErrPaymentID = errors.New("the payment identifier is in use by another payment")
	// ErrNoIntent is returned for a key that the ledger does not know.
	ErrNoIntent = errors.New("no such intent")
	// ErrIntentState is returned for a change that the intent's state does
	// not allow, such as to refuse what was settled.
	ErrIntentState = errors.New("the intent's state does not allow this")
	// ErrTransaction is returned for a claim whose transaction another payment
	// names already.
	ErrTransaction = errors.New("another payment names this transaction")
	// errLeaseHeld is returned while another owner holds an intent's lease.
	errLeaseHeld = errors.New("another attempt holds the intent's lease")
)

// IntentExistsError is returned for an authorization that is known.
type IntentExistsError struct{ Existing Intent }

func (e *IntentExistsError) Error() string {
	return fmt.Sprintf("the authorization is known already and %s", e.Existing.State)
}

const selectIntents = `SELECT ` + intentColumns + ` FROM intents WHERE `

const intentColumns = `id, network, asset, payer, nonce, offer, account, rail, testnet, own, amount, usd_cents,
	payment_id, fingerprint, version, payload, requirement, facilitator, valid_before, state, owner, lease_until,
	tx, answer, reason, evidence, created_at, updated_at, reopened, doubt, told_at, turned_until, look_at`

func scanIntent(row scanner) (i Intent, err error) {
	err = row.Scan(i.columns()...)
	return i, err
}

// columns are where intentColumns are read to.
func (i *Intent) columns() []any {
	return []any{&i.ID, &i.Network, &i.Asset, &i.From, &i.Nonce, &i.Offer, &i.Account, &i.Rail, &i.Testnet, &i.Own,
		&i.Amount, &i.USDCents, &i.PaymentID, &i.Fingerprint, &i.Version, &i.Payload, &i.Requirement, &i.Facilitator,
		&i.ValidBefore, &i.State, &i.Owner, &i.LeaseUntil, &i.Transaction, &i.Answer, &i.Reason, &i.Evidence,
		&i.CreatedAt, &i.UpdatedAt, &i.reopened, &i.Doubt, &i.ToldAt, &i.TurnedUntil, &i.lookAt}
}

const byIntentKey = `network = $1 AND asset = $2 AND payer = $3 AND nonce = $4`

// Intent reads one intent.
func (l *Ledger) Intent(ctx context.Context, key IntentKey) (Intent, bool, error) {
	key = key.Canonical()
	return first(collect(ctx, l, scanIntent, selectIntents+byIntentKey,
		key.Network, key.Asset, key.From, key.Nonce))
}

// OpenIntents lists up to limit intents of an offer whose outcome is unknown,
// oldest first: those with an ID above after.
func (l *Ledger) OpenIntents(ctx context.Context, offer string, after int64, limit int) ([]Intent, error) {
	return collect(ctx, l, scanIntent, selectIntents+`
		state = 'settling' AND offer = $1 AND id > $2 ORDER BY id LIMIT $3`, offer, after, limit)
}

// intentOf reads an intent inside a transaction. Error: ErrNoIntent.
func intentOf(ctx context.Context, tx *transaction, where string, args ...any) (Intent, error) {
	i, found, err := first(ask(ctx, tx, scanIntent, selectIntents+where, args...))
	if err == nil && !found {
		err = ErrNoIntent
	}
	return i, err
}

// intentByKey reads an intent that the transaction will change. Error:
// ErrNoIntent.
func intentByKey(ctx context.Context, tx *transaction, key IntentKey) (Intent, error) {
	return intentOf(ctx, tx, byIntentKey+tx.dialect.forUpdate(), key.Network, key.Asset, key.From, key.Nonce)
}
