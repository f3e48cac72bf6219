package mpp

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"sync/atomic"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// validity is how long a challenge may be answered: as long as a quote of x402.
const validity = 5 * time.Minute

// random is how many letters of 5 bits tell the challenges of one second apart. A
// proxy's buffer for headers is small.
const random = 13

// Issuer challenges the clients of one offer, and knows its challenges again. It
// keeps none: the id of each is a MAC over it. Issuers with one secret know each
// other's. It is safe for concurrent use.
type Issuer struct {
	// field is the request field that takes credentials, header what challenges
	// say of it: nothing of Authorization.
	field, header string
	realm         string
	origin        string            // whose challenges they are
	charges       []json.RawMessage // of each chain, as canonical JSON
	requests      []string          // the same as base64url
	secret        func() []byte
	bound         atomic.Pointer[binder]
	now           func() time.Time
}

// New makes the issuer of an offer; nil for one that does not challenge. secret never
// blocks and is nil until it is loaded: until then nobody is challenged.
func New(o *offer.Offer, secret func() []byte, now func() time.Time) *Issuer {
	if !o.Challenges() {
		return nil
	}
	// Clients compare the realm with the name of the host, without a port.
	i := &Issuer{field: o.MPP, realm: offer.Hostname(o.BaseURL), origin: o.BaseURL, secret: secret, now: now}
	if i.field != fieldAuthorization {
		i.header = i.field
	}
	for _, u := range o.USDC() {
		charge := chargeOf(u)
		i.charges, i.requests = append(i.charges, charge), append(i.requests, base64.RawURLEncoding.EncodeToString(charge))
	}
	return i
}

// charge is a request of the method and intent (draft-evm-charge, "Request Schema").
// Its members stand in the order of canonical JSON.
type charge struct {
	Amount        string        `json:"amount"`   // in atomic units
	Currency      string        `json:"currency"` // the token contract
	MethodDetails methodDetails `json:"methodDetails"`
	Recipient     string        `json:"recipient"`
}

type methodDetails struct {
	ChainID         int64    `json:"chainId"`
	CredentialTypes []string `json:"credentialTypes"`
	Decimals        int      `json:"decimals"`
}

func chargeOf(u *offer.USDC) []byte {
	request, err := json.Marshal(charge{
		Amount: u.AmountAtomic(), Currency: u.Network.USDC, Recipient: u.PayTo,
		MethodDetails: methodDetails{ChainID: u.Network.ChainID, CredentialTypes: []string{credentialType}, Decimals: offer.UnitOf(u.Network.USDC).Digits},
	})
	if err != nil {
		panic("mpp: " + err.Error()) // strings and numbers always marshal
	}
	return request
}

// binder makes the ids; nil until the secret is loaded. That has other uses, and
// other offers have challenges that are not this one's.
func (i *Issuer) binder() *binder {
	if b := i.bound.Load(); b != nil {
		return b
	}
	secret := i.secret()
	if secret == nil {
		return nil
	}
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte("challenges of the Payment scheme\x00" + i.origin))
	b := newBinder(mac.Sum(nil))
	i.bound.Store(b)
	return b
}

// issue makes fresh challenges, one for each chain in the order of the rails. No two
// are alike, for the nonce of the payment follows from the id: with equal ones the
// second payment of a client would be a replay of the first. header names the request
// field of the credential, where that needs to be said.
func (i *Issuer) issue(b *binder, header string) []challenge {
	if b == nil {
		return nil
	}
	expires := i.now().Add(validity).UTC().Format(time.RFC3339)
	opaque := base64.RawURLEncoding.EncodeToString([]byte(`{"n":"` + rand.Text()[:random] + `"}`))
	challenges := make([]challenge, len(i.requests))
	for n, request := range i.requests {
		c := challenge{Realm: i.realm, Method: Method, Intent: Intent, Request: request, Expires: expires, Header: header, Opaque: opaque}
		c.ID = b.id(&c)
		challenges[n] = c
	}
	return challenges
}

// Header are the values of WWW-Authenticate in a 402, one challenge each.
func (i *Issuer) Header() []string { return texts(i.issue(i.binder(), i.header)) }

// Sample are values as long as those of Header, which nobody can answer.
func (i *Issuer) Sample() []string {
	if i == nil {
		return nil
	}
	return texts(i.issue(newBinder(nil), i.header))
}

func texts(challenges []challenge) (values []string) {
	for _, c := range challenges {
		values = append(values, c.String())
	}
	return values
}

// Capability is what an MCP server says of the scheme (draft-payment-transport-mcp,
// "MCP Capability Advertisement").
var Capability = map[string]any{"methods": map[string]any{Method: map[string]any{"intents": []string{Intent}}}}

// Required is a demand for payment as JSON-RPC has it (draft-payment-transport-mcp,
// "Payment Challenge").
type Required struct {
	HTTPStatus int               `json:"httpStatus"`
	Challenges []nativeChallenge `json:"challenges"`
	Problem    *Problem          `json:"problem,omitempty"`
}

// nativeChallenge is a challenge whose request is a JSON object.
type nativeChallenge struct {
	challenge
	Request json.RawMessage `json:"request"`
}

// Required challenges a client of JSON-RPC; nil where nobody is challenged. problem
// says why its credential was refused; nil for none.
func (i *Issuer) Required(problem *Problem) *Required {
	if i == nil {
		return nil
	}
	issued := i.issue(i.binder(), "")
	if issued == nil {
		return nil
	}
	required := &Required{HTTPStatus: 402, Challenges: make([]nativeChallenge, len(issued)), Problem: problem}
	for n, c := range issued {
		required.Challenges[n] = nativeChallenge{c, i.charges[n]}
	}
	return required
}
