// Package mpp speaks the "Payment" HTTP authentication scheme
// (draft-httpauth-payment-01), also known as MPP, with the method evm, the intent
// charge (draft-evm-charge-00) and credentials of the type authorization: each is an
// EIP-3009 authorization whose nonce the challenge prescribes, so that it is settled
// as the x402 payment that it is.
package mpp

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"hash"
	"strings"
	"sync"

	"github.com/ethereum/go-ethereum/crypto"
)

// Names on the wire.
const (
	// Scheme is the authentication scheme.
	Scheme = "Payment"
	// Method and Intent are the ones that are spoken here.
	Method = "evm"
	Intent = "charge"
	// credentialType is the one of the method that is taken.
	credentialType = "authorization"
	// fieldAuthorization is the request field of credentials that needs not be named.
	fieldAuthorization = "Authorization"

	HeaderChallenge = "WWW-Authenticate"
	HeaderReceipt   = "Payment-Receipt"
)

// challenge is a demand for payment as it travels, and as a credential repeats it.
// What is empty is left out.
type challenge struct {
	ID     string `json:"id"`
	Realm  string `json:"realm"`
	Method string `json:"method"`
	Intent string `json:"intent"`
	// Request is base64url of canonical JSON (RFC 8785).
	Request string `json:"request"`
	// Expires is an RFC 3339 time.
	Expires string `json:"expires,omitempty"`
	Digest  string `json:"digest,omitempty"`
	// Header is the request field that takes the credential, where it is not
	// Authorization.
	Header      string `json:"header,omitempty"`
	Opaque      string `json:"opaque,omitempty"`
	Description string `json:"description,omitempty"`
}

// binder makes the ids of challenges, by which they are known again. It is safe for
// concurrent use.
type binder struct{ keyed sync.Pool }

// keyed is a MAC, and room for what it is of and for what it stands in: on the stack
// of a connection, which is small, that would have to be made each time.
type keyed struct {
	mac         hash.Hash
	text, value []byte
}

func newBinder(key []byte) *binder {
	return &binder{sync.Pool{New: func() any {
		return &keyed{hmac.New(sha256.New, key), make([]byte, 0, usualSize), make([]byte, 0, usualSize)}
	}}}
}

// id is base64url of the HMAC-SHA-256 of what a challenge says
// (draft-httpauth-payment, "Challenge Binding"). Its description, which is for
// people, is not covered.
func (b *binder) id(c *challenge) string {
	k := b.keyed.Get().(*keyed)
	defer b.keyed.Put(k)
	return string(k.appendID(k.value[:0], c))
}

func (k *keyed) appendID(to []byte, c *challenge) []byte {
	text := k.text[:0]
	for _, slot := range [...]string{c.Realm, c.Method, c.Intent, c.Request, c.Expires, c.Digest} {
		text = append(append(text, slot...), '|')
	}
	if c.Header != "" && c.Header != fieldAuthorization {
		text = append(append(text, c.Header...), '|')
	}
	k.text = append(text, c.Opaque...)
	k.mac.Reset()
	k.mac.Write(k.text)
	return base64.RawURLEncoding.AppendEncode(to, k.mac.Sum(k.text[:0]))
}

// usualSize is room in bytes for what a challenge says.
const usualSize = 640

// nonce is that of the authorization which answers the challenge, as hexadecimal
// (draft-evm-charge, "Challenge Binding").
func (c *challenge) nonce() string {
	return crypto.Keccak256Hash([]byte(c.ID + c.Realm)).Hex()
}

// String is the challenge as a value of WWW-Authenticate.
func (c *challenge) String() string {
	var text strings.Builder
	text.WriteString(Scheme)
	separator := " "
	for _, parameter := range [...]struct{ name, value string }{
		{"id", c.ID}, {"realm", c.Realm}, {"method", c.Method}, {"intent", c.Intent}, {"request", c.Request}, {"expires", c.Expires},
		{"digest", c.Digest}, {"header", c.Header}, {"description", c.Description}, {"opaque", c.Opaque},
	} {
		if parameter.value != "" {
			text.WriteString(separator + parameter.name + `="` + quoted.Replace(parameter.value) + `"`)
			separator = ", "
		}
	}
	return text.String()
}

// quoted escapes the text of a quoted-string (RFC 9110 section 5.6.4).
var quoted = strings.NewReplacer(`\`, `\\`, `"`, `\"`)
