package desk

import (
	"context"
	"encoding/json"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// Received is what was received of one offer.
type Received struct {
	ID      string `json:"id"`
	BaseURL string `json:"base_url"`
	// Report is what the offer itself answers at /v1/received: the goal, the
	// sums, and how well each rail is observed.
	Report json.RawMessage `json:"report"`
	// Totals are the ledger's sums behind it.
	Totals []sum `json:"totals"`
}

// sum is one sum of the ledger. Amount is in atomic units of the rail's
// asset, USD in dollars over the receipts whose value is known.
type sum struct {
	Rail     string    `json:"rail"`
	Account  string    `json:"account"`
	Status   string    `json:"status"`
	Evidence string    `json:"evidence"`
	Counted  bool      `json:"counted"`
	Own      bool      `json:"own,omitempty"`
	Testnet  bool      `json:"testnet,omitempty"`
	Count    int64     `json:"count"`
	Amount   int64     `json:"amount_atomic"`
	Refunded int64     `json:"refunded_atomic,omitempty"`
	USD      offer.USD `json:"usd"`
	// RefundedUSD is the part of USD that went back.
	RefundedUSD offer.USD `json:"refunded_usd,omitempty"`
	// UnknownUSD is how many receipts USD leaves out.
	UnknownUSD int64 `json:"unknown_usd,omitempty"`
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
