package operator

import (
	"cmp"
	"context"
	"encoding/json"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/accounting"
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
	Unit        string          `json:"unit"` // of the next three, as in "USD", "USDC" or "BTC"
	Paid        string          `json:"paid"`
	Returned    string          `json:"refunded"`
	Left        string          `json:"left"` // what of it is still here, or on its way
	AmountUSD   *json.Number    `json:"amount_usd"`
	ValueBasis  string          `json:"value_basis,omitempty"` // how that was fixed: face, quote, rate or stated
	Transaction string          `json:"transaction,omitempty"`
	Payer       string          `json:"payer,omitempty"`
	Page        string          `json:"page,omitempty"` // its page, for the payer: who has the address can read it
	Final       bool            `json:"final"`
	Own         bool            `json:"own"`
	Testnet     bool            `json:"testnet"`
	OccurredAt  string          `json:"occurred_at"`
	ObservedAt  string          `json:"observed_at"`
	UpdatedAt   string          `json:"updated_at"`
	Version     int64           `json:"version"`           // counts the changes
	Revision    int64           `json:"revision"`          // counts the operator's corrections
	Returns     []returned      `json:"returns,omitempty"` // refunds and disputes
	History     []change        `json:"history,omitempty"` // what happened to it; the answer to an entry leaves it out
	Said        []string        `json:"said,omitempty"`    // what else the answer to an entry has to say, in sentences
}

// returned is money that went back.
type returned struct {
	ID     string `json:"id"`
	Kind   string `json:"kind"`             // refund, refund_total or reversal
	Amount string `json:"amount,omitempty"` // empty of a reversal of all
	Unit   string `json:"unit,omitempty"`   // of the amount; another one than the receipt's is not part of what was refunded
	Gone   bool   `json:"gone"`             // false: it did not happen, or came back
	At     string `json:"at"`
}

// change is one change of a receipt. Amounts are those after it.
type change struct {
	Version   int64        `json:"version"`
	Status    string       `json:"status"`
	Amount    int64        `json:"amount_atomic"`
	Refunded  int64        `json:"refunded_atomic"`
	AmountUSD *json.Number `json:"amount_usd"`
	Cause     string       `json:"cause"`
	Reason    string       `json:"reason,omitempty"`
	At        string       `json:"at"`
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
	page := Receipts{Next: next, Receipts: []Receipt{}}
	if len(rows) == 0 {
		return page, nil
	}
	transitions, err := d.Ledger.History(ctx, d.Offer.ID, rows[len(rows)-1].ID, rows[0].ID)
	if err != nil {
		return Receipts{}, noLedger(err)
	}
	history := histories(transitions)
	for _, r := range rows {
		row := d.newReceipt(r)
		row.History = history[r.ID]
		if err := d.withReturns(ctx, &row); err != nil {
			return Receipts{}, noLedger(err)
		}
		page.Receipts = append(page.Receipts, row)
	}
	return page, nil
}

// histories are the changes of each receipt, by its number.
func histories(transitions []ledger.Transition) map[int64][]change {
	history := make(map[int64][]change)
	for _, t := range transitions {
		history[t.ReceiptID] = append(history[t.ReceiptID], change{
			Version: t.Version, Status: string(t.To), Amount: t.Amount, Refunded: t.Refunded, AmountUSD: dollars(t.USDCents),
			Cause: t.Cause, Reason: t.Note, At: moment(t.At),
		})
	}
	return history
}

// withReturns adds what went back to a receipt of which something did.
func (d *Desk) withReturns(ctx context.Context, r *Receipt) error {
	if r.Refunded == 0 && r.Status != string(ledger.StatusReversed) {
		return nil
	}
	all, err := d.Ledger.Returns(ctx, r.Offer, r.Account, r.Reference)
	if err != nil {
		return err
	}
	for _, w := range all {
		row := returned{ID: w.ID, Kind: string(w.Kind), Gone: w.Gone, At: moment(w.At)}
		if w.Amount > 0 {
			unit := offer.UnitOf(cmp.Or(w.Currency, r.Asset))
			row.Amount, row.Unit = unit.Decimal(w.Amount), unit.Symbol
		}
		r.Returns = append(r.Returns, row)
	}
	if told := accounting.ToldRefunded(all, r.Asset); told > r.Amount {
		r.Said = append(r.Said, "the refunds that are told of amount to "+offer.UnitOf(r.Asset).Format(told)+
			", which is more than was paid; no more than was paid is booked")
	}
	return nil
}

func (d *Desk) newReceipt(r ledger.Receipt) Receipt {
	unit, left := offer.UnitOf(r.Asset), int64(0)
	if r.Status == ledger.StatusSeen || r.Status == ledger.StatusConfirmed {
		left = r.Amount - min(r.Refunded, r.Amount)
	}
	return Receipt{
		Number: r.ID, Offer: r.Offer, Rail: r.Rail, Account: r.Account, Reference: r.ExternalID,
		Status: string(r.Status), Evidence: string(r.EvidenceLevel), Proof: r.Evidence, Via: r.Via,
		Asset: r.Asset, Amount: r.Amount, Refunded: r.Refunded,
		Unit: unit.Symbol, Paid: unit.Decimal(r.Amount), Returned: unit.Decimal(r.Refunded), Left: unit.Decimal(left),
		AmountUSD: dollars(r.USDCents), ValueBasis: string(r.ValueBasis), Transaction: r.Transaction, Payer: r.Payer, Page: d.Page(r),
		Final: r.Final, Own: r.Own, Testnet: r.Testnet, Version: r.Version, Revision: r.Revision,
		OccurredAt: moment(r.OccurredAt), ObservedAt: moment(r.ObservedAt), UpdatedAt: moment(r.UpdatedAt),
	}
}

// Received is what was received of one offer.
type Received struct {
	ID      string `json:"id"`
	BaseURL string `json:"base_url"`
	Trouble string `json:"trouble,omitempty"` // why the offer takes no payments
	// Report is what the offer itself answers at /v1/received: the goal, the
	// sums, and how well each rail is observed. null while the offer takes no payments.
	Report json.RawMessage `json:"report"`
	Totals []sum           `json:"totals"` // the ledger's sums behind it
	// Facilitators are those of the rails for programs, in the order of their use.
	Facilitators []Facilitator `json:"facilitators,omitempty"`
}

// sum is one sum of the ledger. Amount is in atomic units of the rail's
// asset, or of Currency, USD in dollars over the receipts whose value is known.
type sum struct {
	Rail        string    `json:"rail"`
	Account     string    `json:"account"`
	Currency    string    `json:"currency,omitempty"` // where it is another than the account's own
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
	if trouble := d.Trouble(); trouble != "" { // there is no report yet
		return Received{ID: d.Offer.ID, BaseURL: d.Offer.BaseURL, Trouble: trouble, Totals: sums(totals, accounting.TestCounts(totals, d.Offer.Test()))}, nil
	}
	report, err := d.Summary(ctx)
	if err != nil {
		return Received{}, noLedger(err)
	}
	return Received{
		ID: d.Offer.ID, BaseURL: d.Offer.BaseURL, Report: report,
		Totals:       sums(totals, accounting.TestCounts(totals, d.Offer.Test())),
		Facilitators: facilitators(d.Facilitators()),
	}, nil
}

// sums says of each sum whether it is money received.
func sums(totals []ledger.Total, testCounts bool) []sum {
	all := []sum{}
	for _, t := range totals {
		all = append(all, sum{
			Rail: t.Rail, Account: t.Account, Currency: t.Currency, Status: string(t.Status), Evidence: string(t.EvidenceLevel),
			Counted: t.Counts(testCounts), Own: t.Own, Testnet: t.Testnet, Count: t.Count, Amount: t.Amount, Refunded: t.Refunded,
			USD: offer.USD(t.USDCents), RefundedUSD: offer.USD(t.RefundedCents), UnknownUSD: t.UnknownUSD,
		})
	}
	return all
}
