package ledger

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/accounting"
)

const selectReceipts = `SELECT id, offer, account, rail, external_id, tx, via, asset, amount, refunded, usd_cents,
	value_basis, stated_cents, stated_at, refunded_cents, status, state, final, evidence_level, evidence, payer, nonce, own, testnet, intent_id, version, revision,
	occurred_at, observed_at, updated_at
	FROM receipts WHERE `

func scanReceipt(row scanner) (r Receipt, err error) {
	var evidence string
	var stated *int64
	var statedAt int64
	err = row.Scan(&r.ID, &r.Offer, &r.Account, &r.Rail, &r.ExternalID, &r.Transaction, &r.Via, &r.Asset, &r.Amount,
		&r.Refunded, &r.USDCents, &r.ValueBasis, &stated, &statedAt, &r.RefundedCents, &r.Status, &r.State, &r.Final, &r.EvidenceLevel,
		&evidence, &r.Payer, &r.Nonce, &r.Own, &r.Testnet, &r.IntentID, &r.Version, &r.Revision, &r.OccurredAt, &r.ObservedAt,
		&r.UpdatedAt)
	if evidence != "" {
		r.Evidence = json.RawMessage(evidence)
	}
	if stated != nil {
		r.Stated = &StatedValue{USDCents: *stated, At: statedAt}
	}
	return r, err
}

// store inserts or updates the row.
func (r *recorder) store(ctx context.Context, next *Receipt) (err error) {
	r.tx.reported = true
	var stated *int64
	var statedAt int64
	if next.Stated != nil {
		stated, statedAt = &next.Stated.USDCents, next.Stated.At
	}
	facts := []any{
		next.Transaction, next.Via, next.Asset, next.Amount, next.Refunded, next.USDCents, next.RefundedCents,
		next.Status, next.State, next.Revision, next.Final, next.EvidenceLevel, string(next.Evidence), next.Payer,
		next.Nonce, next.Own, next.Testnet, next.IntentID, next.Version, next.OccurredAt, next.UpdatedAt,
		next.ValueBasis, stated, statedAt,
	}
	if next.ID != 0 {
		_, err := r.tx.exec(ctx, "storing the receipt", `
			UPDATE receipts SET (`+factColumns+`) = `+placeholders(1, len(facts))+` WHERE id = $25`, append(facts, next.ID)...)
		return err
	}
	next.ObservedAt = r.now
	next.ID, _, err = first(ask(ctx, r.tx, scanValue[int64], `
		INSERT INTO receipts (`+factColumns+`, observed_at, offer, account, rail, external_id)
		VALUES `+placeholders(1, len(facts)+5)+` RETURNING id`,
		append(facts, next.ObservedAt, next.Offer, next.Account, next.Rail, next.ExternalID)...))
	return err
}

// factColumns are the columns that change.
const factColumns = `tx, via, asset, amount, refunded, usd_cents, refunded_cents, status, state, revision,
	final, evidence_level, evidence, payer, nonce, own, testnet, intent_id, version, occurred_at, updated_at,
	value_basis, stated_cents, stated_at`

// Receipt reads one receipt of an offer; false when there is none.
func (l *Ledger) Receipt(ctx context.Context, offer, account, externalID string) (Receipt, bool, error) {
	return first(collect(ctx, l, scanReceipt, selectReceipts+`
		offer = $1 AND account = $2 AND external_id = $3`, offer, account, externalID))
}

// AuthorizationReceipt reads the receipt of the Transfer that an EIP-3009
// authorization made to an account; false when there is none, or when it was
// dropped. After a reorganization it is the newest of several.
func (l *Ledger) AuthorizationReceipt(ctx context.Context, account, payer, nonce string) (Receipt, bool, error) {
	r, found, err := l.LastAuthorizationReceipt(ctx, account, payer, nonce)
	if err != nil || !found || r.Status == StatusDropped {
		return Receipt{}, false, err
	}
	return r, true, nil
}

// LastAuthorizationReceipt is AuthorizationReceipt, or the newest dropped one where
// there is no other.
func (l *Ledger) LastAuthorizationReceipt(ctx context.Context, account, payer, nonce string) (Receipt, bool, error) {
	return first(collect(ctx, l, scanReceipt, selectReceipts+`
		account = $1 AND payer = $2 AND nonce = $3 AND nonce <> '' ORDER BY status = 'dropped', id DESC LIMIT 1`,
		account, strings.ToLower(payer), strings.ToLower(nonce)))
}

// SessionReceipt reads the receipt of the payment that was made in a checkout of
// the card processor, by the id of its session, which holds letters, digits and
// "_" alone. It is one that the processor itself told of; false when there is none.
func (l *Ledger) SessionReceipt(ctx context.Context, offer, session string) (Receipt, bool, error) {
	begins := `{"session":"` + session
	return first(collect(ctx, l, scanReceipt, selectReceipts+ofSession(l.dialect), offer, begins+`"`, begins+`#`)) // # follows on "
}

// ofSession is the condition, in the words of the index receipts_session.
func ofSession(d dialect) string {
	within := `substr(evidence, 1, 300)` + d.bytewise()
	return `rail = 'card' AND offer = $1 AND ` + within + ` >= $2 AND ` + within + ` < $3 AND evidence_level IN ('signed', 'provider')`
}

// Receipts lists up to limit receipts of an offer, newest first: those with
// an ID below before, or from the newest when before is 0.
func (l *Ledger) Receipts(ctx context.Context, offer string, before int64, limit int) ([]Receipt, error) {
	return collect(ctx, l, scanReceipt, selectNewest, offer, newestBelow(before), limit)
}

const selectNewest = selectReceipts + `offer = $1 AND id < $2 ORDER BY id DESC LIMIT $3`

// newestBelow is the ID below which a page begins that begins with the newest for 0.
func newestBelow(before int64) int64 {
	if before == 0 {
		return math.MaxInt64
	}
	return before
}

// Unfinal lists up to limit receipts of an account that the chain may still
// change, oldest first, but what is dropped last.
func (l *Ledger) Unfinal(ctx context.Context, offer, account string, limit int) ([]Receipt, error) {
	return collect(ctx, l, scanReceipt, selectReceipts+`
		offer = $1 AND account = $2 AND NOT final ORDER BY state = 'dropped', id LIMIT $3`, offer, account, limit)
}

// Transition is one change of a receipt.
type Transition struct {
	// Seq grows in the order of commits, over all offers. Tag is random: a Seq
	// that is used again, after an older copy of the ledger was put back, has
	// another one. In the history of a receipt Seq is below 0 while the transition has no
	// number yet.
	Seq, Tag int64
	// Offer, Account, Rail and ExternalID name the receipt, and Version is
	// the one that it reached.
	Offer, Account, Rail, ExternalID string
	Version                          int64
	// From is empty for the first transition.
	From, To Status
	// Amount and Refunded are those after the transition, in atomic units of Asset,
	// and USDCents is what the amount was worth then; nil when that was unknown.
	Asset            string
	Amount, Refunded int64
	USDCents         *int64
	// Cause is the sighting's.
	Cause string
	// Note is the operator's reason, for nobody else.
	Note string
	// At is when it was recorded, in Unix seconds.
	At int64
	// ReturnID and ReturnKind are of the return that it tells of, or empty, and
	// MovedAt is when the money of that moved, as the source dates it; 0 where
	// that is not said.
	ReturnID   string
	ReturnKind ReturnKind
	MovedAt    int64
	// Before and After are what was known of the receipt before it and after it;
	// where that was not kept yet, what is known when it is read.
	Before, After accounting.Facts

	// ReceiptID, Via, EvidenceLevel, Own, Testnet and OccurredAt are
	// those that the receipt has when it is read.
	ReceiptID     int64
	Via           string
	EvidenceLevel EvidenceLevel
	Own, Testnet  bool
	OccurredAt    int64
}

// transitionColumns are those of transitions t, receipts r and the transitions p
// before t, which precedingTransitions joins.
const transitionColumns = `t.seq, t.tag, t.offer, r.account, r.rail, r.external_id, t.version, t.from_status, t.to_status,
	t.amount, t.refunded, t.cause, t.note, t.at, t.return_id, t.return_kind, t.moved_at,
	r.id, r.via, coalesce(t.asset, r.asset), t.usd_cents, r.evidence_level, r.own, r.testnet, r.occurred_at,
	coalesce(p.to_status, ''), coalesce(p.amount, 0), coalesce(p.refunded, 0), p.usd_cents,
	coalesce(p.asset, t.asset, r.asset), coalesce(p.evidence_level, t.evidence_level, r.evidence_level),
	coalesce(p.own, t.own, r.own), coalesce(p.testnet, t.testnet, r.testnet), coalesce(p.occurred_at, t.occurred_at, r.occurred_at),
	t.to_status, t.amount, t.refunded, t.usd_cents,
	coalesce(t.asset, p.asset, r.asset), coalesce(t.evidence_level, p.evidence_level, r.evidence_level),
	coalesce(t.own, p.own, r.own), coalesce(t.testnet, p.testnet, r.testnet), coalesce(t.occurred_at, p.occurred_at, r.occurred_at)`

const precedingTransitions = ` LEFT JOIN transitions p ON p.receipt_id = t.receipt_id AND p.version = t.version - 1`

const selectTransitions = `
	SELECT ` + transitionColumns + `
	FROM transitions t JOIN receipts r ON r.id = t.receipt_id` + precedingTransitions + `
	WHERE t.offer = $1 AND `

// EventID names the transition for good: "rail:external id:version:tag", the tag
// in 16 hex digits, for after an older copy of the ledger was put back the rest is
// used again for other facts. One from before transitions had tags is named
// without. Every byte of the external id but ASCII letters, digits, "-", "_" and
// ":" is percent-encoded, for the id of a webhook is part of what is signed and
// holds no full stop (Standard Webhooks 1.0.0).
func (t Transition) EventID() string {
	var external strings.Builder
	for _, b := range []byte(t.ExternalID) {
		if 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || '0' <= b && b <= '9' || strings.IndexByte("-_:", b) >= 0 {
			external.WriteByte(b)
		} else {
			fmt.Fprintf(&external, "%%%02X", b)
		}
	}
	id := fmt.Sprintf("%s:%s:%d", t.Rail, external.String(), t.Version)
	if t.Tag != 0 {
		id += fmt.Sprintf(":%016x", uint64(t.Tag))
	}
	return id
}

// Standing is that of the receipt after the transition, on today's evidence.
func (t Transition) Standing() accounting.Standing {
	return accounting.Standing{Status: t.To, EvidenceLevel: t.EvidenceLevel, Own: t.Own, Testnet: t.Testnet}
}

// Change is what the transition changed.
func (t Transition) Change() accounting.Change {
	return accounting.Change{Before: t.Before, After: t.After, Cause: t.Cause, ReturnKind: t.ReturnKind}
}

// Transitions lists up to limit transitions of an offer's receipts with a Seq
// above after, in the order of commits. A reader that keeps the last Seq with
// its own effect sees each exactly once.
func (l *Ledger) Transitions(ctx context.Context, offer string, after int64, limit int) ([]Transition, error) {
	l.order(ctx)
	return collect(ctx, l, scanTransition, selectTransitions+`t.seq > $2 ORDER BY t.seq LIMIT $3`, offer, after, limit)
}

// selectHistory finds the transitions by their receipts: SQLite would walk all of the
// offer otherwise.
const selectHistory = `
	SELECT ` + transitionColumns + `
	FROM receipts r JOIN transitions t ON t.receipt_id = r.id` + precedingTransitions + `
	WHERE r.offer = $1 AND r.id BETWEEN $2 AND $3 ORDER BY r.id, t.version`

// History lists all transitions of an offer's receipts with an ID from first to
// last, receipt by receipt, each from its first version on.
func (l *Ledger) History(ctx context.Context, offer string, first, last int64) ([]Transition, error) {
	return collect(ctx, l, scanTransition, selectHistory, offer, first, last)
}

func scanTransition(row scanner) (t Transition, err error) {
	err = row.Scan(t.columns()...)
	return t, err
}

// columns are where transitionColumns are read to.
func (t *Transition) columns() []any {
	b, a := &t.Before, &t.After
	return []any{
		&t.Seq, &t.Tag, &t.Offer, &t.Account, &t.Rail, &t.ExternalID, &t.Version, &t.From, &t.To,
		&t.Amount, &t.Refunded, &t.Cause, &t.Note, &t.At, &t.ReturnID, &t.ReturnKind, &t.MovedAt,
		&t.ReceiptID, &t.Via, &t.Asset, &t.USDCents, &t.EvidenceLevel, &t.Own, &t.Testnet, &t.OccurredAt,
		&b.Status, &b.Amount, &b.Refunded, &b.USDCents, &b.Asset, &b.EvidenceLevel, &b.Own, &b.Testnet, &b.OccurredAt,
		&a.Status, &a.Amount, &a.Refunded, &a.USDCents, &a.Asset, &a.EvidenceLevel, &a.Own, &a.Testnet, &a.OccurredAt,
	}
}
