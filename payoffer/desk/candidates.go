package desk

import (
	"context"
	"regexp"
	"strings"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

const (
	// maxCandidates bounds how many outgoing transfers are listed, and maxPaid how
	// many receipts of one payee.
	maxCandidates = 20
	maxPaid       = 5
)

// Candidate is a transfer that left an account for somebody who had paid there. It
// may be a refund; nothing is booked until the operator says so.
type Candidate struct {
	Account     string `json:"account"`
	Transaction string `json:"transaction"`
	To          string `json:"to"`
	Amount      string `json:"amount"` // in the unit
	Unit        string `json:"unit"`
	OccurredAt  string `json:"occurred_at"`
	// Receipts are payments of the payee of which so much is left that it may be
	// this money, newest first.
	Receipts []CandidateReceipt `json:"receipts"`
}

// CandidateReceipt is a payment that may have been refunded.
type CandidateReceipt struct {
	Rail      string `json:"rail"`
	Reference string `json:"reference"`
	Left      string `json:"left"`    // what of it was not refunded yet, in the unit
	Command   string `json:"command"` // what books the transfer as a refund of it
}

// candidates lists the newest outgoing transfers that no refund names.
func (d *Desk) candidates(ctx context.Context) ([]Candidate, error) {
	outgoing, err := d.Ledger.RefundCandidates(ctx, d.Offer.ID, maxCandidates)
	if err != nil {
		return nil, err
	}
	var all []Candidate
	for _, o := range outgoing {
		paid, err := d.Ledger.PaidBy(ctx, d.Offer.ID, o.Account, o.To, maxPaid)
		if err != nil {
			return nil, err
		}
		unit := offer.UnitOf(o.Asset)
		c := Candidate{
			Account: o.Account, Transaction: o.Transaction, To: o.To, Amount: unit.Decimal(o.Amount), Unit: unit.Symbol,
			OccurredAt: moment(o.OccurredAt), Receipts: []CandidateReceipt{},
		}
		for _, r := range paid {
			if r.OccurredAt <= o.OccurredAt {
				row := d.newReceipt(r)
				c.Receipts = append(c.Receipts, CandidateReceipt{r.Rail, r.ExternalID, row.Left, books(o, r, unit)})
			}
		}
		all = append(all, c)
	}
	return all, nil
}

// books is the command that books a transfer as a refund of a receipt: all of it,
// or as much as is left.
func books(o ledger.Outgoing, r ledger.Receipt, unit offer.Unit) string {
	words := []string{"caddy", "pay-offer", "record"}
	for _, flag := range [][2]string{
		{"--offer", r.Offer}, {"--rail", r.Rail}, {"--reference", r.ExternalID},
		{"--refund", unit.Decimal(min(o.Amount, r.Amount-r.Refunded))},
		{"--transaction", o.Transaction}, {"--date", moment(o.OccurredAt)}, {"--reason", "sent back"},
	} {
		words = append(words, flag[0], quoted(flag[1]))
	}
	return strings.Join(words, " ")
}

var plainWord = regexp.MustCompile(`^[0-9A-Za-z_./:@+-]+$`)

// quoted is a text as one word of a shell.
func quoted(text string) string {
	if plainWord.MatchString(text) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
