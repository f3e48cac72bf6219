package x402

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/signature"
)

// extensionOfferReceipt carries signed offers and receipts (x402, Offer and Receipt Extension; the
// sections named below are its).
const extensionOfferReceipt = "offer-receipt"

const (
	formatJWS       = "jws"
	artifactVersion = 1
	// offerValidity begins with the day (UTC) of the signature, so that all instances sign the same.
	offerValidity = 72 * time.Hour
)

type Signer interface {
	// Sign makes a compact JWS of the canonical JSON of payload, or "" while there is no key.
	Sign(payload any) string
}

// Artifact is a signed offer or receipt as it is sent (section 3.1).
type Artifact struct {
	Format string `json:"format" jsonschema:"jws: the signature is a JWS."`
	// AcceptIndex is the index of an offer's terms in accepts, which is not signed; nil for a receipt.
	AcceptIndex *int   `json:"acceptIndex,omitempty" jsonschema:"Which entry of accepts a signed offer is for."`
	Signature   string `json:"signature" jsonschema:"A compact JWS (EdDSA). Its kid names a key of /.well-known/did.json."`
}

// OfferPayload is the payload of a signed offer (section 4.2).
type OfferPayload struct {
	Version     int    `json:"version"`
	ResourceURL string `json:"resourceUrl"`
	Scheme      string `json:"scheme"`
	// Network is a CAIP-2 id, Asset the token contract, Amount in its atomic units.
	Network string `json:"network"`
	Asset   string `json:"asset"`
	PayTo   string `json:"payTo"`
	Amount  string `json:"amount"`
	// ValidUntil is in Unix seconds; 0 for no end.
	ValidUntil int64 `json:"validUntil,omitempty"`
}

// ReceiptPayload is the payload of a signed receipt (section 5.2).
type ReceiptPayload struct {
	Version     int    `json:"version"`
	Network     string `json:"network"`
	ResourceURL string `json:"resourceUrl"`
	Payer       string `json:"payer"`
	IssuedAt    int64  `json:"issuedAt"`
	// Transaction is empty in a paid answer, because a reorganization can give it another hash.
	Transaction string `json:"transaction,omitempty"`
}

// Schemas of the extension's info in a quote and in a paid answer.
var (
	offersSchema = json.RawMessage(`{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object",` +
		`"properties":{"offers":{"type":"array","items":{"type":"object","required":["format","signature"]}}},"required":["offers"]}`)
	receiptSchema = json.RawMessage(`{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object",` +
		`"properties":{"receipt":{"type":"object","required":["format","signature"]}},"required":["receipt"]}`)
)

type extension struct {
	Info   any             `json:"info"`
	Schema json.RawMessage `json:"schema"`
}

// Refresh renews the cached quote. Call it when the signer has a new key, when a day (UTC) begins, and when
// a facilitator supports other networks. The first quote after it is made with the newest key.
func (s *Service) Refresh() { s.quoted.Store(new(sync.OnceValue(s.newQuoted))) }

// quoted is what all quotes have until the next Refresh.
type quoted struct {
	rails      []Rail // that are offered
	extensions map[string]json.RawMessage
	unpaid     *Quote // the answer to a request without payment
}

func (s *Service) currentlyQuoted() *quoted { return (*s.quoted.Load())() }

func (s *Service) newQuoted() *quoted {
	q := &quoted{
		rails:      slices.DeleteFunc(slices.Clone(s.Rails), Rail.isUnsupported),
		extensions: map[string]json.RawMessage{extensionPaymentID: paymentIDExtension, extensionBazaar: s.bazaar()},
	}
	if len(q.rails) == 0 { // a quote names a price
		q.rails = s.Rails[:min(1, len(s.Rails))]
	}
	if offers := s.signedOffers(q.accepts()); len(offers) > 0 {
		q.extensions[extensionOfferReceipt] = offer.JSON(extension{map[string]any{"offers": offers}, offersSchema})
	}
	q.unpaid = s.newQuote(q, s.Offer.Resource(), false, unpaid, extensionPaymentID, extensionBazaar)
	return q
}

// signedOffers signs the accepts in their order; nil while there is no key.
func (s *Service) signedOffers(accepts []Requirements) []Artifact {
	var offers []Artifact
	until := s.Now().Truncate(24 * time.Hour).Add(offerValidity).Unix()
	for n, accepted := range accepts {
		signed := s.Signer.Sign(OfferPayload{
			Version: artifactVersion, ResourceURL: s.Offer.Resource().URL, Scheme: accepted.Scheme, Network: accepted.Network,
			Asset: accepted.Asset, PayTo: accepted.PayTo, Amount: accepted.Amount, ValidUntil: until,
		})
		if signed == "" {
			return nil
		}
		offers = append(offers, Artifact{Format: formatJWS, AcceptIndex: &n, Signature: signed})
	}
	return offers
}

// receipt makes the extension of a paid answer; nil while there is no key.
func (s *Service) receipt(i ledger.Intent) map[string]json.RawMessage {
	signed := s.SignReceipt(i.Network, i.From, "", s.Now().Unix())
	if signed == nil {
		return nil
	}
	return map[string]json.RawMessage{
		extensionOfferReceipt: offer.JSON(extension{map[string]any{"receipt": signed}, receiptSchema}),
	}
}

// SignReceipt signs that a payer paid on a network (CAIP-2) at a time (Unix seconds); nil while there
// is no key. transaction must be empty unless it is final.
func (s *Service) SignReceipt(network, payer, transaction string, at int64) *Artifact {
	signed := s.Signer.Sign(ReceiptPayload{
		Version: artifactVersion, Network: network, ResourceURL: s.Offer.URL(offer.PathSponsor), Payer: payer, IssuedAt: at, Transaction: transaction,
	})
	if signed == "" {
		return nil
	}
	return &Artifact{Format: formatJWS, Signature: signed}
}

// parseStatement reads the payload of a signed artifact. It must be canonical, with exactly the
// members of its kind. The error is the end of a sentence about the artifact.
func parseStatement(payload []byte) (s Signed, resourceURL string, err error) {
	var version struct {
		Version int `json:"version"`
	}
	if json.Unmarshal(payload, &version) != nil {
		return s, "", errors.New("has a payload that is not JSON; copy the whole signed text again")
	}
	if version.Version != artifactVersion {
		return s, "", fmt.Errorf("has a payload of version %d; ask the seller for one of version %d", version.Version, artifactVersion)
	}
	var receipt ReceiptPayload
	if isExactly(payload, &receipt) && receipt.Network != "" && receipt.Payer != "" && isTime(receipt.IssuedAt) {
		return Signed{Receipt: &receipt}, receipt.ResourceURL, nil
	}
	var offered OfferPayload
	if isExactly(payload, &offered) && offered.Scheme != "" && offered.Network != "" && offered.PayTo != "" && isTime(offered.ValidUntil) {
		return Signed{Offer: &offered}, offered.ResourceURL, nil
	}
	return s, "", errors.New("is neither an offer nor a receipt of x402; pass the signed text that the seller sent")
}

// isExactly reads a payload and reports whether it is the canonical form of the result.
func isExactly(payload []byte, into any) bool {
	if json.Unmarshal(payload, into) != nil {
		return false
	}
	canonical, err := signature.Canonical(offer.JSON(into))
	return err == nil && bytes.Equal(canonical, payload)
}

func isTime(seconds int64) bool { return seconds >= 0 && seconds <= math.MaxUint32 }

// MaxArtifacts bounds how many artifacts of one text are checked.
const MaxArtifacts = 16

// compactJWS matches a JWS in compact form, and base64Word what may be a header's value.
var (
	compactJWS = regexp.MustCompile(`\bey[AJ][\w-]*\.[\w-]+\.[\w-]+`)
	base64Word = regexp.MustCompile(`[\w+/-]{40,}=*`)
)

// FindSigned finds each compact JWS in a text or in the base64 headers of a text (PAYMENT-REQUIRED,
// PAYMENT-RESPONSE) once. It stops at the first beyond MaxArtifacts.
func FindSigned(text []byte) (found []string) {
	texts := [][]byte{text}
	for _, word := range base64Word.FindAll(text, -1) {
		if decoded, err := DecodeHeader(string(word)); err == nil {
			texts = append(texts, decoded)
		}
	}
	for _, text := range texts {
		for _, jws := range compactJWS.FindAll(text, -1) {
			if len(found) <= MaxArtifacts && !slices.Contains(found, string(jws)) {
				found = append(found, string(jws))
			}
		}
	}
	return found
}
