package buyer

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/failpoint"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// ErrOpen means that a payment has no final answer: it may be charged, and is sent
// again the next time.
var ErrOpen = errors.New("the payment has no final answer")

var transactionHash = regexp.MustCompile(`^0x[0-9a-fA-F]{64}$`)

const (
	// retryEvery is the pause between attempts if the seller asks for none.
	retryEvery = 5 * time.Second
	// maxRetryAfter bounds the pause that a seller can ask for.
	maxRetryAfter = time.Hour
)

// Sign signs a payment of the quote and stores it. It sends nothing, and refuses
// while the last payment is undecided and can be spent.
func (p *Purchase) Sign(t Target, q *Quote, key Key) error {
	if p.Payment != nil && !p.State.Decided() && p.Spendable() {
		return errors.New("not paid: the last payment of this purchase is undecided")
	}
	if strings.EqualFold(q.PayTo, key.Address()) {
		return errors.New("not paid: the payee is the account of the key itself")
	}
	now := time.Now()
	until := now.Add(q.Validity).Truncate(time.Second)
	authorized := x402.Authorize(key.private, q.Network, q.PayTo, q.Atomic, until)
	failpoint.Hit(failpoint.BuySigned)
	p.number++
	p.Payment = &Payment{
		State: Open, Method: t.Method, URL: t.URL(), Payer: key.Address(), PayTo: q.PayTo, Network: q.Network.CAIP2(), Asset: q.Network.USDC,
		Atomic: q.Atomic, Nonce: authorized.Authorization.Nonce, ValidBefore: until, SignedAt: now, Header: q.payload(authorized),
	}
	err := p.store()
	failpoint.Hit(failpoint.BuyKept)
	return err
}

// payload is the value of PAYMENT-SIGNATURE. Everything but the signature is the
// seller's own: the specification has clients echo the extensions.
func (q *Quote) payload(authorized x402.Authorized) string {
	if named := withPaymentID(q.extensions[extensionPaymentID]); named != nil {
		q.extensions[extensionPaymentID] = named
	}
	return x402.EncodeHeader(struct {
		X402Version int                        `json:"x402Version"`
		Resource    json.RawMessage            `json:"resource,omitempty"`
		Accepted    json.RawMessage            `json:"accepted"`
		Payload     x402.Authorized            `json:"payload"`
		Extensions  map[string]json.RawMessage `json:"extensions,omitempty"`
	}{2, q.resource, q.accepted, authorized, q.extensions})
}

// withPaymentID adds a random id of the purchase to the extension
// payment-identifier; nil if the seller does not offer it.
func withPaymentID(extension json.RawMessage) json.RawMessage {
	var whole, info map[string]json.RawMessage
	if json.Unmarshal(extension, &whole) != nil || json.Unmarshal(whole["info"], &info) != nil || info == nil {
		return nil
	}
	info["id"] = json.RawMessage(strconv.Quote(rand.Text()))
	whole["info"], _ = json.Marshal(info) // it came from JSON
	named, _ := json.Marshal(whole)
	return named
}

// Settle sends an undecided payment, the same bytes each time, until it is paid,
// the seller refuses it, or Wait is over. A nil error means paid. Error: ErrOpen.
func (b *Buyer) Settle(ctx context.Context, t Target, p *Purchase) error {
	for began := time.Now(); ; {
		a, err := b.send(ctx, t, p.Header, payTimeout, maxAnswer)
		failpoint.Hit(failpoint.BuySent)
		wait := retryEvery
		if err == nil {
			wait = a.retryAfter()
		}
		switch state, reason := judge(a, err, p.Spendable()); {
		case state == Paid:
			return p.paid(a)
		case state == Refused:
			return p.refused(reason)
		case time.Since(began)+wait > b.Wait:
			return p.open(reason)
		case b.Progress != nil:
			b.Progress(fmt.Sprintf("no final answer yet (%s); the same payment is sent again in %v", reason, wait))
		}
		select {
		case <-ctx.Done():
			return p.open(ctx.Err().Error())
		case <-time.After(wait):
		}
	}
}

// judge decides what an answer means for a payment, and says why.
func judge(a *answer, err error, spendable bool) (State, string) {
	if err != nil {
		return Open, Plain(err.Error())
	}
	switch settlement := parseSettlement(a.header); {
	case a.status >= 200 && a.status < 300 && (settlement == nil || settlement.Success):
		return Paid, ""
	case a.status >= 500, a.status == http.StatusTooManyRequests, a.status == http.StatusRequestTimeout, a.status == http.StatusTooEarly:
		return Open, a.reason()
	case spendable && settlement != nil && settlement.Transaction != "":
		// A transaction was sent to the chain, and may still be mined.
		return Open, a.reason()
	default:
		return Refused, a.reason()
	}
}

// retryAfter is the pause that the seller asks for, in seconds.
func (a *answer) retryAfter() time.Duration {
	seconds, err := strconv.ParseUint(a.header.Get("Retry-After"), 10, 31)
	if err != nil {
		return retryEvery
	}
	return min(max(time.Duration(seconds)*time.Second, time.Second), maxRetryAfter)
}

// parseSettlement reads PAYMENT-RESPONSE; nil if there is not exactly one that can
// be read.
func parseSettlement(header http.Header) *x402.SettleResponse {
	values := header.Values(x402.HeaderResponse)
	if len(values) != 1 {
		return nil
	}
	settlement := new(x402.SettleResponse)
	if text, err := x402.DecodeHeader(values[0]); err != nil || decode(text, settlement) != nil {
		return nil
	}
	return settlement
}

// reason says why the payment is not taken: the status, and the seller's words.
func (a *answer) reason() string {
	status := fmt.Sprintf("status %d", a.status)
	if a.status >= 300 && a.status < 400 {
		return status + ": it redirects, and a payment follows no redirect"
	}
	var problem struct {
		Reason string `json:"reason"`
		Detail string `json:"detail"`
		Error  string `json:"error"`
	}
	_ = decode(a.body, &problem) // most bodies have none
	words := []string{problem.Reason, problem.Detail, problem.Error}
	if s := parseSettlement(a.header); s != nil {
		words = append(words, s.ErrorReason, s.ErrorMessage)
	}
	if in, err := parseRequired(a.header, a.body); err == nil {
		words = append(words, in.Error)
	}
	said := ""
	for _, word := range words {
		if !strings.Contains(said, word) {
			said = strings.TrimPrefix(said+": "+word, ": ")
		}
	}
	if said == "" {
		return status
	}
	return status + ": " + quoted(said)
}

// paid stores the answer to a payment that was taken, and what was bought first.
func (p *Purchase) paid(a *answer) error {
	if len(a.body) > 0 {
		a.cut = errors.Join(a.cut, p.storeAnswer(a.body))
	}
	p.State, p.Reason, p.Header, p.Status = Paid, "", "", a.status
	if a.cut != nil {
		p.Reason = "the answer is not complete: " + a.cut.Error()
	}
	if settlement := parseSettlement(a.header); settlement != nil && transactionHash.MatchString(settlement.Transaction) {
		p.Transaction = settlement.Transaction
	}
	var body struct {
		ReceiptURL string `json:"receiptUrl"`
	}
	_ = json.Unmarshal(a.body, &body) // other sellers have none
	p.ReceiptURL = Plain(body.ReceiptURL)
	failpoint.Hit(failpoint.BuyAnswered)
	err := p.store()
	failpoint.Hit(failpoint.BuyNoted)
	return err
}

// open stores that there is no final answer.
func (p *Purchase) open(reason string) error {
	p.State, p.Reason = Open, reason
	return errors.Join(fmt.Errorf("%w: %s", ErrOpen, reason), p.store())
}

// refused stores a refusal. The seller can still spend the authorization until it
// expires.
func (p *Purchase) refused(reason string) error {
	p.State, p.Reason = Refused, reason
	if !p.Spendable() {
		p.State, p.Header = Void, ""
	}
	if err := p.store(); err != nil {
		return err
	}
	return fmt.Errorf("the seller refused the payment: %s", reason)
}
