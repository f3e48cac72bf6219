package mpp

import (
	"crypto/hmac"
	"encoding/base64"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/payoffer/caddy-pay-offer/payoffer/signature"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// maxCredential bounds a credential in bytes of JSON; one with every member takes
// about 1 KB.
const maxCredential = 16 << 10

// maxID bounds the id of a challenge in bytes: a receipt repeats it, in a header.
const maxID = 128

// Credential is an answer to a challenge whose shape is right. Whose challenge it
// answers, and whether it pays, is found out by who takes it.
type Credential struct {
	issuer    *Issuer
	challenge challenge
	request   charge
	payload   payload
	source    string
}

// payload is the proof of a credential (draft-evm-charge, "Authorization Payload").
type payload struct {
	Type string `json:"type"`
	transfer
	Signature string `json:"signature"`
}

// transfer is an EIP-3009 authorization: integers as decimal strings.
type transfer struct {
	From        string `json:"from"`
	To          string `json:"to"`
	Value       string `json:"value"`
	ValidAfter  string `json:"validAfter"`
	ValidBefore string `json:"validBefore"`
	Nonce       string `json:"nonce"`
}

// ErrTwice is the error for a request with more than one credential.
var ErrTwice = errors.New("the request has two Payment credentials, of which none was taken; send one")

// FromHeader takes the credential out of the request field that the issuer named,
// and leaves those of other schemes there alone. It is nil for a request without
// one. An error is ErrTwice or a *Problem.
func (i *Issuer) FromHeader(h http.Header) (*Credential, error) {
	tokens := i.tokens(h)
	switch len(tokens) {
	case 0:
		return nil, nil
	case 1:
		return i.fromToken(tokens[0])
	}
	return nil, ErrTwice
}

// fromToken reads a credential as it stands behind the scheme.
func (i *Issuer) fromToken(token string) (*Credential, error) {
	text, err := decode(token)
	if err != nil {
		return nil, malformed("is not base64url")
	}
	return i.parse(text, func(c *challenge, request stdjson.RawMessage) error {
		return json.Unmarshal(request, &c.Request)
	})
}

// Answered reports whether a request has a credential, of whatever shape.
func (i *Issuer) Answered(h http.Header) bool { return len(i.tokens(h)) > 0 }

// tokens are what stands behind the scheme in the credentials of a request. A proxy
// may have joined two lines to one; no other scheme has a list that begins so.
func (i *Issuer) tokens(h http.Header) (tokens []string) {
	if i == nil {
		return nil
	}
	for _, line := range h[i.field] {
		for part := range strings.SplitSeq(line, ",") {
			part = strings.TrimSpace(part)
			end := strings.IndexAny(part+" ", " \t")
			if !strings.EqualFold(part[:end], Scheme) {
				break
			}
			tokens = append(tokens, strings.TrimSpace(part[end:]))
		}
	}
	return tokens
}

// FromMeta takes a credential as JSON-RPC has it, with the request as an object, or
// the text that HTTP has behind the scheme. An error is a *Problem.
func (i *Issuer) FromMeta(text []byte) (*Credential, error) {
	var token string
	if json.Unmarshal(text, &token) == nil {
		return i.fromToken(token)
	}
	return i.parse(text, func(c *challenge, request stdjson.RawMessage) error {
		canonical, err := signature.Canonical(request)
		c.Request = base64.RawURLEncoding.EncodeToString(canonical)
		return err
	})
}

// decode reads base64url, with or without padding, in its one spelling.
func decode(s string) ([]byte, error) {
	if strings.ContainsAny(s, "\r\n") {
		return nil, errors.New("there is a line break in it") // which the decoder passes over
	}
	if strings.HasSuffix(s, "=") {
		return base64.URLEncoding.Strict().DecodeString(s)
	}
	return base64.RawURLEncoding.Strict().DecodeString(s)
}

// parse reads a credential; setRequest puts the request of the challenge into the
// form in which ids are made of it. Members are known by their exact names, and none
// may stand twice.
func (i *Issuer) parse(text []byte, setRequest func(*challenge, stdjson.RawMessage) error) (*Credential, error) {
	if len(text) > maxCredential {
		return nil, malformed(fmt.Sprintf("is longer than %d bytes", maxCredential))
	}
	var in struct {
		Challenge *struct {
			challenge
			Request stdjson.RawMessage `json:"request"`
		} `json:"challenge"`
		Payload stdjson.RawMessage `json:"payload"`
		Source  string             `json:"source"`
	}
	if json.Unmarshal(text, &in) != nil {
		return nil, malformed("is not the JSON of a credential")
	}
	if in.Challenge == nil || in.Challenge.ID == "" || in.Payload == nil {
		return nil, malformed("needs 'challenge' with its id, and 'payload'")
	}
	if len(in.Challenge.ID) > maxID {
		return nil, malformed("has an id that no challenge has")
	}
	c := &Credential{issuer: i, challenge: in.Challenge.challenge, source: in.Source}
	if c.challenge.Method != Method || c.challenge.Intent != Intent {
		return nil, newProblem(methodUnsupported, "Credentials are taken for the method "+Method+" and the intent "+Intent+
			" alone; this one was not taken.", c.challenge.ID)
	}
	if setRequest(&c.challenge, in.Challenge.Request) != nil {
		return nil, malformed("has a request of another form than its challenge")
	}
	request, err := decode(c.challenge.Request)
	if err != nil || json.Unmarshal(request, &c.request) != nil {
		return nil, malformed("has a request that is no charge")
	}
	if json.Unmarshal(in.Payload, &c.payload) != nil {
		return nil, malformed("has a payload with a member of a wrong type; integers travel as decimal strings")
	}
	return c, nil
}

// Attempt is the x402 payment that the credential is. The challenge that it answers is
// judged once it is known that nobody has seen the authorization before: one that was
// taken is never refused.
func (c *Credential) Attempt(client string) x402.Attempt {
	type paid struct {
		Signature     string   `json:"signature"`
		Authorization transfer `json:"authorization"`
	}
	text, err := stdjson.Marshal(map[string]any{
		"x402Version": 2,
		"accepted": map[string]string{
			"scheme": "exact", "network": fmt.Sprintf("eip155:%d", c.request.MethodDetails.ChainID), "amount": c.request.Amount,
			"asset": c.request.Currency, "payTo": c.request.Recipient,
		},
		"payload": paid{c.payload.Signature, c.payload.transfer},
	})
	if err != nil {
		panic("mpp: " + err.Error()) // strings always marshal
	}
	return x402.Attempt{Payload: text, Client: client, Refuse: c.refuse}
}

// refuse says what is wrong with the challenge that is answered, or with the answer:
// the name of a problem and a sentence, empty for nothing.
func (c *Credential) refuse() (reason, detail string) {
	i, b := c.issuer, c.issuer.binder()
	if b == nil || c.challenge.Realm != i.realm || !hmac.Equal([]byte(c.challenge.ID), []byte(b.id(&c.challenge))) {
		return invalidChallenge, "The credential answers no challenge of this server, or has changed it."
	}
	expires, err := time.Parse(time.RFC3339, c.challenge.Expires)
	switch {
	case err != nil || !i.now().Before(expires):
		return invalidChallenge, "The challenge has expired."
	case c.payload.Type != credentialType:
		return verificationFailed, "The credential is of another type than 'authorization', the one that the challenge takes."
	case !strings.EqualFold(c.payload.Nonce, c.challenge.nonce()):
		return verificationFailed, "The nonce of the authorization is not the one that the challenge prescribes: the Keccak-256 hash of its id and its realm."
	case !c.ownSource():
		return verificationFailed, "The source is not the payer's account on the chain of the challenge."
	}
	return "", ""
}

// ownSource reports whether the source, if it names an account (did:pkh), names the
// payer's.
func (c *Credential) ownSource() bool {
	if !strings.HasPrefix(c.source, "did:pkh:") {
		return true
	}
	return strings.EqualFold(c.source, fmt.Sprintf("did:pkh:eip155:%d:%s", c.request.MethodDetails.ChainID, c.payload.From))
}
