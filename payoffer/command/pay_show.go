package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/payoffer/caddy-pay-offer/payoffer/buyer"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// showQuote prints what would be paid; payer is empty where nobody pays.
func (p *payer) showQuote(payer string) {
	q := p.quote
	signed, receipt, other := q.Words, "no signed one is promised", ""
	if q.Wrong {
		signed = "WARNING: " + q.Words
	}
	if q.Receipts {
		receipt = "the seller promises a signed one"
	}
	if q.Resource != p.target.URL() {
		other = "WARNING: the seller calls what is paid for by another URL than the one that you gave"
	}
	p.table([][2]string{
		{"resource", said(q.Resource)}, {"", other}, {"description", said(q.Description)},
		{"amount", q.Amount() + " USDC (" + q.Amount() + " USD)"}, {"payee", q.PayTo}, {"network", networkTitle(q.Network)},
		{"charged", charged[q.Flow]}, {"offer", signed}, {"receipt", receipt}, {"payer", payer},
	})
}

// said is a stranger's text, which stands in quotation marks.
func said(text string) string {
	if text = buyer.Plain(text); text == "" {
		return ""
	}
	return strconv.Quote(text)
}

// charged says when, by the payment flow.
var charged = map[string]string{
	"upfront":       "before it answers (paymentFlow upfront): an answer that is no receipt does not say that nothing was charged",
	"authorization": "with the answer",
}

func networkTitle(n offer.Network) string {
	title := n.Name + " (" + n.CAIP2() + ")"
	if n.Test {
		return title + ", a TEST network: its money is worth nothing"
	}
	return title + ", real money"
}

// table prints names and values.
func (p *payer) table(rows [][2]string) {
	w := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		if row[1] != "" {
			fmt.Fprintf(w, "  %s\t%s\n", row[0], printable(row[1]))
		}
	}
	_ = w.Flush() // what is printed is not kept
}

// showReceipt prints that of a paid purchase. It fails where the receipt does not
// hold.
func (p *payer) showReceipt(ctx context.Context, b *buyer.Buyer) error {
	paid, r := p.purchase.Payment, b.Receipt(ctx, p.target, p.purchase)
	p.receipt = &r
	headline := "Paid " + offer.FormatDecimal(paid.Atomic, 6) + " USDC to " + paid.PayTo + ", by the word of the seller; the transaction is the proof."
	receipt, answer := r.Words, paid.Answer
	if paid.Response == "" {
		headline = fmt.Sprintf("The seller answered (status %d) and does not say whether it charged the %s USDC to %s; the chain tells.",
			paid.Status, offer.FormatDecimal(paid.Atomic, 6), paid.PayTo)
		receipt = "none"
	}
	if p.quote != nil && p.quote.Receipts && !r.Verified {
		receipt += " (the seller promised a signed one)"
	}
	if paid.Cut != "" {
		answer += " (not whole: " + paid.Cut + ")"
	}
	transaction := buyer.Plain(r.Transaction)
	if p.fl.Bool("demo") {
		headline = "Paid " + offer.FormatDecimal(paid.Atomic, 6) + " pretend USDC to " + paid.PayTo + ": a demo has no chain, and there is no transaction."
		answer, transaction = "", "" // the answer's file is thrown away
	}
	p.print(headline)
	p.table([][2]string{
		{"transaction", transaction}, {"explorer", p.explorer()}, {"network", network(paid.Network)}, {"payer", paid.Payer},
		{"receipt", receipt}, {"receipt page", buyer.Plain(r.URL)}, {"answer", answer}, {"it says", said(r.Note)},
	})
	faults := r.Faults
	if r.Wrong {
		faults = append(faults, r.Words)
	}
	if len(faults) > 0 {
		return fmt.Errorf("%w: %s", errReceipt, strings.Join(faults, "; "))
	}
	return nil
}

// explorer is the page of the transaction, where the seller named one and there is
// a chain.
func (p *payer) explorer() string {
	known, err := offer.LookupNetwork(p.purchase.Network)
	if err != nil || p.receipt.Transaction == "" || len(p.receipt.Faults) > 0 || p.fl.Bool("demo") {
		return ""
	}
	return known.Explorer + p.receipt.Transaction
}

// paidJSON is what --json prints. What is not known is left out.
type paidJSON struct {
	// Status is quoted, paid, refused, void, open or not_paid.
	Status string       `json:"status"`
	Reason string       `json:"reason,omitempty"`
	Method string       `json:"method,omitempty"`
	URL    string       `json:"url,omitempty"`
	Quote  *quoteJSON   `json:"quote,omitempty"`
	Paid   *paymentJSON `json:"payment,omitempty"`
	Got    *receiptJSON `json:"receipt,omitempty"`
}

type quoteJSON struct {
	Resource    string `json:"resource"`
	Description string `json:"description"`
	PayTo       string `json:"payTo"`
	Network     string `json:"network"`
	Test        bool   `json:"testnet"`
	Asset       string `json:"asset"`
	Atomic      int64  `json:"amountAtomic,string"`
	AmountUSD   string `json:"amountUsd"`
	Flow        string `json:"paymentFlow"`
	Signed      bool   `json:"signed"`
	Signature   string `json:"signature"`
	Receipts    bool   `json:"signsReceipts"`
}

type paymentJSON struct {
	Payer       string `json:"payer"`
	PayTo       string `json:"payTo"`
	Network     string `json:"network"`
	Asset       string `json:"asset"`
	Atomic      int64  `json:"amountAtomic,string"`
	AmountUSD   string `json:"amountUsd"`
	Nonce       string `json:"nonce"`
	SignedAt    string `json:"signedAt"`
	ValidBefore string `json:"validBefore"`
}

type receiptJSON struct {
	Transaction string   `json:"transaction,omitempty"`
	Payer       string   `json:"payer,omitempty"`
	Network     string   `json:"network,omitempty"`
	Atomic      string   `json:"amountAtomic,omitempty"`
	URL         string   `json:"receiptUrl,omitempty"`
	Signed      bool     `json:"signed"`
	Signature   string   `json:"signature"`
	Faults      []string `json:"faults,omitempty"`
	Status      int      `json:"answerStatus"`
	Answer      string   `json:"answer,omitempty"`
	Cut         string   `json:"answerCut,omitempty"`
}

// printJSON prints how the run ended.
func (p *payer) printJSON(out io.Writer, err error) {
	var in paidJSON
	in.Status = "not_paid"
	if err != nil {
		in.Reason = err.Error()
	}
	if p.fl.Bool("dry-run") && err == nil {
		in.Status = "quoted"
	}
	if q := p.quote; q != nil {
		in.Quote = &quoteJSON{
			q.Resource, q.Description, q.PayTo, q.Network.CAIP2(), q.Network.Test, q.Network.USDC, q.Atomic, q.Amount(), q.Flow,
			q.Verified, q.Words, q.Receipts,
		}
		in.Method, in.URL = p.target.Method, p.target.URL()
	}
	if p.purchase != nil && p.purchase.Payment != nil {
		last := p.purchase.Payment
		in.Status, in.Method, in.URL = string(last.State), last.Method, last.URL
		in.Paid = &paymentJSON{
			last.Payer, last.PayTo, last.Network, last.Asset, last.Atomic, offer.FormatDecimal(last.Atomic, 6), last.Nonce,
			date(last.SignedAt), date(last.ValidBefore),
		}
		if r := p.receipt; r != nil {
			in.Got = &receiptJSON{
				r.Transaction, r.Payer, r.Network, r.Atomic, r.URL, r.Verified, r.Words, r.Faults, last.Status, last.Answer, last.Cut,
			}
		}
	}
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	if failed := encoder.Encode(in); failed != nil {
		panic(errors.Join(errors.New("command: what --json prints always marshals"), failed))
	}
}
