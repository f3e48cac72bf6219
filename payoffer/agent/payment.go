package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/payoffer/caddy-pay-offer/payoffer/mpp"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// paymentMeta contains the members of _meta by which an MCP call pays. They are nil if absent or null.
type paymentMeta struct {
	Payment    *jsontext.Value `json:"x402/payment"`               // a PaymentPayload (x402 version 2, MCP transport)
	Credential *jsontext.Value `json:"org.paymentauth/credential"` // draft-payment-transport-mcp
}

// payment is the x402 payment or the MPP credential of a call, or why neither is usable.
type payment struct {
	attempt    x402.Attempt
	credential *mpp.Credential
	err        error
}

// payment returns the payment of a call, or nil if it has none.
func (e *Endpoint) payment(c call, client string) *payment {
	var params struct {
		Meta paymentMeta `json:"_meta"`
	}
	var outer paymentMeta // some clients put the credential next to the params
	_ = json.Unmarshal(c.Params, &params)
	_ = json.Unmarshal(c.Meta, &outer)
	inner, credential := params.Meta, params.Meta.Credential
	if credential == nil {
		credential = outer.Credential
	}
	twice := outer.Credential != nil && !bytes.Equal(*outer.Credential, *credential)
	switch {
	case credential != nil && e.Challenges != nil && (twice || inner.Payment != nil || outer.Payment != nil):
		return &payment{err: errors.New("the call has more than one payment, so none was sent; send only one of them")}
	case credential != nil && e.Challenges != nil:
		read, err := e.Challenges.FromMeta(*credential)
		if err != nil {
			return &payment{err: err}
		}
		return &payment{attempt: read.Attempt(client), credential: read}
	case inner.Payment != nil:
		payload, err := decodePayload(*inner.Payment)
		return &payment{attempt: x402.Attempt{Payload: payload, Client: client}, err: err}
	}
	return nil
}

// decodePayload returns the PaymentPayload of a call: an object, or from Cloudflare's agents the base64 of its JSON.
func decodePayload(member jsontext.Value) ([]byte, error) {
	var text string
	if member.Kind() != '"' || json.Unmarshal(member, &text) != nil {
		return member, nil
	}
	payload, err := x402.PayloadFromText(text)
	if err == nil && !jsontext.Value(payload).IsValid() {
		err = errors.New("not the base64 of JSON")
	}
	if err != nil {
		return nil, fmt.Errorf("the text of x402/payment is %w; send the PaymentPayload as an object or as the base64 of its JSON", err)
	}
	return payload, nil
}

// pay settles a payment. The problem says why a credential was rejected.
func (p *payment) pay(ctx context.Context, payments Payments) (x402.Outcome, *mpp.Problem) {
	if p.err != nil {
		problem, _ := errors.AsType[*mpp.Problem](p.err)
		return x402.Outcome{Status: x402.Malformed, Version: 2, Reason: "invalid_payload", Detail: strings.TrimSuffix(p.err.Error(), ".") + "."}, problem
	}
	outcome := payments.Pay(ctx, p.attempt)
	if p.credential == nil {
		return outcome, nil
	}
	return outcome, p.credential.Problem(outcome)
}
