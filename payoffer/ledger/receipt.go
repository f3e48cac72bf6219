package ledger

import (
	"context"
	"encoding/json"
	"math"
)

// Receipt is one money movement: what all sightings of it amount to.
type Receipt struct {
	// ID grows with the order in which receipts were first recorded.
	ID int64
	// Offer, Account, Rail, ExternalID, Transaction, Via, Asset, Amount,
	// USDCents, Final, EvidenceLevel, Evidence, Payer, Own, Testnet and
	// OccurredAt are as in Sighting.
	Offer, Account, Rail    string
	ExternalID, Transaction string
	Via, Asset              string
	Amount                  int64
	USDCents                *int64
	Final                   bool
	EvidenceLevel           EvidenceLevel
	Evidence                json.RawMessage
	Payer                   string
	Own, Testnet            bool
	OccurredAt              int64
	// Status is derived from all sightings.
	Status Status
	// Refunded is what went back, in atomic units: at most Amount once that
	// is known. RefundedCents is its value in US cents, 0 while unknown.
	Refunded, RefundedCents int64
	// Version counts the transitions. A change of the status, the amount or
	// the refund is one.
	Version int64
	// ObservedAt is when it was first recorded and UpdatedAt when it last
	// changed, in Unix seconds.
	ObservedAt, UpdatedAt int64

	state      Status
	reversed   bool
	reversedAt int64
	intentID   *int64
}

const receiptColumns = `id, offer, account, rail, external_id, tx, via, asset, amount, refunded, usd_cents,
	refunded_cents, status, state, reversed, reversed_at, final, evidence_level, evidence, payer, own, testnet,
	intent_id, version, occurred_at, observed_at, updated_at`

func scanReceipt(row scanner) (r Receipt, err error) {
	var evidence string
	err = row.Scan(&r.ID, &r.Offer, &r.Account, &r.Rail, &r.ExternalID, &r.Transaction, &r.Via, &r.Asset, &r.Amount,
		&r.Refunded, &r.USDCents, &r.RefundedCents, &r.Status, &r.state, &r.reversed, &r.reversedAt, &r.Final,
		&r.EvidenceLevel, &evidence, &r.Payer, &r.Own, &r.Testnet, &r.intentID, &r.Version, &r.OccurredAt,
		&r.ObservedAt, &r.UpdatedAt)
	if evidence != "" {
		r.Evidence = json.RawMessage(evidence)
	}
	return r, err
}

// Receipts lists up to limit receipts of an offer, newest first: those with
// an ID below before, or from the newest when before is 0.
func (l *Ledger) Receipts(ctx context.Context, offer string, before int64, limit int) ([]Receipt, error) {
	if before == 0 {
		before = math.MaxInt64
	}
	return collect(ctx, l, scanReceipt, `SELECT `+receiptColumns+`
		FROM receipts WHERE offer = $1 AND id < $2 ORDER BY id DESC LIMIT $3`, offer, before, limit)
}

// Unfinal lists up to limit receipts of an account that the chain may still
// change, oldest first.
func (l *Ledger) Unfinal(ctx context.Context, offer, account string, limit int) ([]Receipt, error) {
	return collect(ctx, l, scanReceipt, `SELECT `+receiptColumns+`
		FROM receipts WHERE offer = $1 AND account = $2 AND NOT final ORDER BY id LIMIT $3`, offer, account, limit)
}

// Transition is one change of a receipt.
type Transition struct {
	// Seq grows in the order of commits, over all offers.
	Seq int64
	// Offer, Account, Rail and ExternalID name the receipt, and Version is
	// the one that it reached: rail, external id and version together name
	// the event for good.
	Offer, Account, Rail, ExternalID string
	Version                          int64
	// From is empty for the first transition.
	From, To Status
	// Amount and Refunded are those after the transition, in atomic units.
	Amount, Refunded int64
	// Cause is the sighting's.
	Cause string
	// At is when it was recorded, in Unix seconds.
	At int64
}

// Transitions lists up to limit transitions of an offer's receipts with a Seq
// above after, in the order of commits. A reader that keeps the last Seq with
// its own effect sees each exactly once.
func (l *Ledger) Transitions(ctx context.Context, offer string, after int64, limit int) ([]Transition, error) {
	return collect(ctx, l, scanTransition, `
		SELECT t.seq, t.offer, r.account, r.rail, r.external_id, t.version, t.from_status, t.to_status,
			t.amount, t.refunded, t.cause, t.at
		FROM transitions t JOIN receipts r ON r.id = t.receipt_id
		WHERE t.offer = $1 AND t.seq > $2 ORDER BY t.seq LIMIT $3`, offer, after, limit)
}

func scanTransition(row scanner) (t Transition, err error) {
	err = row.Scan(&t.Seq, &t.Offer, &t.Account, &t.Rail, &t.ExternalID, &t.Version, &t.From, &t.To,
		&t.Amount, &t.Refunded, &t.Cause, &t.At)
	return t, err
}
