package payoffer

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/manual"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// receiptEntry is the body of POST /pay_offer/receipts.
type receiptEntry struct {
	// Action is enter, correct, reverse or restore.
	Action string `json:"action"`
	// Offer is the offer's id; it may be left out where there is one alone.
	Offer     string `json:"offer,omitempty"`
	Rail      string `json:"rail"`
	Reference string `json:"reference"`
	// Amount is in US dollars, as in 42 or "42.50".
	Amount json.Number `json:"amount,omitempty"`
	// Date is a day or a moment, as in 2026-11-20 or 2026-11-20T15:04:05Z.
	Date   string `json:"date,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// receiptRow is a receipt for its operator. Amounts are in atomic units of the
// asset, and in dollars where their value is known.
type receiptRow struct {
	Number      int64           `json:"number"`
	Offer       string          `json:"offer"`
	Rail        string          `json:"rail"`
	Account     string          `json:"account"`
	Reference   string          `json:"reference"`
	Status      string          `json:"status"`
	Evidence    string          `json:"evidence"`
	Proof       json.RawMessage `json:"proof,omitempty"`
	Via         string          `json:"via,omitempty"`
	Asset       string          `json:"asset"`
	Amount      int64           `json:"amount_atomic"`
	Refunded    int64           `json:"refunded_atomic"`
	AmountUSD   *json.Number    `json:"amount_usd"`
	Transaction string          `json:"transaction,omitempty"`
	Payer       string          `json:"payer,omitempty"`
	Final       bool            `json:"final"`
	Own         bool            `json:"own"`
	Testnet     bool            `json:"testnet"`
	OccurredAt  string          `json:"occurred_at"`
	ObservedAt  string          `json:"observed_at"`
	UpdatedAt   string          `json:"updated_at"`
	// Version counts the changes, Revision the operator's corrections.
	Version  int64 `json:"version"`
	Revision int64 `json:"revision"`
	// History is what happened to it; the answer to an entry leaves it out.
	History []receiptChange `json:"history,omitempty"`
}

// receiptChange is one change of a receipt. Amounts are those after it.
type receiptChange struct {
	Version  int64  `json:"version"`
	Status   string `json:"status"`
	Amount   int64  `json:"amount_atomic"`
	Refunded int64  `json:"refunded_atomic"`
	Cause    string `json:"cause"`
	Reason   string `json:"reason,omitempty"`
	At       string `json:"at"`
}

// receipts is GET /pay_offer/receipts: a page of an offer's receipts, newest
// first. The parameter before goes on where a page ended.
func (a *AdminAPI) receipts(w http.ResponseWriter, r *http.Request) error {
	page, err := parseAdminPage(r.URL.Query(), "before")
	if err != nil {
		return err
	}
	svc := page.svc
	rows, err := svc.ledger.Receipts(r.Context(), svc.offer.ID, page.from, page.limit+1) // one more tells of a next page
	if err != nil {
		return ledgerRefusal(err)
	}
	var next *int64
	if len(rows) > page.limit {
		rows = rows[:page.limit]
		next = &rows[page.limit-1].ID
	}
	listed, err := svc.withHistory(r.Context(), rows)
	if err != nil {
		return ledgerRefusal(err)
	}
	return answerJSON(w, map[string]any{"receipts": listed, "next": next})
}

// withHistory adds to receipts, newest first, what happened to them.
func (svc *service) withHistory(ctx context.Context, rows []ledger.Receipt) ([]receiptRow, error) {
	listed := []receiptRow{}
	if len(rows) == 0 {
		return listed, nil
	}
	changes, err := svc.ledger.History(ctx, svc.offer.ID, rows[len(rows)-1].ID, rows[0].ID)
	if err != nil {
		return nil, err
	}
	history := make(map[int64][]receiptChange)
	for _, t := range changes {
		history[t.ReceiptID] = append(history[t.ReceiptID], receiptChange{
			Version: t.Version, Status: string(t.To), Amount: t.Amount, Refunded: t.Refunded,
			Cause: t.Cause, Reason: t.Note, At: moment(t.At),
		})
	}
	for _, r := range rows {
		row := newReceiptRow(r)
		row.History = history[r.ID]
		listed = append(listed, row)
	}
	return listed, nil
}

// enter is POST /pay_offer/receipts: an operator's entry. It answers with the
// receipt as it stands then.
func (a *AdminAPI) enter(w http.ResponseWriter, r *http.Request) error {
	var body receiptEntry
	if err := decodeBody(w, r, &body); err != nil {
		return err
	}
	svc, err := namedService(body.Offer)
	if err != nil {
		return err
	}
	act, known := entryActions(svc.desk())[body.Action]
	if !known {
		return refusal(http.StatusBadRequest, "the action must be enter, correct, reverse or restore")
	}
	entry, err := body.entry()
	if err != nil {
		return entryRefusal(err)
	}
	a.entries.Lock()
	defer a.entries.Unlock()
	receipt, err := act(r.Context(), entry)
	if err != nil {
		return entryRefusal(err)
	}
	return answerJSON(w, newReceiptRow(receipt))
}

// desk takes the operator's entries for the offer.
func (svc *service) desk() *manual.Desk {
	return &manual.Desk{Offer: svc.offer, Account: svc.accountOf, Ledger: svc.ledger, Now: time.Now}
}

func entryActions(desk *manual.Desk) map[string]func(context.Context, manual.Entry) (ledger.Receipt, error) {
	return map[string]func(context.Context, manual.Entry) (ledger.Receipt, error){
		"enter": desk.Enter, "correct": desk.Correct, "reverse": desk.Reverse, "restore": desk.Restore,
	}
}

func (b receiptEntry) entry() (manual.Entry, error) {
	entry := manual.Entry{Rail: b.Rail, Reference: b.Reference, Reason: b.Reason}
	movesNothing := b.Action == "reverse" || b.Action == "restore"
	if movesNothing && (b.Amount != "" || b.Date != "") {
		return entry, &manual.Refusal{Kind: manual.Invalid, Sentence: "amount and date belong to enter and correct; to " + b.Action + " leave them out"}
	}
	var err error
	if b.Amount != "" {
		if entry.Amount, err = manual.ParseAmount(b.Amount.String()); err != nil {
			return entry, err
		}
	}
	if b.Date != "" {
		entry.OccurredAt, err = manual.ParseDate(b.Date)
	}
	return entry, err
}

// entryRefusal is the answer to an entry that was not made.
func entryRefusal(err error) error {
	status := map[manual.Kind]int{
		manual.Invalid: http.StatusBadRequest, manual.Unknown: http.StatusNotFound, manual.Conflict: http.StatusConflict,
	}
	var refused *manual.Refusal
	switch {
	case errors.As(err, &refused):
		return refusal(cmp.Or(status[refused.Kind], http.StatusBadRequest), "%w", err)
	case errors.Is(err, ledger.ErrSighting):
		return refusal(http.StatusBadRequest, "%w", err)
	default:
		return ledgerRefusal(err)
	}
}

func newReceiptRow(r ledger.Receipt) receiptRow {
	row := receiptRow{
		Number: r.ID, Offer: r.Offer, Rail: r.Rail, Account: r.Account, Reference: r.ExternalID,
		Status: string(r.Status), Evidence: string(r.EvidenceLevel), Proof: r.Evidence, Via: r.Via,
		Asset: r.Asset, Amount: r.Amount, Refunded: r.Refunded, Transaction: r.Transaction, Payer: r.Payer,
		Final: r.Final, Own: r.Own, Testnet: r.Testnet, Version: r.Version, Revision: r.Revision,
		OccurredAt: moment(r.OccurredAt), ObservedAt: moment(r.ObservedAt), UpdatedAt: moment(r.UpdatedAt),
	}
	row.AmountUSD = dollars(r.USDCents)
	return row
}

// moment is a time in Unix seconds as RFC 3339.
func moment(unix int64) string { return time.Unix(unix, 0).UTC().Format(time.RFC3339) }

// dollars is an exact JSON number of US dollars; nil while the value is unknown.
func dollars(cents *int64) *json.Number {
	if cents == nil {
		return nil
	}
	number := json.Number(offer.USD(*cents).String())
	return &number
}
