// Package x402 quotes and takes payments by x402 versions 1 and 2, scheme "exact" on EVM chains with
// EIP-3009 authorizations.
//
// A payment is checked here, verified by a facilitator, committed to the ledger as an intent, settled by the
// facilitator, and recorded. A settlement that only the facilitator reports is a claim; the Transfer on the chain is
// its proof. An intent has three outcomes: settled (yes), refused (a definite no, which only the chain gives), and open
// (unknown). A facilitator sends a reply, the payer gets an outcome, and the ledger stores the answer for replays.
package x402

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// Header names of the HTTP transport, version 2 and version 1.
const (
	HeaderRequired    = "PAYMENT-REQUIRED"
	HeaderSignature   = "PAYMENT-SIGNATURE"
	HeaderResponse    = "PAYMENT-RESPONSE"
	HeaderSignatureV1 = "X-PAYMENT"
	HeaderResponseV1  = "X-PAYMENT-RESPONSE"
)

const schemeExact = "exact"

// maxTimeoutSeconds is for how long clients sign an authorization.
const maxTimeoutSeconds = 300

// domain is the part of the token's EIP-712 domain that a client needs.
type domain struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// flowUpfront: the payment is settled before it is answered (x402, scheme exact). By default clients
// assume that a 402 after a payment means that nothing was charged.
const flowUpfront = "upfront"

// extra is the scheme's part of a version 2 requirement. Version 1 has only the domain.
type extra struct {
	domain
	PaymentFlow string `json:"paymentFlow,omitempty" jsonschema:"Whether the payment is settled before it is answered."`
}

// Requirements is one way to pay in version 2. Amount is in atomic units, Network a CAIP-2 id.
type Requirements struct {
	Scheme            string `json:"scheme"`
	Network           string `json:"network" jsonschema:"The chain as a CAIP-2 id."`
	Amount            string `json:"amount"`
	Asset             string `json:"asset" jsonschema:"The token contract."`
	PayTo             string `json:"payTo" jsonschema:"Where the money goes."`
	MaxTimeoutSeconds int    `json:"maxTimeoutSeconds" jsonschema:"How long a signed payment is valid, in seconds."`
	Extra             extra  `json:"extra" jsonschema:"Name and version of the token's EIP-712 domain, and when the payment is settled."`
}

// RequirementsV1 is one way to pay in version 1. Network is a chain name.
type RequirementsV1 struct {
	Scheme            string `json:"scheme"`
	Network           string `json:"network" jsonschema:"The name of the chain."`
	MaxAmountRequired string `json:"maxAmountRequired"`
	Asset             string `json:"asset" jsonschema:"The token contract."`
	PayTo             string `json:"payTo" jsonschema:"Where the money goes."`
	Resource          string `json:"resource" jsonschema:"The payable URL."`
	Description       string `json:"description"`
	MimeType          string `json:"mimeType"`
	MaxTimeoutSeconds int    `json:"maxTimeoutSeconds" jsonschema:"How long a signed payment is valid, in seconds."`
	Extra             domain `json:"extra" jsonschema:"Name and version of the token's EIP-712 domain."`
}

// PaymentRequired is the version 2 quote, the JSON in PAYMENT-REQUIRED.
type PaymentRequired struct {
	X402Version int                        `json:"x402Version"`
	Error       string                     `json:"error"`
	Resource    offer.Resource             `json:"resource"`
	Accepts     []Requirements             `json:"accepts"`
	Extensions  map[string]json.RawMessage `json:"extensions,omitempty"`
}

type CardQuote struct {
	Error    string         `json:"error"`
	Fallback offer.Fallback `json:"fallback"`
}

// PaymentRequiredV1 is the body of a 402: the version 1 quote, the card checkout, a hint for the payer,
// and the signed offers of the version 2 quote.
type PaymentRequiredV1 struct {
	X402Version int `json:"x402Version"`
	CardQuote
	Accepts    []RequirementsV1           `json:"accepts"`
	Hint       string                     `json:"hint" jsonschema:"Advice to the payer."`
	Extensions map[string]json.RawMessage `json:"extensions,omitempty" jsonschema:"Extensions of x402 version 2 for which the header has no room: the signed offers."`
}

// SettleResponse is the JSON in PAYMENT-RESPONSE. Transaction is empty on failure.
type SettleResponse struct {
	Success      bool                       `json:"success"`
	ErrorReason  string                     `json:"errorReason,omitempty"`
	ErrorMessage string                     `json:"errorMessage,omitempty"`
	Payer        string                     `json:"payer,omitempty"`
	Transaction  string                     `json:"transaction"`
	Network      string                     `json:"network"`
	Amount       string                     `json:"amount,omitempty"`
	Extensions   map[string]json.RawMessage `json:"extensions,omitempty"`
}

// authorization is an EIP-3009 transferWithAuthorization in JSON: integers as decimal strings (atomic
// units, Unix seconds), the nonce as 32 bytes of hexadecimal.
type authorization struct {
	From        string `json:"from"`
	To          string `json:"to"`
	Value       string `json:"value"`
	ValidAfter  string `json:"validAfter"`
	ValidBefore string `json:"validBefore"`
	Nonce       string `json:"nonce"`
}

// maxPayload bounds a payment payload in bytes. Reference clients send up to about 3 KB.
const maxPayload = 32 << 10

// EncodeHeader is the padded standard base64 of v's JSON, which every client reads.
func EncodeHeader(v any) string { return base64.StdEncoding.EncodeToString(offer.JSON(v)) }

// PayloadFromHeader reads the payment payload from PAYMENT-SIGNATURE or X-PAYMENT (version 1). present is
// false for a request without payment.
func PayloadFromHeader(h http.Header) (payload []byte, present bool, err error) {
	switch values := slices.Concat(h.Values(HeaderSignature), h.Values(HeaderSignatureV1)); len(values) {
	case 0:
		return nil, false, nil
	case 1:
		payload, err = PayloadFromText(values[0])
	default:
		return nil, true, fmt.Errorf("the request has more than one payment header; send only one %s or %s", HeaderSignature, HeaderSignatureV1)
	}
	if err != nil {
		return nil, true, fmt.Errorf("the payment header is %w", err)
	}
	return payload, true, nil
}

// PayloadFromText decodes the base64 of a payment payload. The error completes "it is".
func PayloadFromText(text string) ([]byte, error) {
	if len(text) > base64.StdEncoding.EncodedLen(maxPayload) {
		return nil, fmt.Errorf("longer than %d bytes", base64.StdEncoding.EncodedLen(maxPayload))
	}
	payload, err := DecodeHeader(text)
	if err != nil {
		return nil, errors.New("not base64")
	}
	return payload, nil
}

// DecodeHeader reads base64 with either alphabet, with or without padding.
func DecodeHeader(s string) ([]byte, error) {
	s = strings.TrimRight(strings.TrimSpace(s), "=")
	if strings.ContainsAny(s, "-_") {
		return base64.RawURLEncoding.Strict().DecodeString(s)
	}
	return base64.RawStdEncoding.Strict().DecodeString(s)
}
