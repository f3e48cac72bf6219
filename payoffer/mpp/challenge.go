// Package mpp implements the "Payment" HTTP authentication scheme
// (draft-httpauth-payment-01), also known as MPP, with the method evm, the intent
// charge (draft-evm-charge-00) and credentials of the type authorization. Each
// credential is an EIP-3009 authorization with a prescribed nonce, so it is settled
// as an x402 payment.
package mpp

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"hash"
	"strings"

	"github.com/ethereum/go-ethereum/crypto"
)

const (
	Scheme = "Payment"
	Method = "evm"    // the only supported method
	Intent = "charge" // the only supported intent

	HeaderChallenge = "WWW-Authenticate"
	HeaderReceipt   = "Payment-Receipt"

	credentialType     = "authorization" // the only supported type of the method
	fieldAuthorization = "Authorization" // the default request field for credentials
)

// challenge is a demand for payment on the wire, which its credential repeats.
type challenge struct {
	ID      string `json:"id" jsonschema:"The id of the challenge, unchanged like all its parameters."`
	Realm   string `json:"realm" jsonschema:"The host that is paid."`
	Method  string `json:"method" jsonschema:"The method of payment: evm."`
	Intent  string `json:"intent" jsonschema:"The intent of the payment: charge."`
	Request string `json:"request" jsonschema:"The base64url of a ChargeRequest."` // canonical JSON (RFC 8785)
	Expires string `json:"expires,omitempty" jsonschema:"The end of the challenge (RFC 3339)."`
	Digest  string `json:"digest,omitempty" jsonschema:"As in the challenge."`
	Header  string `json:"header,omitempty" jsonschema:"The request header for the credential, unless it is Authorization."`
	Opaque  string `json:"opaque,omitempty" jsonschema:"As in the challenge."`

	Description string `json:"description,omitempty" jsonschema:"As in the challenge."`
}

// binder makes the IDs of challenges with one key. It is not safe for concurrent use.
type binder struct {
	mac  hash.Hash
	text []byte // a buffer
}

func newBinder(key []byte) *binder { return &binder{mac: hmac.New(sha256.New, key)} }

// id returns the ID of a challenge (draft-httpauth-payment, "Challenge Binding").
func (b *binder) id(c *challenge) string {
	b.text = b.text[:0]
	for _, slot := range [...]string{c.Realm, c.Method, c.Intent, c.Request, c.Expires, c.Digest} {
		b.text = append(append(b.text, slot...), '|')
	}
	if c.Header != "" && c.Header != fieldAuthorization {
		b.text = append(append(b.text, c.Header...), '|')
	}
	b.text = append(b.text, c.Opaque...)
	b.mac.Reset()
	b.mac.Write(b.text)
	return base64.RawURLEncoding.EncodeToString(b.mac.Sum(b.text[:0]))
}

// nonce returns the nonce of the authorization that answers the challenge
// (draft-evm-charge, "Challenge Binding").
func (c *challenge) nonce() string { return crypto.Keccak256Hash([]byte(c.ID + c.Realm)).Hex() }

// String returns the challenge as a value of WWW-Authenticate.
func (c *challenge) String() string {
	var text strings.Builder
	text.Grow(512)
	text.WriteString(Scheme)
	separator := " "
	for _, parameter := range [...][2]string{
		{"id", c.ID}, {"realm", c.Realm}, {"method", c.Method}, {"intent", c.Intent}, {"request", c.Request}, {"expires", c.Expires},
		{"digest", c.Digest}, {"header", c.Header}, {"description", c.Description}, {"opaque", c.Opaque},
	} {
		if parameter[1] != "" {
			text.WriteString(separator + parameter[0] + `="`)
			text.WriteString(quoted.Replace(parameter[1]))
			text.WriteByte('"')
			separator = ", "
		}
	}
	return text.String()
}

// quoted escapes the text of a quoted-string (RFC 9110 section 5.6.4).
var quoted = strings.NewReplacer(`\`, `\\`, `"`, `\"`)
