package agent

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// payloadOf takes a PaymentPayload out of the member metaPayment. The
// specification has an object there; Cloudflare's agents send the base64 of its
// JSON, which is a header's value.
func payloadOf(member json.RawMessage) ([]byte, error) {
	var text string
	if member[0] != '"' || json.Unmarshal(member, &text) != nil {
		return member, nil
	}
	payload, err := x402.PayloadFromText(text)
	if err == nil && !json.Valid(payload) {
		err = errors.New("not the base64 of JSON")
	}
	if err != nil {
		return nil, fmt.Errorf("the text of %s is %w; send the PaymentPayload as an object, or as the base64 of its JSON", metaPayment, err)
	}
	return payload, nil
}
