package agent

import (
	"bytes"
	"context"
	"errors"
	"strings"

	"github.com/payoffer/caddy-pay-offer/payoffer/mpp"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// payment is what a call brings: an x402 payment, or a credential of the Payment
// scheme, or what is wrong with either.
type payment struct {
	attempt    x402.Attempt
	credential *mpp.Credential
	wrong      error
}

// payment is that of a call; nil for a call without one.
func (e *Endpoint) payment(c call, client string) *payment {
	meta := member(c.params, "_meta")
	payload, credential := member(meta, metaPayment), member(meta, metaCredential)
	twice := false
	if outside := member(c.meta, metaCredential); credential == nil {
		credential = outside
	} else {
		twice = outside != nil && !bytes.Equal(outside, credential)
	}
	if e.Challenges == nil {
		credential = nil
	}
	switch {
	case credential != nil && (twice || payload != nil || member(c.meta, metaPayment) != nil):
		return &payment{wrong: errors.New("the call has more than one payment, of which none was taken; send one of them")}
	case credential != nil:
		read, err := e.Challenges.FromMeta(credential)
		if err != nil {
			return &payment{wrong: err}
		}
		return &payment{attempt: read.Attempt(client), credential: read}
	case payload != nil:
		read, err := payloadOf(payload)
		return &payment{attempt: x402.Attempt{Payload: read, Client: client}, wrong: err}
	}
	return nil
}

// pay is what becomes of a payment. The problem is that of a credential which was
// refused.
func (p *payment) pay(ctx context.Context, payments Payments) (x402.Outcome, *mpp.Problem) {
	if p.wrong != nil {
		problem, _ := errors.AsType[*mpp.Problem](p.wrong)
		return x402.Outcome{Status: x402.Malformed, Version: 2, Reason: "invalid_payload", Detail: strings.TrimSuffix(p.wrong.Error(), ".") + "."}, problem
	}
	outcome := payments.Pay(ctx, p.attempt)
	if p.credential == nil {
		return outcome, nil
	}
	return outcome, p.credential.Problem(outcome)
}
