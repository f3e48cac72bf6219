package ledger

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/accounting"
)

var receiptTable = table[Receipt]{"receipts", func(r *Receipt) []column {
	return []column{
		{"id", &r.ID}, {"offer", &r.Offer}, {"account", &r.Account}, {"rail", &r.Rail}, {"external_id", &r.ExternalID},
		{"tx", &r.Transaction}, {"via", &r.Via}, {"asset", &r.Asset}, {"amount", &r.Amount}, {"refunded", &r.Refunded},
		{"usd_cents", &r.USDCents}, {"value_basis", &r.ValueBasis}, {"stated", statedColumn{&r.Stated}},
		{"refunded_cents", &r.RefundedCents}, {"status", &r.Status}, {"state", &r.State}, {"final", &r.Final},
		{"evidence_level", &r.EvidenceLevel}, {"evidence", evidenceColumn{&r.Evidence}}, {"payer", &r.Payer}, {"nonce", &r.Nonce},
		{"own", &r.Own}, {"testnet", &r.Testnet}, {"intent_id", &r.IntentID}, {"version", &r.Version}, {"revision", &r.Revision},
		{"occurred_at", &r.OccurredAt}, {"observed_at", &r.ObservedAt}, {"updated_at", &r.UpdatedAt},
	}
}}

// Receipt reads one receipt of an offer.
func (l *Ledger) Receipt(ctx context.Context, offer, account, externalID string) (Receipt, bool, error) {
	return atMostOne(receiptTable.read(ctx, l, `offer = $1 AND account = $2 AND external_id = $3`, offer, account, externalID))
}

// References returns the references of an account that the operator entered.
func (l *Ledger) References(ctx context.Context, account string) ([]string, error) {
	return collect(ctx, l, scanValue[string], `
		SELECT external_id FROM receipts WHERE account = $1 AND evidence_level = 'manual' ORDER BY id`, account)
}

// AuthorizationReceipt reads the receipt of the Transfer of an EIP-3009 authorization to an
// account, unless it was dropped. After a reorganization it is the newest one.
func (l *Ledger) AuthorizationReceipt(ctx context.Context, account, payer, nonce string) (Receipt, bool, error) {
	r, found, err := l.lastAuthorizationReceipt(ctx, account, payer, nonce)
	if err != nil || !found || r.Status == StatusDropped {
		return Receipt{}, false, err
	}
	return r, true, nil
}

// lastAuthorizationReceipt is AuthorizationReceipt, or else the newest dropped one.
func (l *Ledger) lastAuthorizationReceipt(ctx context.Context, account, payer, nonce string) (Receipt, bool, error) {
	return atMostOne(receiptTable.read(ctx, l, `
		account = $1 AND payer = $2 AND nonce = $3 AND nonce <> '' ORDER BY status = 'dropped', id DESC LIMIT 1`,
		account, strings.ToLower(payer), strings.ToLower(nonce)))
}

// SessionReceipt reads the receipt of a checkout of the card processor by the ID of its
// session (letters, digits and "_"). The processor itself must have reported it.
func (l *Ledger) SessionReceipt(ctx context.Context, offer, session string) (Receipt, bool, error) {
	begins := `{"session":"` + session
	return atMostOne(receiptTable.read(ctx, l, sessionCondition, offer, begins+`"`, begins+`#`)) // # follows on "
}

// Checkout is the evidence of a payment by card, whose beginning SessionReceipt looks for. Of two
// equal reports the ledger keeps the later text, so a known Price replaces an unknown one.
type Checkout struct {
	Session string `json:"session"`
	// Price is how the price is set in another currency than US dollars; empty if not known.
	Price CheckoutPrice `json:"price"`
	// Subtotal is what was asked for before discounts and taxes, in US cents; 0 in another currency.
	Subtotal int64  `json:"subtotal,omitempty"`
	Event    string `json:"event,omitempty"`
}

// CheckoutPrice is how the price of a checkout is set.
type CheckoutPrice string

const (
	PriceChosen CheckoutPrice = "chosen" // by the payer
	PriceFixed  CheckoutPrice = "fixed"  // by the seller
)

// CheckoutOf returns the checkout of a payment by card; empty if there is none.
func CheckoutOf(r Receipt) (c Checkout) {
	if r.Rail == "card" && json.Unmarshal(r.Evidence, &c) != nil {
		return Checkout{}
	}
	return c
}

// sessionCondition is the condition in the form of the index receipts_session.
const sessionCondition = `rail = 'card' AND offer = $1 AND substr(evidence, 1, 300) >= $2 AND substr(evidence, 1, 300) < $3
	AND evidence_level IN ('signed', 'provider')`

// Receipts returns up to limit receipts of an offer with an ID below before (0 for all),
// newest first.
func (l *Ledger) Receipts(ctx context.Context, offer string, before int64, limit int) ([]Receipt, error) {
	return receiptTable.read(ctx, l, newestBelow, offer, idBelow(before), limit)
}

const newestBelow = `offer = $1 AND id < $2 ORDER BY id DESC LIMIT $3`

func idBelow(before int64) int64 {
	if before == 0 {
		return math.MaxInt64
	}
	return before
}

// Unfinal returns up to limit receipts of an account that are not final, oldest first,
// dropped ones last.
func (l *Ledger) Unfinal(ctx context.Context, offer, account string, limit int) ([]Receipt, error) {
	return receiptTable.read(ctx, l, oneAccount+` AND NOT final ORDER BY state = 'dropped', id LIMIT $3`, offer, account, limit)
}

// Transition is one change of a receipt.
type Transition struct {
	// Seq grows in the order of commits of an offer. Tag is random: it differs if a restored
	// ledger uses Seq again.
	Seq, Tag int64

	Offer, Account, Rail, ExternalID string // of the receipt
	Version                          int64  // of the receipt after the transition
	From, To                         Status // From is empty for the first transition

	// The amounts after the transition, in atomic units of Asset, and the value, if known.
	Asset            string
	Amount, Refunded int64
	USDCents         *int64

	Cause string // of the observation
	Note  string // the operator's reason, which is private
	At    int64  // when it was recorded, in Unix seconds

	// The return that it reports, if any, and when its money moved, if the source says so.
	ReturnID   string
	ReturnKind ReturnKind
	MovedAt    int64

	Before, After accounting.Facts // of the receipt

	// What the receipt has now.
	ReceiptID     int64
	Via           string
	EvidenceLevel EvidenceLevel
	Own, Testnet  bool
	OccurredAt    int64
	Payer, Nonce  string
}

// transitionTable has all columns of the table but seq.
var transitionTable = table[Transition]{"transitions", func(t *Transition) []column {
	a := &t.After
	return []column{
		{"receipt_id", &t.ReceiptID}, {"offer", &t.Offer}, {"version", &t.Version}, {"from_status", &t.From}, {"to_status", &a.Status},
		{"amount", &a.Amount}, {"refunded", &a.Refunded}, {"usd_cents", &a.USDCents}, {"asset", &a.Asset}, {"evidence_level", &a.EvidenceLevel},
		{"own", &a.Own}, {"testnet", &a.Testnet}, {"occurred_at", &a.OccurredAt}, {"cause", &t.Cause}, {"note", &t.Note}, {"at", &t.At},
		{"tag", &t.Tag}, {"return_id", &t.ReturnID}, {"return_kind", &t.ReturnKind}, {"moved_at", &t.MovedAt},
	}
}}

// selectedTransition are columns of transitions t, receipts r and preceding transitions p.
var selectedTransition = `t.seq, t.` + strings.ReplaceAll(transitionTable.names(), ", ", ", t.") + `,
	r.account, r.rail, r.external_id, r.via, r.evidence_level, r.own, r.testnet, r.occurred_at, r.payer, r.nonce,
	coalesce(p.to_status, ''), coalesce(p.amount, 0), coalesce(p.refunded, 0), p.usd_cents, coalesce(p.asset, t.asset),
	coalesce(p.evidence_level, t.evidence_level), coalesce(p.own, t.own), coalesce(p.testnet, t.testnet), coalesce(p.occurred_at, t.occurred_at)`

func scanTransition(row scanner) (t Transition, err error) {
	b := &t.Before
	err = row.Scan(slices.Concat([]any{&t.Seq}, transitionTable.addresses(&t), []any{
		&t.Account, &t.Rail, &t.ExternalID, &t.Via, &t.EvidenceLevel, &t.Own, &t.Testnet, &t.OccurredAt, &t.Payer, &t.Nonce,
		&b.Status, &b.Amount, &b.Refunded, &b.USDCents, &b.Asset, &b.EvidenceLevel, &b.Own, &b.Testnet, &b.OccurredAt,
	})...)
	a := t.After
	t.To, t.Asset, t.Amount, t.Refunded, t.USDCents = a.Status, a.Asset, a.Amount, a.Refunded, a.USDCents
	return t, err
}

const precedingTransitions = ` LEFT JOIN transitions p ON p.receipt_id = t.receipt_id AND p.version = t.version - 1`

var selectTransitions = `
	SELECT ` + selectedTransition + `
	FROM transitions t JOIN receipts r ON r.id = t.receipt_id` + precedingTransitions + `
	WHERE t.offer = $1 AND `

// EventID returns the permanent ID of the transition: "rail:external id:version:tag", with
// the tag in 16 hex digits. Bytes of the external ID other than ASCII letters, digits, "-",
// "_" and ":" are percent-encoded, because the ID of a webhook contains no full stop
// (Standard Webhooks 1.0.0).
func (t Transition) EventID() string {
	var external strings.Builder
	for _, b := range []byte(t.ExternalID) {
		if 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || '0' <= b && b <= '9' || strings.IndexByte("-_:", b) >= 0 {
			external.WriteByte(b)
		} else {
			fmt.Fprintf(&external, "%%%02X", b)
		}
	}
	return fmt.Sprintf("%s:%s:%d:%016x", t.Rail, external.String(), t.Version, uint64(t.Tag))
}

// Classification returns the classification after the transition, by today's evidence.
func (t Transition) Classification() accounting.Classification {
	return accounting.Classification{Status: t.To, EvidenceLevel: t.EvidenceLevel, Own: t.Own, Testnet: t.Testnet}
}

// Change returns what the transition changed.
func (t Transition) Change() accounting.Change {
	return accounting.Change{Before: t.Before, After: t.After, Cause: t.Cause, ReturnKind: t.ReturnKind}
}

// Transitions returns up to limit transitions of an offer with a Seq above after, in the
// order of commits.
func (l *Ledger) Transitions(ctx context.Context, offer string, after int64, limit int) ([]Transition, error) {
	return collect(ctx, l, scanTransition, selectTransitions+`t.seq > $2 ORDER BY t.seq LIMIT $3`, offer, after, limit)
}

// selectHistory begins with the receipts, or SQLite would read all transitions.
var selectHistory = `
	SELECT ` + selectedTransition + `
	FROM receipts r JOIN transitions t ON t.receipt_id = r.id` + precedingTransitions + `
	WHERE r.offer = $1 AND r.id BETWEEN $2 AND $3 ORDER BY r.id, t.version`

// History returns all transitions of an offer's receipts with IDs from first to last, by
// receipt and version.
func (l *Ledger) History(ctx context.Context, offer string, first, last int64) ([]Transition, error) {
	return collect(ctx, l, scanTransition, selectHistory, offer, first, last)
}

// Returns returns the latest state of each return of one payment, by time.
func (l *Ledger) Returns(ctx context.Context, offer, account, externalID string) (all []Return, err error) {
	stored, err := returnTable.read(ctx, l, oneAccount+` AND external_id = $3 ORDER BY at, return_id`, offer, account, externalID)
	for _, w := range stored {
		all = append(all, w.Return)
	}
	return all, err
}

// RefundTransactionID returns the ID of a refund that is a transaction of the operator.
func RefundTransactionID(transaction string) string { return "transaction:" + transaction }

// Reading is the state of an authorization on its chain.
type Reading struct {
	Used  bool  // its nonce is spent: used or canceled (EIP-3009 authorizationState)
	Funds int64 // of the payer, in atomic units, up to math.MaxInt64
	// Block is at least the block of the reading. If the rows cover it, they include the
	// Transfer of a used authorization, unless it was canceled.
	Block uint64
	Time  int64 // of the chain's head, in Unix seconds
}
