package operator

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/accounting"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/report"
)

// Receipt is a receipt for its operator.
type Receipt struct {
	report.Receipt
	Offer     string          `json:"offer"`
	Account   string          `json:"account"`
	Proof     json.RawMessage `json:"proof,omitempty"`
	Payer     string          `json:"payer,omitempty"`
	Page      string          `json:"page,omitempty"` // its page; everyone with the URL can read it
	UpdatedAt string          `json:"updatedAt"`
	Version   int64           `json:"version"`           // counts the changes
	Returns   []Return        `json:"returns,omitempty"` // refunds and disputes
	History   []Change        `json:"history,omitempty"` // in lists only
	Hints     []string        `json:"hints,omitempty"`   // sentences for the operator
}

// Return is a refund or a dispute.
type Return struct {
	ID     string `json:"id"`
	Kind   string `json:"kind"`             // refund, refund_total or reversal
	Amount string `json:"amount,omitempty"` // such as "10 USD"; empty for a reversal of all
	Gone   bool   `json:"gone"`             // false: it failed, or was undone
	At     string `json:"at"`
}

// Receipts is a page of an offer's receipts, newest first.
type Receipts struct {
	Next     *int64    `json:"next"` // the number below which the list continues; null at its end
	Receipts []Receipt `json:"receipts"`
}

// Receipts lists receipts with a number below before, or the newest for 0. In a demo the claims of its facilitator, which its
// report counts, come first and have no number.
func (s *Service) Receipts(ctx context.Context, before int64, limit int) (Receipts, error) {
	rows, err := s.Ledger.Receipts(ctx, s.Offer.ID, before, limit+1)
	if err != nil {
		return Receipts{}, unreadable(err)
	}
	rows, next := cutPage(rows, limit, func(r ledger.Receipt) int64 { return r.ID })
	page := Receipts{Next: next, Receipts: []Receipt{}}
	if s.Offer.Demo && before == 0 {
		claims, err := s.Ledger.Claims(ctx, s.Offer.ID, 0, math.MaxInt32)
		for _, i := range slices.Backward(claims) {
			row, unread := s.newReceipt(ctx, i.Receipt(), false)
			page.Receipts, err = append(page.Receipts, row), errors.Join(err, unread)
		}
		if err != nil {
			return Receipts{}, unreadable(err)
		}
	}
	if len(rows) == 0 {
		return page, nil
	}
	testCounts, err := report.TestCounts(ctx, s.Ledger, s.Offer)
	if err != nil {
		return Receipts{}, unreadable(err)
	}
	transitions, err := s.Ledger.History(ctx, s.Offer.ID, rows[len(rows)-1].ID, rows[0].ID)
	if err != nil {
		return Receipts{}, unreadable(err)
	}
	history := make(map[int64][]Change)
	for _, t := range transitions {
		history[t.ReceiptID] = append(history[t.ReceiptID], newChange(t, testCounts))
	}
	for _, r := range rows {
		row, err := s.newReceipt(ctx, r, testCounts)
		if err != nil {
			return Receipts{}, unreadable(err)
		}
		row.History = history[r.ID]
		page.Receipts = append(page.Receipts, row)
	}
	return page, nil
}

func (s *Service) newReceipt(ctx context.Context, r ledger.Receipt, testCounts bool) (Receipt, error) {
	row := Receipt{
		Receipt: report.NewReceipt(r, testCounts), Offer: r.Offer, Account: r.Account, Proof: r.Evidence, Payer: r.Payer, Page: s.Page(r),
		UpdatedAt: timestamp(r.UpdatedAt), Version: r.Version,
	}
	if r.Refunded == 0 && r.Status != ledger.StatusReversed && !isProviders(r) {
		return row, nil
	}
	returns, err := s.Ledger.Returns(ctx, r.Offer, r.Account, r.ExternalID)
	for _, w := range returns {
		if w.Kind == ledger.ReturnCapture {
			continue
		}
		amount := ""
		if w.Amount > 0 {
			amount = offer.UnitOf(cmp.Or(w.Currency, r.Asset)).Format(w.Amount)
		}
		row.Returns = append(row.Returns, Return{ID: w.ID, Kind: string(w.Kind), Amount: amount, Gone: w.Gone, At: timestamp(w.At)})
		switch foreign := w.Gone && w.Currency != "" && w.Currency != r.Asset; {
		case foreign && w.Kind == ledger.ReturnReversal:
			row.Hints = append(row.Hints, "the dispute "+w.ID+" of "+amount+" is in another currency than its payment: "+
				"its part of the payment is not known, and all of the payment counts as disputed")
		case foreign:
			row.Hints = append(row.Hints, "the refund "+w.ID+" of "+amount+" is in another currency than its payment and is not counted; look at it in the processor's dashboard")
		}
	}
	if reported := accounting.ReportedRefunds(returns, r.Asset); reported > r.Amount {
		row.Hints = append(row.Hints, "the reported refunds are "+offer.UnitOf(r.Asset).Format(reported)+
			" in total, which is more than was paid; only what was paid is recorded as refunded")
	}
	return row, err
}
