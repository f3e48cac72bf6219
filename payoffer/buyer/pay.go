package buyer

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/failpoint"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// ErrOpen is of a payment without a final answer: it may be charged, and is sent
// again the next time.
var ErrOpen = errors.New("the payment has no final answer")

// Sign signs a payment of the quote and keeps it. It sends nothing, and refuses
// while the last payment is not decided and may be spent.
func (p *Purchase) Sign(t Target, q *Quote, key Key) error {
	if p.Payment != nil && !p.State.Decided() && p.Spendable() {
		return errors.New("not paid: the last payment of this purchase is not decided")
	}
	if strings.EqualFold(q.PayTo, key.Address()) {
		return errors.New("not paid: the payee is the account of the key itself")
	}
	now := time.Now()
	until := now.Add(q.Validity).Truncate(time.Second)
	authorized := x402.Authorize(key.private, q.Network, q.PayTo, q.Atomic, until)
	failpoint.Hit(failpoint.BuySigned)
	err := p.begin(&Payment{
		State: Open, Method: t.Method, URL: t.URL(), Payer: key.Address(), PayTo: q.PayTo, Network: q.Network.CAIP2(), Asset: q.Network.USDC,
		Atomic: q.Atomic, Nonce: authorized.Authorization.Nonce, ValidBefore: until, SignedAt: now, Header: q.payload(authorized),
	})
	failpoint.Hit(failpoint.BuyKept)
	return err
}

// payload is the value of PAYMENT-SIGNATURE. Everything but the signature is the
// seller's own, and the extensions are echoed, as the specification asks: but for
// the signed offers, which are long and of no use to the one who made them.
func (q *Quote) payload(authorized x402.Authorized) string {
	extensions := make(map[string]json.RawMessage)
	for name, extension := range q.extensions {
		if name != extensionSigned {
			extensions[name] = extension
		}
	}
	if named := withPaymentID(extensions[extensionPaymentID]); named != nil {
		extensions[extensionPaymentID] = named
	}
	return x402.EncodeHeader(struct {
		X402Version int                        `json:"x402Version"`
		Resource    json.RawMessage            `json:"resource,omitempty"`
		Accepted    json.RawMessage            `json:"accepted"`
		Payload     x402.Authorized            `json:"payload"`
		Extensions  map[string]json.RawMessage `json:"extensions,omitempty"`
	}{2, q.resource, q.accepted, authorized, extensions})
}

// withPaymentID adds the name of the purchase to the extension by which a seller
// asks for one; nil where none does.
func withPaymentID(extension json.RawMessage) json.RawMessage {
	var members struct {
		Info map[string]json.RawMessage `json:"info"`
	}
	var whole map[string]json.RawMessage
	if json.Unmarshal(extension, &members) != nil || members.Info == nil || json.Unmarshal(extension, &whole) != nil {
		return nil
	}
	members.Info["id"] = json.RawMessage(strconv.Quote(rand.Text()))
	whole["info"], _ = json.Marshal(members.Info) // it came from JSON
	named, _ := json.Marshal(whole)
	return named
}

// Settle sends a payment that is not decided, the same bytes each time, until it
// is, the seller refuses it, or the time to wait is over. It fails where it is not
// paid. Error: ErrOpen.
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
		default:
			b.tell("no final answer yet (%s); the same payment is sent again in %v", reason, wait)
		}
		select {
		case <-ctx.Done():
			return p.open(ctx.Err().Error())
		case <-time.After(wait):
		}
	}
}

// judge says what an answer makes of a payment that can still be spent, or not,
// and why.
func judge(a *answer, err error, spendable bool) (State, string) {
	if err != nil {
		return Open, Plain(err.Error())
	}
	switch settlement := a.settlement(); {
	case a.status >= 200 && a.status < 300 && (settlement == nil || settlement.Success):
		return Paid, ""
	case a.status >= 500, a.status == http.StatusTooManyRequests, a.status == http.StatusRequestTimeout, a.status == http.StatusTooEarly:
		return Open, a.reason()
	case spendable && settlement != nil && settlement.Transaction != "":
		// Something was sent to the chain, and may still be mined.
		return Open, a.reason()
	default:
		return Refused, a.reason()
	}
}

// settlement is what PAYMENT-RESPONSE says, nil without a readable one.
func (a *answer) settlement() *x402.SettleResponse {
	settlement, err := parseSettlement(a.response())
	if err != nil {
		return nil
	}
	return settlement
}

// response is PAYMENT-RESPONSE. Two of them are one that nobody can read.
func (a *answer) response() string { return strings.Join(a.header.Values(x402.HeaderResponse), ", ") }

// parseSettlement reads the value of PAYMENT-RESPONSE.
func parseSettlement(value string) (*x402.SettleResponse, error) {
	text, err := x402.DecodeHeader(value)
	settlement := new(x402.SettleResponse)
	if err == nil {
		err = decode(text, settlement)
	}
	return settlement, err
}

// reason is why the seller does not say yes: the status, and its own words where
// it has some.
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
	_ = decode(a.body, &problem) // most have none
	words := []string{problem.Reason, problem.Detail, problem.Error}
	if s := a.settlement(); s != nil {
		words = append(words, s.ErrorReason, s.ErrorMessage)
	}
	if q, err := findQuote(a.header, a.body); err == nil {
		words = append(words, q.Error)
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

// paid keeps the answer to a payment that was taken, and what was bought first.
func (p *Purchase) paid(a *answer) error {
	cut := a.cut
	if len(a.body) > 0 {
		cut = errors.Join(cut, p.keepAnswer(a.body))
	}
	if cut != nil {
		p.Cut = cut.Error()
	}
	p.State, p.Reason, p.Header, p.Status, p.Response = Paid, "", "", a.status, a.response()
	failpoint.Hit(failpoint.BuyAnswered)
	err := p.keep()
	failpoint.Hit(failpoint.BuyNoted)
	return err
}

// open keeps that there is no answer, though there may have been a no before.
func (p *Purchase) open(reason string) error {
	p.State, p.Reason = Open, reason
	return errors.Join(fmt.Errorf("%w: %s", ErrOpen, reason), p.keep())
}

// refused keeps a no. It is the word of the seller, who can still spend the
// authorization until it ends.
func (p *Purchase) refused(reason string) error {
	p.State, p.Reason = Refused, reason
	if !p.Spendable() {
		p.State, p.Header = Void, ""
	}
	if err := p.keep(); err != nil {
		return err
	}
	return fmt.Errorf("the seller refuses the payment: %s", reason)
}
