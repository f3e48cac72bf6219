package mpp

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"iter"
	"strings"
	"sync"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// validity is the time in which a challenge can be answered, as of an x402 quote.
const validity = 5 * time.Minute

// Issuer issues the challenges of one offer and recognizes them. It stores none,
// because the ID of each is a MAC. Issuers with the same secret recognize each
// other's. It is safe for concurrent use.
type Issuer struct {
	field   string // the request field for credentials
	header  string // the same, empty if it is the default
	realm   string
	origin  string
	charges []json.RawMessage // one for each chain, as canonical JSON
	demands []challenge       // one for each chain, without what is different each time
	texts   [][]string        // the demands as values of WWW-Authenticate, cut at each gap
	secret  func() []byte
	binders sync.Pool // of *binder, because a new one costs more than an ID
	now     func() time.Time
	live    func() offer.Live
	chains  []string // CAIP-2 ids
}

// gap stands for what is different in each challenge.
const gap = "\x00"

// New returns the issuer of an offer on an origin, or nil if its MPP is off. Issuers of
// different origins do not recognize each other's challenges. secret must not block. It
// returns nil until it is loaded, and always the same afterwards; until then no challenges
// are issued. live says on which networks they are issued.
func New(o *offer.Offer, origin string, secret func() []byte, now func() time.Time, live func() offer.Live) *Issuer {
	if !o.Challenges() {
		return nil
	}
	// Clients compare the realm with the name of the host, without a port.
	i := &Issuer{field: o.MPP, header: o.MPP, realm: offer.Hostname(origin), origin: origin, secret: secret, now: now, live: live}
	if i.header == fieldAuthorization {
		i.header = "" // the default is not named
	}
	for _, u := range o.USDC() {
		i.charges = append(i.charges, chargeOf(u))
		c := challenge{Realm: i.realm, Method: Method, Intent: Intent, Request: base64.RawURLEncoding.EncodeToString(chargeOf(u))}
		i.demands, i.chains = append(i.demands, c), append(i.chains, u.Network.CAIP2())
		c.ID, c.Expires, c.Header, c.Opaque = gap, gap, i.header, gap
		i.texts = append(i.texts, strings.Split(c.String(), gap))
	}
	return i
}

// charge is the request (draft-evm-charge, "Request Schema"), in canonical order.
type charge struct {
	Amount        string        `json:"amount" jsonschema:"The price in atomic units."`
	Currency      string        `json:"currency" jsonschema:"The token contract."`
	MethodDetails methodDetails `json:"methodDetails" jsonschema:"The chain and the form of the payment."`
	Recipient     string        `json:"recipient" jsonschema:"Where the money goes."`
}

type methodDetails struct {
	ChainID         int64    `json:"chainId" jsonschema:"The number of the chain."`
	CredentialTypes []string `json:"credentialTypes" jsonschema:"The accepted types of payloads."`
	Decimals        int      `json:"decimals" jsonschema:"The decimals of the token."`
	FeePayer        bool     `json:"feePayer" jsonschema:"Whether the facilitator pays the gas."` // always true; some clients require it
}

func chargeOf(u *offer.USDC) []byte {
	return offer.JSON(charge{u.AmountAtomic(), u.Network.USDC, methodDetails{
		ChainID: u.Network.ChainID, CredentialTypes: []string{credentialType}, Decimals: offer.UnitOf(u.Network.USDC).Digits, FeePayer: true,
	}, u.PayTo})
}

// id returns the ID of a challenge, empty until the secret is loaded. Its key differs from
// the keys of other offers and of other uses of the secret.
func (i *Issuer) id(c *challenge) string {
	b, _ := i.binders.Get().(*binder)
	if b == nil {
		secret := i.secret()
		if secret == nil {
			return ""
		}
		mac := hmac.New(sha256.New, secret)
		mac.Write([]byte("challenges of the Payment scheme\x00" + i.origin))
		b = newBinder(mac.Sum(nil))
	}
	defer i.binders.Put(b)
	return b.id(c)
}

// issue returns one challenge for each chain that is offered, in the order of the rails, and none until the
// secret is loaded. Each is unique, because the nonce of the payment follows from the ID: an
// equal one would be a replay. header is the request field for the credential, which only
// HTTP has.
func (i *Issuer) issue(header string) iter.Seq2[int, challenge] {
	return func(yield func(int, challenge) bool) {
		if i.secret() == nil {
			return
		}
		expires, live := i.now().Add(validity).UTC().Format(time.RFC3339), i.live()
		opaque := base64.RawURLEncoding.EncodeToString([]byte(`{"n":"` + rand.Text()[:13] + `"}`)) // 65 bits; proxies limit headers
		for n, c := range i.demands {
			c.Expires, c.Header, c.Opaque = expires, header, opaque
			if c.ID = i.id(&c); live.Takes(i.chains[n]) && !yield(n, c) {
				return
			}
		}
	}
}

// AppendHeader appends values of WWW-Authenticate.
func (i *Issuer) AppendHeader(values []string) []string {
	for n, c := range i.issue(i.header) {
		text := i.texts[n]
		values = append(values, text[0]+c.ID+text[1]+c.Expires+text[2]+c.Opaque+text[3])
	}
	return values
}

// Capability announces the scheme to MCP clients (draft-payment-transport-mcp).
var Capability = map[string]any{"methods": map[string]any{Method: map[string]any{"intents": []string{Intent}}}}

// Required is a demand for payment in JSON-RPC (draft-payment-transport-mcp).
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

// Required returns the challenges and the problem, if there is one, for JSON-RPC.
func (i *Issuer) Required(problem *Problem) *Required {
	if i == nil || i.secret() == nil {
		return nil
	}
	required := &Required{HTTPStatus: 402, Problem: problem}
	for n, c := range i.issue("") {
		required.Challenges = append(required.Challenges, nativeChallenge{c, i.charges[n]})
	}
	return required
}
