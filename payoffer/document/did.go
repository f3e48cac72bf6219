package document

import (
	"crypto/ed25519"
	"encoding/base64"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// VerificationKey is a public key of the service's signed statements.
type VerificationKey struct {
	ID     string // the part of the key's id after "#"
	Public ed25519.PublicKey
}

// did is a DID document (DID Core 1.0 section 4).
type did struct {
	Context     []string     `json:"@context"`
	ID          string       `json:"id"`
	AlsoKnownAs []string     `json:"alsoKnownAs" jsonschema:"Other names of the subject."`
	Methods     []didMethod  `json:"verificationMethod,omitempty"`
	Assertion   []string     `json:"assertionMethod,omitempty" jsonschema:"The keys that sign statements."`
	Service     []didService `json:"service"`
}

// didMethod is a verification method (DID Core 1.0 section 5.2, JSON Web Signature 2020).
type didMethod struct {
	ID         string `json:"id"`
	Type       string `json:"type"`
	Controller string `json:"controller"`
	JWK        okp    `json:"publicKeyJwk" jsonschema:"The public key (RFC 8037)."`
}

// okp is an Ed25519 public key as a JWK (RFC 8037 section 2).
type okp struct {
	Type  string `json:"kty"`
	Curve string `json:"crv"`
	X     string `json:"x"`
}

// didService is a service (DID Core 1.0 section 5.4).
type didService struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Endpoint string `json:"serviceEndpoint" jsonschema:"Where to pay."`
}

// DID is the did:web document. The service #payment is the card checkout, #rail-<name> the
// URI list of each rail: the prefix allows a rail named "payment".
func DID(o *offer.Offer, keys ...VerificationKey) Document {
	const (
		paymentService = "PaymentService"
		didContext     = "https://www.w3.org/ns/did/v1"
		keyContext     = "https://w3id.org/security/suites/jws-2020/v1"
	)
	d := did{Context: []string{didContext}, ID: o.DID(), AlsoKnownAs: []string{o.Acct()}}
	d.Service = []didService{{ID: d.ID + "#payment", Type: paymentService, Endpoint: o.Card.URL}}
	for _, r := range o.Rails {
		d.Service = append(d.Service, didService{
			ID: d.ID + "#rail-" + r.Name(), Type: paymentService, Endpoint: o.URL(offer.URIPath(r.Name())),
		})
	}
	for _, key := range keys {
		id := d.ID + "#" + key.ID
		d.Methods = append(d.Methods, didMethod{ID: id, Type: "JsonWebKey2020", Controller: d.ID, JWK: okp{
			Type: "OKP", Curve: "Ed25519", X: base64.RawURLEncoding.EncodeToString(key.Public),
		}})
		d.Assertion = append(d.Assertion, id)
	}
	if len(keys) > 0 {
		d.Context = append(d.Context, keyContext)
	}
	return JSON("application/did+json", d)
}
