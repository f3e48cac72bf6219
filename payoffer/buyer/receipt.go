package buyer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// Receipt is what a seller says of a payment that it has taken, and what of that
// holds.
type Receipt struct {
	// Transaction, Payer, Network and Atomic are the seller's words, empty for what
	// it does not say.
	Transaction, Payer, Network, Atomic string
	// URL is the page of the receipt, and Note what the answer says in words.
	URL, Note string
	// Vouch is that of the signed receipt.
	Vouch
	// Faults are statements that are not about this payment.
	Faults []string
}

// wordForm is a transaction's hash, or a nonce.
var wordForm = regexp.MustCompile(`^0x[0-9a-fA-F]{64}$`)

// Receipt reads that of a paid purchase, and asks the seller's host for its keys.
func (b *Buyer) Receipt(ctx context.Context, t Target, p *Purchase) Receipt {
	r := Receipt{Vouch: Vouch{Words: "not signed"}}
	r.readAnswer(p)
	if p.Response == "" {
		return r
	}
	settlement, err := parseSettlement(p.Response)
	if err != nil {
		r.Faults = append(r.Faults, x402.HeaderResponse+" cannot be read")
		return r
	}
	r.Transaction, r.Payer, r.Network, r.Atomic = settlement.Transaction, settlement.Payer, settlement.Network, settlement.Amount
	r.compare(p.Payment)
	if signed := x402.FindSigned(settlement.Extensions[extensionSigned]); len(signed) > 0 {
		r.Vouch = b.check(ctx, t, signed[0], func(s x402.Signed) error { return p.isReceipt(s, settlement.Transaction, time.Now()) })
	}
	return r
}

// compare finds what the settlement says of another payment.
func (r *Receipt) compare(p *Payment) {
	fault := func(what, said string) {
		r.Faults = append(r.Faults, fmt.Sprintf("the receipt names another %s (%s) than this payment", what, quoted(said)))
	}
	if r.Network != p.Network {
		fault("network", r.Network)
	}
	if r.Payer != "" && !strings.EqualFold(r.Payer, p.Payer) {
		fault("payer", r.Payer)
	}
	if r.Atomic != "" && r.Atomic != strconv.FormatInt(p.Atomic, 10) {
		fault("amount", r.Atomic)
	}
	if !wordForm.MatchString(r.Transaction) {
		r.Faults = append(r.Faults, "the receipt names no transaction: "+quoted(r.Transaction))
	}
}

// isReceipt says why a signed receipt is not one of this payment.
func (p *Payment) isReceipt(s x402.Signed, transaction string, now time.Time) error {
	r := s.Receipt
	switch {
	case r == nil:
		return errors.New("it is no receipt")
	case !strings.EqualFold(r.Payer, p.Payer) || r.Network != p.Network:
		return errors.New("the signed receipt is of another payer or network")
	case r.Transaction != "" && !strings.EqualFold(r.Transaction, transaction):
		return errors.New("the signed receipt is of another transaction")
	case time.Unix(r.IssuedAt, 0).Before(p.SignedAt.Add(-clockSkew)):
		return errors.New("the signed receipt is older than this payment")
	case time.Unix(r.IssuedAt, 0).After(now.Add(clockSkew)):
		return errors.New("the signed receipt is dated in the future")
	}
	return nil
}

// readAnswer takes what this plugin's own servers say in the body of a paid answer.
func (r *Receipt) readAnswer(p *Purchase) {
	text, err := os.ReadFile(p.Answer)
	if err != nil || len(text) > maxQuote {
		return
	}
	var body struct {
		ReceiptURL    string `json:"receiptUrl"`
		Authorization string `json:"authorization"`
		Description   string `json:"description"`
	}
	if json.Unmarshal(text, &body) != nil {
		return
	}
	r.URL, r.Note = body.ReceiptURL, body.Description
	if wordForm.MatchString(body.Authorization) && !strings.EqualFold(body.Authorization, p.Nonce) {
		r.Faults = append(r.Faults, "the seller charged another authorization of this payer instead of this one, which may still be spent until it ends")
	}
}
