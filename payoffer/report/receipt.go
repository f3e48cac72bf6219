// Package report is the one shape of a receipt, of a change of it, of a movement of its money, and of the totals
// of an offer. The pages, the API, the admin API, the commands and the notifications use it.
package report

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/accounting"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// Dollars is an amount in US dollars, as a number and with two decimals. Both are null while it is unknown.
type Dollars struct {
	AmountUSD        *offer.USD `json:"amountUsd"`
	AmountUSDDecimal *string    `json:"amountUsdDecimal"`
}

// NewDollars converts US cents; nil means that the amount is unknown.
func NewDollars(cents *int64) Dollars {
	if cents == nil {
		return Dollars{}
	}
	return Dollars{new(offer.USD(*cents)), new(offer.USD(*cents).Decimal())}
}

// Amounts are what was paid and what of it was refunded.
type Amounts struct {
	Asset          string `json:"asset"`
	AmountAtomic   string `json:"amountAtomic"`
	RefundedAtomic string `json:"refundedAtomic"`
	Dollars
}

// Paid is the amount for people, such as "42.50 USD".
func (a Amounts) Paid() string { return offer.UnitOf(a.Asset).Format(Atomic(a.AmountAtomic)) }

// Refunded is the refunded amount for people; empty if nothing was refunded.
func (a Amounts) Refunded() string {
	if a.RefundedAtomic == "0" {
		return ""
	}
	return offer.UnitOf(a.Asset).Format(Atomic(a.RefundedAtomic))
}

// Value is the value in US dollars for people, or the amount while the value is unknown.
func (a Amounts) Value() string {
	if a.AmountUSD == nil {
		return a.Paid()
	}
	return a.AmountUSD.String() + " USD"
}

// Atomic reads an amount that this package wrote.
func Atomic(amount string) int64 {
	n, _ := strconv.ParseInt(amount, 10, 64) // every such amount is an integer
	return n
}

// Facts are what every view of a payment contains. They do not identify the payer.
type Facts struct {
	Rail     string `json:"rail"`
	Via      string `json:"via,omitempty" jsonschema:"How the money was sent, if known."`
	Status   string `json:"status" jsonschema:"The state of the payment. moved: within the account, nobody paid it."`
	Evidence string `json:"evidence,omitempty" jsonschema:"What proves the payment."`
	Own      bool   `json:"own" jsonschema:"Whether the operator paid."`
	Testnet  bool   `json:"testnet"`
	Amounts
	OccurredAt string `json:"occurredAt" jsonschema:"When the money moved; without evidence, when it was sent."`
}

func newFacts(r ledger.Receipt) Facts {
	return Facts{
		Rail: r.Rail, Via: r.Via, Status: string(r.Status), Evidence: string(r.EvidenceLevel), Own: r.Own, Testnet: r.Testnet,
		Amounts: Amounts{
			Asset: r.Asset, AmountAtomic: strconv.FormatInt(r.Amount, 10), RefundedAtomic: strconv.FormatInt(r.Refunded, 10),
			Dollars: NewDollars(r.USDCents),
		},
		OccurredAt: accounting.Timestamp(r.OccurredAt),
	}
}

// Record is what is known of a payment at present, also before it has a receipt.
type Record struct {
	Facts
	Final              bool       `json:"final" jsonschema:"Whether the payment can no longer change."`
	RefundedUSD        *offer.USD `json:"refundedUsd" jsonschema:"US dollars. The refunded part of amountUsd."`
	RefundedUSDDecimal *string    `json:"refundedUsdDecimal"`
	ValueBasis         string     `json:"valueBasis,omitempty" jsonschema:"How the value in US dollars was fixed. face: the money is dollars. quote: the amount was asked for these dollars. rate: the market price of that time. stated: by the operator."`
	Transaction        string     `json:"transaction,omitempty" jsonschema:"Where the payment is recorded."`
	Day                string     `json:"day,omitempty" jsonschema:"The day of the payment, if the operator entered a day: occurredAt is its midnight there."`
}

// NewRecord makes a Record from a row of the ledger.
func NewRecord(r ledger.Receipt) Record {
	record := Record{Facts: newFacts(r), Final: r.Final, ValueBasis: string(r.ValueBasis), Transaction: r.Transaction, Day: Day(r)}
	if r.USDCents != nil {
		refunded := NewDollars(&r.RefundedCents)
		record.RefundedUSD, record.RefundedUSDDecimal = refunded.AmountUSD, refunded.AmountUSDDecimal
	}
	return record
}

// Receipt is one payment in a list of receipts.
type Receipt struct {
	ID      string `json:"id" jsonschema:"Identifies the payment by its evidence."`
	Number  int64  `json:"number" jsonschema:"Counts the receipts in the order in which they were recorded, for the parameter before."`
	Counted bool   `json:"counted" jsonschema:"Whether the payment counts as received, less refunds."`
	Record
	RecordedAt string `json:"recordedAt" jsonschema:"When the payment was first recorded here."`
}

// NewReceipt makes a Receipt from a row of the ledger. testCounts is as for accounting.Classification.Counts.
func NewReceipt(r ledger.Receipt, testCounts bool) Receipt {
	record := NewRecord(r)
	return Receipt{r.ExternalID, r.ID, record.Classification().Counts(testCounts), record, accounting.Timestamp(r.ObservedAt)}
}

// TestCounts reports whether the money of test networks counts now.
func TestCounts(ctx context.Context, l interface {
	Totals(ctx context.Context, offer string) ([]ledger.Total, error)
}, o *offer.Offer) (bool, error) {
	if !o.Test() {
		return false, nil
	}
	totals, err := l.Totals(ctx, o.ID)
	return accounting.TestCounts(totals, true), err
}

// Classification is the part of the receipt that decides whether it counts.
func (f Facts) Classification() accounting.Classification {
	return accounting.Classification{Status: ledger.Status(f.Status), EvidenceLevel: ledger.EvidenceLevel(f.Evidence), Own: f.Own, Testnet: f.Testnet}
}

// Day is the day that the operator entered for a payment instead of a moment; empty for a moment. It is valid
// only together with the time that was entered with it.
func Day(r ledger.Receipt) string {
	var entry struct{ Day string }
	if r.EvidenceLevel != ledger.LevelManual || json.Unmarshal(r.Evidence, &entry) != nil {
		return ""
	}
	midnight, err := time.Parse(time.DateOnly, entry.Day)
	begin := time.Unix(r.OccurredAt, 0).Sub(midnight)
	if err != nil || begin < -14*time.Hour || begin > 12*time.Hour { // the time zones from UTC+14 to UTC-12
		return ""
	}
	return entry.Day
}

// Change is one change of a receipt, with the facts after it. Evidence, own and testnet are those of the receipt now.
type Change struct {
	Seq     int64   `json:"seq" jsonschema:"Grows in the order in which changes are recorded; not every number is used."`
	Cursor  string  `json:"cursor" jsonschema:"The position after the change: its seq and a random tag."`
	ID      string  `json:"id" jsonschema:"Identifies the change for good: rail, receipt (percent-encoded), version and the tag of the cursor, if that is not 0."`
	Number  int64   `json:"number" jsonschema:"The receipt's number. Rail and number identify a payment even after its id was replaced. After a restore new numbers continue at its Unix time."`
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

// NewTransition makes an entry of the feed. testCounts is as for accounting.Classification.Counts.
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
		From: optional(string(t.From)), Words: t.Change().Description(), Counted: t.Classification().Counts(testCounts), Facts: newFacts(after),
	}
}

// optional is nil for the empty string.
func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// Movement is money that arrived or was returned: one line of the export. It is the receipt as it is now, but with
// the amount, value, transaction and time of recording of this movement; returned amounts are negative.
type Movement struct {
	Kind   accounting.MovementKind `json:"kind"`
	Date   string                  `json:"date"`             // when the money moved by its source, or when the movement was recorded
	Line   string                  `json:"line"`             // names the movement for good: the receipt's number, version and part
	Reason string                  `json:"reason,omitempty"` // of the operator
	Receipt
}

// NewMovement makes a Movement of a receipt. transaction is that of this movement.
func NewMovement(r ledger.Receipt, m accounting.Movement, transaction string, testCounts bool) Movement {
	line := Movement{Kind: m.Kind, Date: accounting.Timestamp(m.At), Reason: m.Reason, Receipt: NewReceipt(r, testCounts)}
	line.Line, line.RecordedAt = fmt.Sprintf("%dv%dp%d", r.ID, m.Version, m.Part), accounting.Timestamp(m.RecordedAt)
	// A refund of money that counts also counts, even if nothing is left of the payment.
	arrived := accounting.Classification{Status: ledger.StatusConfirmed, EvidenceLevel: r.EvidenceLevel, Own: r.Own, Testnet: r.Testnet}
	line.Counted, line.Transaction = m.Arrived && arrived.Counts(testCounts), transaction
	line.Amounts = Amounts{Asset: r.Asset, AmountAtomic: strconv.FormatInt(m.Amount, 10), RefundedAtomic: "0", Dollars: NewDollars(m.USDCents)}
	line.RefundedUSD, line.RefundedUSDDecimal = nil, nil
	return line
}

// MovementColumns are the names of the values of Movement.Row.
var MovementColumns = []string{
	"date_utc", "date_local", "time_zone", "kind", "rail", "reference", "number", "asset", "amount", "amount_atomic",
	"usd_value", "value_basis", "status", "evidence", "own", "testnet", "counted", "transaction",
	"recorded_at", "line", "reason",
}

// Row is the movement as a line of a table. local is its date in the reader's time zone, which has that name.
func (m Movement) Row(local time.Time, zone string) []string {
	unit, atomic, usd := offer.UnitOf(m.Asset), Atomic(m.AmountAtomic), ""
	amount := unit.Decimal(max(atomic, -atomic))
	if atomic < 0 {
		amount = "-" + amount
	}
	if m.AmountUSDDecimal != nil {
		usd = *m.AmountUSDDecimal
	}
	yes := map[bool]string{true: "yes", false: "no"}
	return []string{
		m.Date, local.Format(time.DateOnly), zone, string(m.Kind), m.Rail, m.ID, strconv.FormatInt(m.Number, 10), unit.Symbol,
		amount, m.AmountAtomic, usd, m.ValueBasis, m.Status, m.Evidence, yes[m.Own], yes[m.Testnet], yes[m.Counted], m.Transaction,
		m.RecordedAt, m.Line, m.Reason,
	}
}
