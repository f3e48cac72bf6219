package mpp

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base32"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// validity is how long a challenge may be answered: as long as a quote of x402.
const validity = 5 * time.Minute

// random is how many bytes tell the challenges of one second apart. A proxy's buffer
// for headers is small.
const random = 8

// Issuer challenges the clients of one offer, and knows its challenges again. It
// keeps none: the id of each is a MAC over it. Issuers with one secret know each
// other's. It is safe for concurrent use.
type Issuer struct {
	// field is the request field that takes credentials, header what challenges
	// say of it: nothing of Authorization.
	field, header string
	realm         string
	origin        string // whose challenges they are
	demands       []demand
	secret        func() []byte
	bound         atomic.Pointer[binder]
	now           func() time.Time
}

// demand is what all challenges for one chain have in common.
type demand struct {
	charge  json.RawMessage // canonical JSON
	request string          // the same as base64url
	// around is a value of WWW-Authenticate without the id, the time of expiry and the
	// opaque text, which stand between its parts.
	around [4]string
}

// blank stands in a text for what is filled in.
const blank = "\x00"

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
		d := demand{charge: charge, request: base64.RawURLEncoding.EncodeToString(charge)}
		c := i.challenge(d.request, i.header, blank, blank)
		c.ID = blank
		copy(d.around[:], strings.Split(c.String(), blank))
		i.demands = append(i.demands, d)
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
	// FeePayer is always true: the facilitator pays the gas. Some buyers refuse a
	// challenge without it, because absent means that the payer pays the gas.
	FeePayer bool `json:"feePayer"`
}

func chargeOf(u *offer.USDC) []byte {
	request, err := json.Marshal(charge{
		Amount: u.AmountAtomic(), Currency: u.Network.USDC, Recipient: u.PayTo,
		MethodDetails: methodDetails{ChainID: u.Network.ChainID, CredentialTypes: []string{credentialType}, Decimals: offer.UnitOf(u.Network.USDC).Digits, FeePayer: true},
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

// challenge is one without its id. header names the request field of the credential,
// where that needs to be said.
func (i *Issuer) challenge(request, header, expires, opaque string) challenge {
	return challenge{Realm: i.realm, Method: Method, Intent: Intent, Request: request, Expires: expires, Header: header, Opaque: opaque}
}

// fresh is what the challenges of one answer have of their own: the time at which they
// expire, and the opaque text.
type fresh struct {
	expires [20]byte
	opaque  [28]byte
}

// fresh is another one each time, for the nonce of the payment follows from the id: with
// equal challenges the second payment of a client would be a replay of the first. What
// tells them apart needs not be secret, for the id is a MAC.
func (i *Issuer) fresh() (f fresh) {
	var distinct [random]byte
	binary.NativeEndian.PutUint64(distinct[:], rand.Uint64())
	var text [len(f.opaque)]byte
	members := append(letters.AppendEncode(append(text[:0], `{"n":"`...), distinct[:]), `"}`...)
	base64.RawURLEncoding.Encode(f.opaque[:], members)
	i.now().Add(validity).UTC().AppendFormat(f.expires[:0], time.RFC3339)
	return f
}

// letters need no escape in JSON.
var letters = base32.StdEncoding.WithPadding(base32.NoPadding)

// AppendHeader appends the values of WWW-Authenticate in a 402: one fresh challenge
// for each chain, in the order of the rails.
func (i *Issuer) AppendHeader(values []string) []string {
	if b := i.binder(); b != nil {
		return i.append(values, b)
	}
	return values
}

// Sample are values as long as those of AppendHeader, which nobody can answer.
func (i *Issuer) Sample() []string {
	if i == nil {
		return nil
	}
	return i.append(nil, newBinder(nil))
}

func (i *Issuer) append(values []string, b *binder) []string {
	k := b.keyed.Get().(*keyed)
	defer b.keyed.Put(k)
	f, values := i.fresh(), slices.Grow(values, len(i.demands))
	for n := range i.demands {
		d := &i.demands[n]
		c := i.challenge(d.request, i.header, string(f.expires[:]), string(f.opaque[:]))
		text := k.appendID(append(k.value[:0], d.around[0]...), &c)
		text = append(append(text, d.around[1]...), c.Expires...)
		text = append(append(text, d.around[2]...), c.Opaque...)
		k.value = append(text, d.around[3]...)
		values = append(values, string(k.value))
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
	b := i.binder()
	if b == nil {
		return nil
	}
	required := &Required{HTTPStatus: 402, Challenges: make([]nativeChallenge, len(i.demands)), Problem: problem}
	f := i.fresh()
	for n, d := range i.demands {
		c := i.challenge(d.request, "", string(f.expires[:]), string(f.opaque[:]))
		c.ID = b.id(&c)
		required.Challenges[n] = nativeChallenge{c, d.charge}
	}
	return required
}
