package desk

import (
	"context"
	"encoding/json"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// Receipt is a receipt for its operator. Amounts are in atomic units of the
// asset, and in dollars where their value is known.
type Receipt struct {
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
	Version     int64           `json:"version"`           // counts the changes
	Revision    int64           `json:"revision"`          // counts the operator's corrections
	History     []change        `json:"history,omitempty"` // what happened to it; the answer to an entry leaves it out
}

// change is one change of a receipt. Amounts are those after it.
type change struct {
	Version  int64  `json:"version"`
	Status   string `json:"status"`
	Amount   int64  `json:"amount_atomic"`
	Refunded int64  `json:"refunded_atomic"`
	Cause    string `json:"cause"`
	Reason   string `json:"reason,omitempty"`
	At       string `json:"at"`
}

// Receipts is a page of an offer's receipts, newest first.
type Receipts struct {
	Next     *int64    `json:"next"` // the number below which the list goes on; nil at its end
	Receipts []Receipt `json:"receipts"`
}

// Receipts lists receipts with their history: those numbered below before, or
// the newest for 0.
func (d *Desk) Receipts(ctx context.Context, before int64, limit int) (Receipts, error) {
	rows, err := d.Ledger.Receipts(ctx, d.Offer.ID, before, limit+1)
	if err != nil {
		return Receipts{}, noLedger(err)
	}
	rows, next := cut(rows, limit, func(r ledger.Receipt) int64 { return r.ID })
	page := Receipts{next, []Receipt{}}
	if len(rows) == 0 {
		return page, nil
	}
	changes, err := d.Ledger.History(ctx, d.Offer.ID, rows[len(rows)-1].ID, rows[0].ID)
	if err != nil {
		return Receipts{}, noLedger(err)
	}
	history := make(map[int64][]change) // by the receipt's number
	for _, t := range changes {
		history[t.ReceiptID] = append(history[t.ReceiptID], change{
			Version: t.Version, Status: string(t.To), Amount: t.Amount, Refunded: t.Refunded,
			Cause: t.Cause, Reason: t.Note, At: moment(t.At),
		})
	}
	for _, r := range rows {
		row := newReceipt(r)
		row.History = history[r.ID]
		page.Receipts = append(page.Receipts, row)
	}
	return page, nil
}

func newReceipt(r ledger.Receipt) Receipt {
	return Receipt{
		Number: r.ID, Offer: r.Offer, Rail: r.Rail, Account: r.Account, Reference: r.ExternalID,
		Status: string(r.Status), Evidence: string(r.EvidenceLevel), Proof: r.Evidence, Via: r.Via,
		Asset: r.Asset, Amount: r.Amount, Refunded: r.Refunded, AmountUSD: dollars(r.USDCents), Transaction: r.Transaction, Payer: r.Payer,
		Final: r.Final, Own: r.Own, Testnet: r.Testnet, Version: r.Version, Revision: r.Revision,
		OccurredAt: moment(r.OccurredAt), ObservedAt: moment(r.ObservedAt), UpdatedAt: moment(r.UpdatedAt),
	}
}

// Received is what was received of one offer.
type Received struct {
	ID      string `json:"id"`
	BaseURL string `json:"base_url"`
	// Report is what the offer itself answers at /v1/received: the goal, the
	// sums, and how well each rail is observed.
	Report json.RawMessage `json:"report"`
	Totals []sum           `json:"totals"` // the ledger's sums behind it
}

// sum is one sum of the ledger. Amount is in atomic units of the rail's
// asset, USD in dollars over the receipts whose value is known.
type sum struct {
	Rail        string    `json:"rail"`
	Account     string    `json:"account"`
	Status      string    `json:"status"`
	Evidence    string    `json:"evidence"`
	Counted     bool      `json:"counted"`
	Own         bool      `json:"own,omitempty"`
	Testnet     bool      `json:"testnet,omitempty"`
	Count       int64     `json:"count"`
	Amount      int64     `json:"amount_atomic"`
	Refunded    int64     `json:"refunded_atomic,omitempty"`
	USD         offer.USD `json:"usd"`
	RefundedUSD offer.USD `json:"refunded_usd,omitempty"` // the part of USD that went back
	UnknownUSD  int64     `json:"unknown_usd,omitempty"`  // how many receipts USD leaves out
}

// Received is what was received of the offer.
func (d *Desk) Received(ctx context.Context) (Received, error) {
	totals, err := d.Ledger.Totals(ctx, d.Offer.ID)
	if err != nil {
		return Received{}, noLedger(err)
	}
	report, err := d.Summary(ctx)
	if err != nil {
		return Received{}, noLedger(err)
	}
	return Received{ID: d.Offer.ID, BaseURL: d.Offer.BaseURL, Report: report, Totals: sums(totals, d.Offer.Test())}, nil
}

// sums says of each sum whether it is money received.
func sums(totals []ledger.Total, testCounts bool) []sum {
	all := []sum{}
	for _, t := range totals {
		all = append(all, sum{
			Rail: t.Rail, Account: t.Account, Status: string(t.Status), Evidence: string(t.EvidenceLevel),
			Counted: t.Counts(testCounts), Own: t.Own, Testnet: t.Testnet, Count: t.Count, Amount: t.Amount, Refunded: t.Refunded,
			USD: offer.USD(t.USDCents), RefundedUSD: offer.USD(t.RefundedCents), UnknownUSD: t.UnknownUSD,
		})
	}
	return all
}
