package mpp

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// problemType begins the type of every problem (draft-httpauth-payment, "Error
// Codes").
const problemType = "https://paymentauth.org/problems/"

// Problems of a credential, by the end of their types.
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

// ProblemTypes are the types of all problems, in order.
func ProblemTypes() []string {
	types := slices.Sorted(maps.Keys(titles))
	for n, name := range types {
		types[n] = problemType + name
	}
	return types
}

// Problem says why a credential was refused, as RFC 9457 writes it. One with the
// status 402 goes with a fresh challenge.
type Problem struct {
	Type   string `json:"type" jsonschema:"What kind of problem it is."`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail" jsonschema:"What is wrong and what to do."`
	// ChallengeID is of the challenge that was answered.
	ChallengeID string `json:"challengeId,omitempty"`
}

// Error is the sentence.
func (p *Problem) Error() string { return p.Detail }

func newProblem(name, detail, challengeID string) *Problem {
	status := http.StatusPaymentRequired
	if name == methodUnsupported {
		status = http.StatusBadRequest // another challenge of ours would be of no use
	}
	return &Problem{problemType + name, titles[name], status, detail, challengeID}
}

// malformed is a credential that cannot be read, and was sent to nobody.
func malformed(what string) *Problem {
	return newProblem(malformedCredential, "The credential "+what+". It was not taken; answer a challenge as the Payment scheme has it.", "")
}

// Problem is what a refused or malformed attempt with the credential came to; nil for
// any other, which is no matter of the scheme.
func (c *Credential) Problem(o x402.Outcome) *Problem {
	switch o.Status {
	case x402.Malformed:
		return newProblem(malformedCredential, o.Detail, c.challenge.ID)
	case x402.Refused:
	default:
		return nil
	}
	// What is wrong with a challenge explains why its payment fits no terms.
	if name, detail := c.refuse(); name != "" && name != o.Reason {
		return newProblem(name, detail+" "+o.Detail, c.challenge.ID)
	} else if name != "" {
		return newProblem(name, o.Detail, c.challenge.ID)
	}
	name := verificationFailed
	if strings.Contains(o.Reason, "expired") || strings.Contains(o.Reason, "valid_before") {
		name = paymentExpired
	}
	return newProblem(name, o.Reason+": "+o.Detail, c.challenge.ID)
}

// Receipt says that a credential paid (draft-httpauth-payment, "Payment-Receipt
// Header").
type Receipt struct {
	Status string `json:"status"`
	Method string `json:"method"`
	// Timestamp is when the payment was taken (RFC 3339).
	Timestamp string `json:"timestamp"`
	// Reference is the transaction's hash.
	Reference   string `json:"reference"`
	ChallengeID string `json:"challengeId"`
	ChainID     int64  `json:"chainId"`
}

// Receipt is that of a settled attempt.
func (c *Credential) Receipt(o x402.Outcome) *Receipt {
	r := &Receipt{Status: "success", Method: Method, Timestamp: o.At.UTC().Format(time.RFC3339), ChallengeID: c.challenge.ID}
	if o.Response != nil {
		_, chain, _ := strings.Cut(o.Response.Network, ":")
		r.Reference = o.Response.Transaction
		r.ChainID, _ = strconv.ParseInt(chain, 10, 64) // it is a CAIP-2 id
	}
	return r
}

// Header is the receipt as the value of Payment-Receipt.
func (r *Receipt) Header() string {
	text, err := json.Marshal(r)
	if err != nil {
		panic("mpp: " + err.Error()) // strings and numbers always marshal
	}
	return base64.RawURLEncoding.EncodeToString(text)
}
