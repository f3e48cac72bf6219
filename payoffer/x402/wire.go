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
	Name    string `json:"name" jsonschema:"The name of the token's EIP-712 domain."`
	Version string `json:"version" jsonschema:"The version of the token's EIP-712 domain."`
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
	Scheme            string `json:"scheme" jsonschema:"exact: the payment has exactly the quoted amount."`
	Network           string `json:"network" jsonschema:"The chain as a CAIP-2 id."`
	Amount            string `json:"amount" jsonschema:"The price in atomic units of the token."`
	Asset             string `json:"asset" jsonschema:"The token contract."`
	PayTo             string `json:"payTo" jsonschema:"Where the money goes."`
	MaxTimeoutSeconds int    `json:"maxTimeoutSeconds" jsonschema:"How long a signed payment is valid, in seconds."`
	Extra             extra  `json:"extra" jsonschema:"Name and version of the token's EIP-712 domain, and when the payment is settled."`
}

// RequirementsV1 is one way to pay in version 1. Network is a chain name.
type RequirementsV1 struct {
	Scheme            string `json:"scheme" jsonschema:"exact: the payment has exactly the quoted amount."`
	Network           string `json:"network" jsonschema:"The name of the chain."`
	MaxAmountRequired string `json:"maxAmountRequired" jsonschema:"The price in atomic units of the token."`
	Asset             string `json:"asset" jsonschema:"The token contract."`
	PayTo             string `json:"payTo" jsonschema:"Where the money goes."`
	Resource          string `json:"resource" jsonschema:"The payable URL."`
	Description       string `json:"description" jsonschema:"What is paid for."`
	MimeType          string `json:"mimeType" jsonschema:"The media type of the answer to a payment."`
	MaxTimeoutSeconds int    `json:"maxTimeoutSeconds" jsonschema:"How long a signed payment is valid, in seconds."`
	Extra             domain `json:"extra" jsonschema:"Name and version of the token's EIP-712 domain."`
}

// PaymentRequired is the version 2 quote, the JSON in PAYMENT-REQUIRED.
type PaymentRequired struct {
	X402Version int                        `json:"x402Version" jsonschema:"The version of x402."`
	Error       string                     `json:"error" jsonschema:"Why the answer is not 200: no payment, or the reason of its refusal."`
	Resource    offer.Resource             `json:"resource" jsonschema:"What is paid for."`
	Accepts     []Requirements             `json:"accepts" jsonschema:"The ways to pay: sign one of them."`
	Extensions  map[string]json.RawMessage `json:"extensions,omitempty" jsonschema:"Repeat all of them in the payment: access.info.token lets the answer have receiptUrl."`
}

type CardQuote struct {
	Error    string         `json:"error" jsonschema:"Why the answer is not 200: no payment, or the reason of its refusal."`
	Fallback offer.Fallback `json:"fallback" jsonschema:"The card checkout."`
}

// PaymentRequiredV1 is the body of a 402: the version 1 quote, the card checkout, a hint for the payer,
// and the signed offers of the version 2 quote.
type PaymentRequiredV1 struct {
	X402Version int `json:"x402Version" jsonschema:"The version of x402."`
	CardQuote
	Accepts    []RequirementsV1           `json:"accepts" jsonschema:"The ways to pay by version 1: sign one of them."`
	Hint       string                     `json:"hint" jsonschema:"Advice to the payer."`
	Extensions map[string]json.RawMessage `json:"extensions,omitempty" jsonschema:"Extensions of x402 version 2 for which the header has no room: the signed offers."`
}

// PaymentPayload is a payment in version 2, the JSON in PAYMENT-SIGNATURE.
type PaymentPayload struct {
	X402Version int                        `json:"x402Version" jsonschema:"The version of x402."`
	Resource    offer.Resource             `json:"resource,omitzero" jsonschema:"The resource of the quote."`
	Accepted    Requirements               `json:"accepted" jsonschema:"The entry of accepts that is paid, unchanged."`
	Payload     Authorized                 `json:"payload" jsonschema:"The signed authorization."`
	Extensions  map[string]json.RawMessage `json:"extensions,omitempty" jsonschema:"The extensions of the quote. To buy twice, add a new id of 16 to 128 letters, digits, hyphens and underscores to payment-identifier.info."`
}

// PaymentPayloadV1 is a payment in version 1, the JSON in X-PAYMENT. Network is a chain name.
type PaymentPayloadV1 struct {
	X402Version int        `json:"x402Version" jsonschema:"The version of x402."`
	Scheme      string     `json:"scheme" jsonschema:"exact: the payment has exactly the quoted amount."`
	Network     string     `json:"network" jsonschema:"The name of the chain."`
	Payload     Authorized `json:"payload" jsonschema:"The signed authorization."`
}

// SettleResponse is the JSON in PAYMENT-RESPONSE. Transaction is empty on failure.
type SettleResponse struct {
	Success      bool                       `json:"success" jsonschema:"Whether the payment was charged."`
	ErrorReason  string                     `json:"errorReason,omitempty" jsonschema:"A stable code of the refusal."`
	ErrorMessage string                     `json:"errorMessage,omitempty" jsonschema:"Why it was refused."`
	Payer        string                     `json:"payer,omitempty" jsonschema:"The address of the payer."`
	Transaction  string                     `json:"transaction" jsonschema:"The transaction's hash; empty after a refusal."`
	Network      string                     `json:"network" jsonschema:"The chain, named as in the x402 version of the payment."`
	Amount       string                     `json:"amount,omitempty" jsonschema:"The charged amount in atomic units of the token."`
	Extensions   map[string]json.RawMessage `json:"extensions,omitempty" jsonschema:"offer-receipt.info.receipt is the SignedReceipt (version 2)."`
}

// authorization is an EIP-3009 transferWithAuthorization in JSON: integers as decimal strings (atomic
// units, Unix seconds), the nonce as 32 bytes of hexadecimal.
type authorization struct {
	From        string `json:"from" jsonschema:"The payer."`
	To          string `json:"to" jsonschema:"payTo of the quote."`
	Value       string `json:"value" jsonschema:"The quoted amount in atomic units."`
	ValidAfter  string `json:"validAfter" jsonschema:"Unix seconds, such as 0."`
	ValidBefore string `json:"validBefore" jsonschema:"Unix seconds, at most maxTimeoutSeconds from now."`
	Nonce       string `json:"nonce" jsonschema:"32 random bytes, new for each payment."`
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
