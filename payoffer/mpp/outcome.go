package mpp

import (
	"encoding/base64"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// problemType is the prefix of all problem types (draft-httpauth-payment, "Error Codes").
const problemType = "https://paymentauth.org/problems/"

// Problems of a credential, without the prefix.
const (
	malformedCredential = "malformed-credential"
	methodUnsupported   = "method-unsupported"
	invalidChallenge    = "invalid-challenge"
	verificationFailed  = "verification-failed"
	paymentExpired      = "payment-expired"
)

var titles = map[string]string{
	malformedCredential: "Malformed Credential", methodUnsupported: "Method Unsupported", invalidChallenge: "Invalid Challenge",
	verificationFailed: "Verification Failed", paymentExpired: "Payment Expired",
}

// ProblemTypes returns all problem types, sorted.
func ProblemTypes() []string {
	types := slices.Sorted(maps.Keys(titles))
	for n, name := range types {
		types[n] = problemType + name
	}
	return types
}

// Problem says why a credential was rejected (RFC 9457).
type Problem struct {
	Type        string `json:"type" jsonschema:"What kind of problem it is."`
	Title       string `json:"title"`
	Status      int    `json:"status"`
	Detail      string `json:"detail" jsonschema:"What is wrong and what to do."`
	ChallengeID string `json:"challengeId,omitempty"`
}

func (p *Problem) Error() string { return p.Detail }

func newProblem(name, detail, challengeID string) *Problem {
	status := http.StatusPaymentRequired
	if name == methodUnsupported {
		status = http.StatusBadRequest // another challenge would not help
	}
	return &Problem{problemType + name, titles[name], status, detail, challengeID}
}

func malformed(what string) *Problem {
	return newProblem(malformedCredential, "The credential "+what+". It was not sent; request a new challenge and answer that one.", "")
}

// Problem returns why an attempt was rejected or malformed, or nil.
func (c *Credential) Problem(o x402.Outcome) *Problem {
	switch o.Status {
	case x402.Malformed:
		return newProblem(malformedCredential, o.Detail, c.challenge.ID)
	case x402.Refused:
	default:
		return nil
	}
	// A wrong challenge explains why its payment does not match the terms.
	if name, detail := c.reject(); name != "" {
		return newProblem(name, strings.TrimSpace(strings.TrimSuffix(detail, o.Detail)+" "+o.Detail), c.challenge.ID)
	}
	name := verificationFailed
	if strings.Contains(o.Reason, "expired") || strings.Contains(o.Reason, "valid_before") {
		name = paymentExpired
	}
	return newProblem(name, o.Reason+": "+o.Detail, c.challenge.ID)
}

// Receipt confirms a payment (draft-httpauth-payment, "Payment-Receipt Header").
type Receipt struct {
	Status      string `json:"status" jsonschema:"success: the payment was charged."`
	Method      string `json:"method" jsonschema:"The method of payment: evm."`
	Timestamp   string `json:"timestamp" jsonschema:"When the payment was taken (RFC 3339)."`
	Reference   string `json:"reference" jsonschema:"The transaction's hash."`
	ChallengeID string `json:"challengeId" jsonschema:"The challenge that the credential answered."`
	ChainID     int64  `json:"chainId" jsonschema:"The number of the chain."`
}

// Receipt returns the receipt of a settled attempt.
func (c *Credential) Receipt(o x402.Outcome) *Receipt {
	r := &Receipt{Status: "success", Method: Method, Timestamp: o.At.UTC().Format(time.RFC3339), ChallengeID: c.challenge.ID}
	if o.Response != nil {
		_, chain, _ := strings.Cut(o.Response.Network, ":")
		r.Reference = o.Response.Transaction
		r.ChainID, _ = strconv.ParseInt(chain, 10, 64) // it is a CAIP-2 ID
	}
	return r
}

// Header returns the receipt as the value of Payment-Receipt.
func (r *Receipt) Header() string { return base64.RawURLEncoding.EncodeToString(offer.JSON(r)) }
