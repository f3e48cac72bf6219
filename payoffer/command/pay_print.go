package command

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/payoffer/caddy-pay-offer/payoffer/buyer"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// amount is the amount of a payment, such as "42 USDC".
func amount(p *buyer.Payment) string { return offer.FormatDecimal(p.Atomic, 6) + " USDC" }

// showQuote prints the price; payer is empty for a dry run.
func (p *payer) showQuote(payer string) {
	q := p.quote
	money := ", real money"
	if q.Network.Test {
		money = ", a TEST network: its money is worth nothing"
	}
	p.table([][2]string{
		{"resource", quotedText(q.Resource)}, {"description", quotedText(q.Description)}, {"method", q.Method}, {"amount", q.Amount() + " USDC (" + q.Amount() + " USD)"},
		{"payee", q.PayTo}, {"network", q.Network.Name + " (" + q.Network.CAIP2() + ")" + money}, {"payer", payer},
	})
}

// quotedText is a seller's text in quotation marks; empty for none.
func quotedText(text string) string {
	if text = buyer.Plain(text); text == "" {
		return ""
	}
	return fmt.Sprintf("%q", text)
}

// showReceipt prints a paid purchase and delivers its content.
func (p *payer) showReceipt() error {
	paid := p.purchase.Payment
	if p.fl.Bool("demo") {
		p.printf("Paid %s pretend USDC to %s: a demo has no chain, and there is no transaction.", offer.FormatDecimal(paid.Atomic, 6), paid.PayTo)
		p.table([][2]string{{"receipt page", paid.ReceiptURL}, {"note", paid.Reason}})
		return p.deliver()
	}
	var explorer string
	if known, err := offer.LookupNetwork(paid.Network); err == nil && paid.Transaction != "" {
		explorer = known.Explorer + paid.Transaction
	}
	if paid.Transaction != "" {
		p.printf("Paid %s to %s, as the seller says. The transaction is the proof.", amount(paid), paid.PayTo)
	} else {
		p.printf("The seller answered (status %d) and names no transaction. Only the chain shows whether it charged %s to %s.",
			paid.Status, amount(paid), paid.PayTo)
	}
	p.table([][2]string{
		{"transaction", paid.Transaction}, {"explorer", explorer}, {"network", network(paid.Network)}, {"payer", paid.Payer},
		{"receipt page", paid.ReceiptURL}, {"answer", paid.Answer}, {"note", paid.Reason},
	})
	return p.deliver()
}

// table prints names and values, without the empty ones.
func (p *payer) table(rows [][2]string) {
	w := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		if row[1] != "" {
			fmt.Fprintf(w, "  %s\t%s\n", row[0], printable(row[1]))
		}
	}
	_ = w.Flush() // output to a closed terminal is lost
}

// printf prints a line, which may quote the seller.
func (p *payer) printf(format string, args ...any) {
	fmt.Fprintln(p.out, printable(fmt.Sprintf(format, args...)))
}

// printJSON prints the result of the run without unknown members.
func (p *payer) printJSON(out io.Writer, err error) {
	result := struct {
		// Status is quoted, paid, opened, refused, void, open or not_paid.
		Status      string `json:"status"`
		Reason      string `json:"reason,omitempty"`
		PayTo       string `json:"payTo,omitempty"`
		Network     string `json:"network,omitempty"`
		AmountUSD   string `json:"amountUsd,omitempty"`
		Payer       string `json:"payer,omitempty"`
		Transaction string `json:"transaction,omitempty"`
		ReceiptURL  string `json:"receiptUrl,omitempty"`
		Signed      string `json:"signedReceipt,omitempty"`
		HTTPStatus  int    `json:"httpStatus,omitempty"`
		Answer      string `json:"answer,omitempty"`  // a file
		Content     string `json:"content,omitempty"` // text of at most maxShown bytes
	}{Status: "not_paid"}
	if err != nil {
		result.Reason = err.Error()
	}
	if q := p.quote; q != nil {
		result.PayTo, result.Network, result.AmountUSD = q.PayTo, q.Network.CAIP2(), q.Amount()
		if p.fl.Bool("dry-run") {
			result.Status = "quoted"
		}
	}
	if p.purchase != nil && p.purchase.Payment != nil {
		last := p.purchase.Payment
		result.Status, result.PayTo, result.Network, result.AmountUSD = string(last.State), last.PayTo, last.Network, offer.FormatDecimal(last.Atomic, 6)
		result.Payer, result.Transaction, result.ReceiptURL, result.Signed, result.HTTPStatus = last.Payer, last.Transaction, last.ReceiptURL, last.SignedReceipt, last.Status
		if content, err := p.purchase.Content(); err == nil && isText(last.ContentType, content) {
			result.Content = string(content)
		}
		if !p.fl.Bool("demo") { // its folder is gone
			result.Answer = last.Answer
		}
	}
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(result) // output to a closed pipe is lost
}
