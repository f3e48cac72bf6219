package mpp

import (
	"crypto/hmac"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/signature"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

const (
	maxCredential = 16 << 10 // bytes of JSON; a complete credential has about 1 KB
	maxID         = 128      // bytes of a challenge's ID, which a response header repeats
)

// Credential answers a challenge. Only its form has been checked.
type Credential struct {
	issuer    *Issuer
	challenge challenge
	request   charge
	payload   payload
	source    string
}

// payload is the proof of a credential (draft-evm-charge, "Authorization Payload").
type payload struct {
	Type string `json:"type" jsonschema:"The type of the payload: authorization."`
	transfer
	Signature string `json:"signature" jsonschema:"The payer's EIP-712 signature of TransferWithAuthorization (EIP-3009)."`
}

// transfer is an EIP-3009 authorization, with integers as decimal strings.
type transfer struct {
	From        string `json:"from" jsonschema:"The payer."`
	To          string `json:"to" jsonschema:"The recipient of the ChargeRequest."`
	Value       string `json:"value" jsonschema:"The amount of the ChargeRequest."`
	ValidAfter  string `json:"validAfter" jsonschema:"Unix seconds, such as 0."`
	ValidBefore string `json:"validBefore" jsonschema:"Unix seconds, at most 300 from now."`
	Nonce       string `json:"nonce" jsonschema:"0x and the hexadecimal keccak256(id + realm) of the challenge: the hash of the two texts, joined."`
}

// Schemas returns the JSON types of the scheme by the names of their schemas.
func Schemas() map[string]any {
	type credential struct {
		Challenge challenge `json:"challenge" jsonschema:"The challenge that is answered, unchanged."`
		Payload   payload   `json:"payload" jsonschema:"The signed EIP-3009 authorization."`
		Source    string    `json:"source,omitempty" jsonschema:"The payer as did:pkh."`
	}
	return map[string]any{"PaymentCredential": credential{}, "ChargeRequest": charge{}, "PaymentReceipt": Receipt{}}
}

// ErrSeveralCredentials is returned for a request with more than one credential.
var ErrSeveralCredentials = errors.New("the request has more than one Payment credential, so none was sent; send only one header Authorization: Payment")

// FromHeader parses the credential in the issuer's request field. It returns nil if the
// request has none. An error is ErrSeveralCredentials or a *Problem.
func (i *Issuer) FromHeader(h http.Header) (*Credential, error) {
	switch tokens, _ := i.split(h); len(tokens) {
	case 0:
		return nil, nil
	case 1:
		return i.fromToken(tokens[0])
	}
	return nil, ErrSeveralCredentials
}

// HasCredential reports whether a request has a credential, valid or not.
func (i *Issuer) HasCredential(h http.Header) bool {
	tokens, _ := i.split(h)
	return len(tokens) > 0
}

// Take removes the credentials from the request field and returns them. Those of other schemes stay.
func (i *Issuer) Take(h http.Header) (credentials []string) {
	tokens, others := i.split(h)
	if len(tokens) == 0 {
		return nil
	}
	for _, token := range tokens {
		credentials = append(credentials, Scheme+" "+token)
	}
	if h[i.field] = others; others == nil {
		delete(h, i.field)
	}
	return credentials
}

// inLine is a credential in a line: any text if it is the first one, else a token68 (RFC 9110 section 11.2), because
// a parameter of another scheme can have the same words.
var inLine = regexp.MustCompile(`(?i)^\s*payment(?:\s+([^,]*))?(?:,|$)|,\s*payment\s+([a-z0-9._~+/=-]+)\s*(?:,|$)`)

// split returns the credentials in the request field without their scheme, and what else is in its lines.
func (i *Issuer) split(h http.Header) (tokens, others []string) {
	if i == nil {
		return nil, nil
	}
	for _, line := range h[i.field] {
		for at := inLine.FindStringSubmatchIndex(line); at != nil; at = inLine.FindStringSubmatchIndex(line) {
			match := inLine.FindStringSubmatch(line)
			tokens = append(tokens, strings.TrimSpace(match[1]+match[2]))
			line = strings.Trim(line[:at[0]]+", "+line[at[1]:], " ,\t")
		}
		if line != "" {
			others = append(others, line)
		}
	}
	return tokens, others
}

func (i *Issuer) fromToken(token string) (*Credential, error) {
	text, err := decode(token)
	if err != nil {
		return nil, malformed("is not base64url without line breaks")
	}
	return i.parse(text)
}

// FromMeta parses a credential of JSON-RPC: an object, or the token as a string.
func (i *Issuer) FromMeta(text []byte) (*Credential, error) {
	var token string
	if json.Unmarshal(text, &token) == nil {
		return i.fromToken(token)
	}
	return i.parse(text)
}

// decode decodes canonical base64url, with or without padding.
func decode(s string) ([]byte, error) {
	if strings.HasSuffix(s, "=") {
		return base64.URLEncoding.Strict().DecodeString(s)
	}
	return base64.RawURLEncoding.Strict().DecodeString(s)
}

// parse parses a credential. Member names are exact, and duplicates are rejected.
func (i *Issuer) parse(text []byte) (*Credential, error) {
	var in struct {
		Challenge struct {
			challenge
			Request jsontext.Value `json:"request"`
		} `json:"challenge"`
		Payload jsontext.Value `json:"payload"`
		Source  string         `json:"source"`
	}
	if len(text) > maxCredential {
		return nil, malformed(fmt.Sprintf("has %d bytes, more than %d", len(text), maxCredential))
	}
	if json.Unmarshal(text, &in) != nil {
		return nil, malformed("is not a JSON object with the members 'challenge' and 'payload'")
	}
	if id := in.Challenge.ID; id == "" || len(id) > maxID || in.Payload == nil {
		return nil, malformed(fmt.Sprintf("lacks 'payload' or a challenge id of 1 to %d bytes", maxID))
	}
	c := &Credential{issuer: i, challenge: in.Challenge.challenge, source: in.Source}
	if c.challenge.Method != Method || c.challenge.Intent != Intent {
		return nil, newProblem(methodUnsupported, fmt.Sprintf("The credential is for the method %.40q and the intent %.40q, "+
			"and was not sent. Use the method %s and the intent %s.", c.challenge.Method, c.challenge.Intent, Method, Intent), c.challenge.ID)
	}
	// The ID covers the request as base64url of canonical JSON; JSON-RPC has the object.
	if json.Unmarshal(in.Challenge.Request, &c.challenge.Request) != nil {
		canonical, _ := signature.Canonical(in.Challenge.Request) // it was parsed
		c.challenge.Request = base64.RawURLEncoding.EncodeToString(canonical)
	}
	request, err := decode(c.challenge.Request)
	if err != nil || json.Unmarshal(request, &c.request) != nil {
		return nil, malformed("has a request that is not a charge request")
	}
	if json.Unmarshal(in.Payload, &c.payload) != nil {
		return nil, malformed("has a payload with a member of the wrong type (integers are decimal strings)")
	}
	return c, nil
}

// Attempt returns the x402 payment of the credential. Its challenge is checked only if
// the authorization is unknown, because a payment that was taken is never rejected. Its
// ID is the secret of the payment: the chain has only the hash of the ID.
func (c *Credential) Attempt(client string) x402.Attempt {
	type paid struct {
		Signature     string   `json:"signature"`
		Authorization transfer `json:"authorization"`
	}
	accepted := map[string]string{
		"scheme": "exact", "network": fmt.Sprintf("eip155:%d", c.request.MethodDetails.ChainID), "amount": c.request.Amount,
		"asset": c.request.Currency, "payTo": c.request.Recipient,
	}
	text := offer.JSON(map[string]any{"x402Version": 2, "accepted": accepted, "payload": paid{c.payload.Signature, c.payload.transfer}})
	return x402.Attempt{Payload: text, Secret: c.challenge.ID, Client: client, Refuse: c.reject}
}

// reject returns the name of the problem and a sentence if the credential does not answer
// a challenge of this server, and otherwise nothing.
func (c *Credential) reject() (reason, detail string) {
	i, id := c.issuer, c.issuer.id(&c.challenge)
	if id == "" || c.challenge.Realm != i.realm || !hmac.Equal([]byte(c.challenge.ID), []byte(id)) {
		return invalidChallenge, "The credential does not answer a challenge of this server, or the challenge was changed. Answer one of the new challenges unchanged."
	}
	expires, err := time.Parse(time.RFC3339, c.challenge.Expires)
	account := fmt.Sprintf("did:pkh:eip155:%d:%s", c.request.MethodDetails.ChainID, c.payload.From)
	switch {
	case err != nil || !i.now().Before(expires):
		return invalidChallenge, "The challenge expired at " + c.challenge.Expires + ". Answer one of the new challenges."
	case c.payload.Type != credentialType:
		return verificationFailed, fmt.Sprintf("payload.type is %.40q, expected %q.", c.payload.Type, credentialType)
	case !strings.EqualFold(c.payload.Nonce, c.challenge.nonce()):
		return verificationFailed, fmt.Sprintf("payload.nonce is %.80q, expected %s, the Keccak-256 hash of the challenge's id and realm.", c.payload.Nonce, c.challenge.nonce())
	case strings.HasPrefix(c.source, "did:pkh:") && !strings.EqualFold(c.source, account):
		return verificationFailed, fmt.Sprintf("source is %.120q, expected %s.", c.source, account)
	}
	return "", ""
}
