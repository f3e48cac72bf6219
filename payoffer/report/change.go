package report

import (
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/accounting"
)

// Change is one change of a receipt, with the facts after it. Evidence, own and testnet are those of the receipt now.
type Change struct {
	Seq     int64   `json:"seq" jsonschema:"Grows in the order in which changes are recorded; not every number is used."`
	Cursor  string  `json:"cursor" jsonschema:"The position after the change: its seq and a random tag."`
	ID      string  `json:"id" jsonschema:"Identifies the change for good: rail, receipt (percent-encoded), version and the tag of the cursor, if that is not 0."`
	Number  int64   `json:"number" jsonschema:"The receipt's number. Rail and number identify a payment even after its id was replaced; after a 410 numbers are assigned again."`
	Version int64   `json:"version" jsonschema:"Counts the changes of the receipt: of its status, amount, value, evidence, and payer (own or not)."`
	From    *string `json:"from" jsonschema:"The status before; null for a new receipt."`
	Words   string  `json:"change" jsonschema:"What changed, in English; new for a new receipt."`
	Counted bool    `json:"counted" jsonschema:"Whether the payment counts as received after the change, less refunds."`
	Facts
}

// Transition is a change in the feed.
type Transition struct {
	Change
	Receipt string `json:"receipt" jsonschema:"The receipt's id."`
	To      string `json:"to" jsonschema:"The status after. moved: within the account, nobody paid it."`
	Cause   string `json:"cause" jsonschema:"A short code for what reported the change."`
	At      string `json:"at" jsonschema:"When the change was recorded."`
}

// Event is the data of a notification.
type Event struct {
	Change
	Offer      string `json:"offer"`
	ExternalID string `json:"externalId"` // the receipt's id
	RecordedAt string `json:"recordedAt"` // when the change was recorded
	ReturnKind string `json:"returnKind,omitempty"`
	Backfilled bool   `json:"backfilled,omitempty"`
	BaseURL    string `json:"baseUrl,omitempty"`
}

// NewTransition makes an entry of the feed. testCounts is as for accounting.Standing.Counts.
func NewTransition(t ledger.Transition, testCounts bool) Transition {
	return Transition{newChange(t, testCounts), t.ExternalID, string(t.To), t.Cause, accounting.Timestamp(t.At)}
}

// NewEvent makes the data of a notification.
func NewEvent(t ledger.Transition, testCounts bool, baseURL string) Event {
	return Event{
		Change: newChange(t, testCounts), Offer: t.Offer, ExternalID: t.ExternalID, RecordedAt: accounting.Timestamp(t.At),
		ReturnKind: string(t.ReturnKind), Backfilled: t.Cause == ledger.CauseBackfilled, BaseURL: baseURL,
	}
}

func newChange(t ledger.Transition, testCounts bool) Change {
	after := ledger.Receipt{
		Rail: t.Rail, Via: t.Via, Status: t.To, EvidenceLevel: t.EvidenceLevel, Own: t.Own, Testnet: t.Testnet,
		Asset: t.Asset, Amount: t.Amount, Refunded: t.Refunded, USDCents: t.USDCents, OccurredAt: t.OccurredAt,
	}
	return Change{
		Seq: t.Seq, Cursor: t.Bookmark().String(), ID: t.EventID(), Number: t.ReceiptID, Version: t.Version,
		From: optional(string(t.From)), Words: t.Change().Words(), Counted: t.Standing().Counts(testCounts), Facts: newFacts(after),
	}
}

// optional is nil for the empty string.
func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
