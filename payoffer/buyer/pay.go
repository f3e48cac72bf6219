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

	strict "github.com/go-json-experiment/json"

	"github.com/payoffer/caddy-pay-offer/payoffer/failpoint"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// ErrOpen means that a payment has no final answer: it may be charged, and the next run
// sends it again.
var ErrOpen = errors.New("the seller has not decided the payment yet")

var transactionHash = regexp.MustCompile(`^0x[0-9a-fA-F]{64}$`)

const (
	// retryEvery is the pause between attempts without Retry-After.
	retryEvery = 5 * time.Second
	// maxRetryAfter limits the pause that a seller can ask for.
	maxRetryAfter = time.Hour
)

// Sign signs a payment of the quote and stores it. It sends nothing. It refuses while
// the last payment is undecided and can be spent.
func (p *Purchase) Sign(t Target, q *Quote, key Key) error {
	if p.Payment != nil && !p.State.Decided() && p.Spendable() {
		return errors.New("not paid: the last payment of this purchase is undecided and may still be charged; run the same command again")
	}
	if strings.EqualFold(q.PayTo, key.Address()) {
		return errors.New("not paid: the key belongs to the payee; use the key of another account")
	}
	now := time.Now()
	until := now.Add(q.Validity).Truncate(time.Second)
	authorized := x402.Authorize(key.private, q.Network, q.PayTo, q.Atomic, until)
	failpoint.Hit(failpoint.BuySigned)
	p.number++
	p.Payment = &Payment{
		State: Open, Method: q.Method, URL: t.URL(), Payer: key.Address(), PayTo: q.PayTo, Network: q.Network.CAIP2(), Asset: q.Network.USDC,
		Atomic: q.Atomic, Nonce: authorized.Authorization.Nonce, ValidBefore: until, SignedAt: now, Header: q.payload(authorized),
	}
	err := p.store()
	failpoint.Hit(failpoint.BuyKept)
	return err
}

// payload is the value of PAYMENT-SIGNATURE. It repeats the seller's resource, terms and
// extensions, as the specification requires.
func (q *Quote) payload(authorized x402.Authorized) string {
	if extension := withPaymentID(q.extensions[extensionPaymentID]); extension != nil {
		q.extensions[extensionPaymentID] = extension
	}
	return x402.EncodeHeader(struct {
		X402Version int                        `json:"x402Version"`
		Resource    json.RawMessage            `json:"resource,omitempty"`
		Accepted    json.RawMessage            `json:"accepted"`
		Payload     x402.Authorized            `json:"payload"`
		Extensions  map[string]json.RawMessage `json:"extensions,omitempty"`
	}{2, q.resource, q.accepted, authorized, q.extensions})
}

// withPaymentID adds a random id of the purchase to the extension payment-identifier. It
// returns nil if the seller does not offer the extension.
func withPaymentID(extension json.RawMessage) json.RawMessage {
	var whole, info map[string]json.RawMessage
	if json.Unmarshal(extension, &whole) != nil || json.Unmarshal(whole["info"], &info) != nil || info == nil {
		return nil
	}
	info["id"] = json.RawMessage(strconv.Quote(rand.Text()))
	whole["info"], _ = json.Marshal(info) // parsed above
	extension, _ = json.Marshal(whole)
	return extension
}

// Settle sends an undecided payment, the same bytes each time, until it is paid, the
// seller refuses it, or Wait is over. It sends them by the method of the payment, whatever
// the target's is. A nil error means paid. Error: ErrOpen.
func (b *Buyer) Settle(ctx context.Context, t Target, p *Purchase) error {
	t.Method = p.Method
	for began := time.Now(); ; {
		a, err := b.send(ctx, t, p.Header, payTimeout, maxAnswer)
		failpoint.Hit(failpoint.BuySent)
		wait := retryEvery
		if err == nil {
			wait = a.retryAfter()
		}
		switch state, reason := judge(a, err, p.Spendable()); {
		case state == Paid:
			return p.markPaid(a)
		case state == Refused:
			if a.status == http.StatusConflict {
				reason += "; if another program signed the earlier payment, first send that one again with it"
			}
			return p.markRefused(reason)
		case time.Since(began)+wait > b.Wait:
			return p.markOpen(reason)
		case b.Progress != nil:
			b.Progress(fmt.Sprintf("the seller has not decided yet (%s); the same payment is sent again in %v", reason, wait))
		}
		select {
		case <-ctx.Done():
			return p.markOpen(ctx.Err().Error())
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
	case settlement != nil && settlement.Success: // charged, also if the seller's application then failed
		return Paid, ""
	case a.status >= 200 && a.status < 300 && settlement == nil:
		return Paid, ""
	case a.status >= 500, a.status == http.StatusTooManyRequests, a.status == http.StatusRequestTimeout, a.status == http.StatusTooEarly:
		return Open, a.reason()
	case spendable && settlement != nil && settlement.Transaction != "":
		return Open, a.reason() // the transaction may still be mined
	default:
		return Refused, a.reason()
	}
}

// retryAfter is the pause that the seller asks for.
func (a *answer) retryAfter() time.Duration {
	seconds, err := strconv.ParseUint(a.header.Get("Retry-After"), 10, 31)
	if err != nil {
		return retryEvery
	}
	return min(max(time.Duration(seconds)*time.Second, time.Second), maxRetryAfter)
}

// parseSettlement reads PAYMENT-RESPONSE; nil without a valid one.
func parseSettlement(header http.Header) *x402.SettleResponse {
	settlement := new(x402.SettleResponse)
	text, err := x402.DecodeHeader(header.Get(x402.HeaderResponse))
	if err != nil || strict.Unmarshal(text, settlement) != nil {
		return nil
	}
	return settlement
}

// reason returns the status and the seller's error message.
func (a *answer) reason() string {
	status := fmt.Sprintf("status %d", a.status)
	if a.status >= 300 && a.status < 400 {
		return status + ": it redirects, and payments do not follow redirects"
	}
	var problem struct{ Reason, Detail, Error string }
	_ = json.Unmarshal(a.body, &problem) // most bodies are not JSON
	words := []string{problem.Reason, problem.Detail, problem.Error}
	if s := parseSettlement(a.header); s != nil {
		words = append(words, s.ErrorReason, s.ErrorMessage)
	}
	if in, err := parseRequired(a.header, a.body); err == nil {
		words = append(words, in.Error)
	}
	text := ""
	for _, word := range words {
		if !strings.Contains(text, word) {
			text = strings.TrimPrefix(text+": "+word, ": ")
		}
	}
	if text == "" {
		return status
	}
	return status + ": " + quoted(text)
}

// markPaid stores the answer to a successful payment, the body first.
func (p *Purchase) markPaid(a *answer) error {
	incomplete := a.incomplete
	p.body, p.ContentType = a.body, a.header.Get("Content-Type")
	if len(a.body) > 0 {
		p.Answer = strings.TrimSuffix(p.file(), ".json") + ".answer"
		if err := writeDurably(p.Answer, a.body); err != nil {
			incomplete = errors.Join(incomplete, fmt.Errorf("the response could not be stored: %w", err))
		}
	}
	p.State, p.Reason, p.Header, p.Status = Paid, "", "", a.status
	if lines := a.cookieLines(); len(lines) > 0 {
		p.Cookies = map[string][]string{p.URL: lines}
	}
	if a.status >= 300 {
		p.Reason = "the payment was taken, and the answer is " + a.reason()
	}
	if incomplete != nil {
		p.Reason = strings.TrimPrefix(p.Reason+"; the response is incomplete: "+incomplete.Error(), "; ")
	}
	if settlement := parseSettlement(a.header); settlement != nil && transactionHash.MatchString(settlement.Transaction) {
		p.Transaction = settlement.Transaction
	}
	if signed := x402.FindSigned([]byte(a.header.Get(x402.HeaderResponse))); len(signed) > 0 {
		p.SignedReceipt = signed[0]
	}
	var body struct {
		ReceiptURL string `json:"receiptUrl"`
		Access     struct {
			URL string `json:"url"`
		} `json:"access"`
	}
	_ = json.Unmarshal(a.body, &body) // other sellers send none
	p.ReceiptURL, p.AccessURL = Plain(body.ReceiptURL), body.Access.URL
	failpoint.Hit(failpoint.BuyAnswered)
	err := p.store()
	failpoint.Hit(failpoint.BuyNoted)
	return err
}

// markOpen stores that there is no final answer.
func (p *Purchase) markOpen(reason string) error {
	p.State, p.Reason = Open, reason
	return errors.Join(fmt.Errorf("%w: %s", ErrOpen, reason), p.store())
}

// markRefused stores a refusal. The seller can spend the authorization until it expires.
func (p *Purchase) markRefused(reason string) error {
	p.State, p.Reason = Refused, reason
	if !p.Spendable() {
		p.State, p.Header = Void, ""
	}
	if err := p.store(); err != nil {
		return err
	}
	return fmt.Errorf("the seller refused the payment: %s", reason)
}
