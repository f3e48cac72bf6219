package x402

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/signature"
)

// extensionOfferReceipt is the extension by which the service signs what it
// offers and what it took (x402, Offer and Receipt Extension).
const extensionOfferReceipt = "offer-receipt"

// formatJWS is the format of signed artifacts: JWS over canonical JSON.
const formatJWS = "jws"

// artifactVersion is the version of the payloads.
const artifactVersion = 1

// offerValidity is how long a signed offer holds from the beginning of the day
// (UTC) on which it is signed, so that all instances sign the same. It must be
// signed again every day, see Refresh.
const offerValidity = 72 * time.Hour

// Signer signs statements of the service.
type Signer interface {
	// Sign makes a compact JWS whose payload is the canonical JSON of
	// payload. It returns "" while there is no key.
	Sign(payload any) string
}

// Artifact is a signed offer or receipt as it travels (section 3.1 of the
// extension).
type Artifact struct {
	Format string `json:"format"`
	// AcceptIndex is the place of an offer's terms in accepts: a hint that is
	// not signed. nil for a receipt.
	AcceptIndex *int `json:"acceptIndex,omitempty"`
	// Signature is a compact JWS.
	Signature string `json:"signature" jsonschema:"A compact JWS."`
}

// OfferPayload is what a signed offer says (section 4.2 of the extension).
type OfferPayload struct {
	Version     int    `json:"version"`
	ResourceURL string `json:"resourceUrl"`
	Scheme      string `json:"scheme"`
	// Network is a CAIP-2 id, Asset the token contract, Amount in its atomic
	// units.
	Network string `json:"network"`
	Asset   string `json:"asset"`
	PayTo   string `json:"payTo"`
	Amount  string `json:"amount"`
	// ValidUntil is in Unix seconds; 0 for an offer without an end.
	ValidUntil int64 `json:"validUntil,omitempty"`
}

// ReceiptPayload is what a signed receipt says (section 5.2 of the extension).
type ReceiptPayload struct {
	Version int `json:"version"`
	// Network is a CAIP-2 id.
	Network     string `json:"network"`
	ResourceURL string `json:"resourceUrl"`
	Payer       string `json:"payer"`
	// IssuedAt is in Unix seconds.
	IssuedAt int64 `json:"issuedAt"`
	// Transaction is empty in the receipt of an answer. The extension leaves it out
	// for privacy, and a receipt must stay true when a reorganization of the chain
	// gives the transaction another hash.
	Transaction string `json:"transaction,omitempty"`
}

// Schemas of the extension's info in a quote and in a paid answer, as short as
// can be, for the latter travels in a header.
var (
	offersSchema  = json.RawMessage(`{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{"offers":{"type":"array","items":{"type":"object","required":["format","signature"]}}},"required":["offers"]}`)
	receiptSchema = json.RawMessage(`{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{"receipt":{"type":"object","required":["format","signature"]}},"required":["receipt"]}`)
)

// extension is an extension as it stands in a quote or a paid answer.
type extension struct {
	Info   any             `json:"info"`
	Schema json.RawMessage `json:"schema"`
}

// Refresh has the standing quote signed again, for who next asks for it: call it when
// the signer has got another key, and when a day begins (UTC).
func (s *Service) Refresh() {
	s.extensions.renew(s.newExtensions)
	s.quote.renew(func() *Quote { return s.quoted(unpaid, extensionPaymentID, extensionBazaar) })
}

// newExtensions are those of a quote, signed now.
func (s *Service) newExtensions() *map[string]json.RawMessage {
	extensions := map[string]json.RawMessage{extensionPaymentID: paymentIDExtension, extensionBazaar: s.bazaar()}
	if offers := s.signedOffers(); len(offers) > 0 {
		extensions[extensionOfferReceipt] = encode(extension{map[string]any{"offers": offers}, offersSchema})
	}
	return &extensions
}

// renewed is a value that is made for who first asks for it after it was renewed. What
// it is made of is read then, so that an older key never replaces a newer one.
type renewed[V any] struct{ made atomic.Pointer[func() *V] }

func (r *renewed[V]) renew(made func() *V) { r.made.Store(new(sync.OnceValue(made))) }

// Load is the value, the same until it is renewed.
func (r *renewed[V]) Load() *V { return (*r.made.Load())() }

// signedOffers are the accepts in their order, or nothing while there is no key.
func (s *Service) signedOffers() []Artifact {
	var offers []Artifact
	until := s.Now().Truncate(24 * time.Hour).Add(offerValidity).Unix()
	for n, accepted := range s.Accepts() {
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

// receipt is the extension of a paid answer, or nil while there is no key.
func (s *Service) receipt(i ledger.Intent) map[string]json.RawMessage {
	signed := s.SignReceipt(i.Network, i.From, "", s.Now().Unix())
	if signed == nil {
		return nil
	}
	return map[string]json.RawMessage{
		extensionOfferReceipt: encode(extension{map[string]any{"receipt": signed}, receiptSchema}),
	}
}

// SignReceipt signs, as of a time in Unix seconds, that a payer paid on a network,
// which is a CAIP-2 id; nil while there is no key. transaction is empty unless it is
// final.
func (s *Service) SignReceipt(network, payer, transaction string, at int64) *Artifact {
	signed := s.Signer.Sign(ReceiptPayload{
		Version: artifactVersion, Network: network, ResourceURL: s.Offer.URL(offer.PathSponsor), Payer: payer, IssuedAt: at, Transaction: transaction,
	})
	if signed == "" {
		return nil
	}
	return &Artifact{Format: formatJWS, Signature: signed}
}

// Statement is the payload of a signed artifact: an offer or a receipt.
type Statement struct {
	Offer   *OfferPayload
	Receipt *ReceiptPayload
}

// ResourceURL is what the statement is about.
func (s Statement) ResourceURL() string {
	if s.Offer != nil {
		return s.Offer.ResourceURL
	}
	return s.Receipt.ResourceURL
}

// ParseStatement reads the payload of a signed artifact. It must be canonical
// and have the members of its kind and no others: what is not understood here
// is not vouched for. The error is the end of a sentence about the artifact.
func ParseStatement(payload []byte) (Statement, error) {
	var version struct {
		Version int `json:"version"`
	}
	if json.Unmarshal(payload, &version) != nil {
		return Statement{}, errors.New("has a payload that cannot be read")
	}
	if version.Version != artifactVersion {
		return Statement{}, fmt.Errorf("has a payload of version %d; version %d is read here", version.Version, artifactVersion)
	}
	var receipt ReceiptPayload
	if isExactly(payload, &receipt) && receipt.Network != "" && receipt.Payer != "" && isTime(receipt.IssuedAt) {
		return Statement{Receipt: &receipt}, nil
	}
	var offered OfferPayload
	if isExactly(payload, &offered) && offered.Scheme != "" && offered.Network != "" && offered.PayTo != "" && isTime(offered.ValidUntil) {
		return Statement{Offer: &offered}, nil
	}
	return Statement{}, errors.New("is neither an offer nor a receipt of x402")
}

// isExactly reads a payload and reports whether it is the canonical form of
// what was read.
func isExactly(payload []byte, into any) bool {
	if json.Unmarshal(payload, into) != nil {
		return false
	}
	canonical, err := signature.Canonical(encode(into))
	return err == nil && bytes.Equal(canonical, payload)
}

// isTime reports whether Unix seconds are a time that can be written as a date.
func isTime(seconds int64) bool { return seconds >= 0 && seconds <= math.MaxUint32 }

// MaxArtifacts is how many artifacts a text may hold to be checked.
const MaxArtifacts = 16

// FindSigned takes the compact JWS out of a text: one as it is, a header of a
// quote or a paid answer with or without its name, JSON that holds artifacts at
// any place, or a whole answer with such a header or body. It finds each once,
// those in other formats included, and stops at the first beyond MaxArtifacts.
func FindSigned(text []byte) []string {
	var found finder
	found.text(bytes.TrimSpace(text))
	if len(found) > 0 {
		return found
	}
	for line := range bytes.Lines(text) {
		if bytes.HasPrefix(line, []byte("{")) {
			found.text(bytes.TrimSpace(line)) // our bodies are one line
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		switch http.CanonicalHeaderKey(string(bytes.TrimSpace(name))) {
		case http.CanonicalHeaderKey(HeaderRequired), http.CanonicalHeaderKey(HeaderResponse):
			found.text(bytes.TrimSpace(value))
		}
	}
	return found
}

type finder []string

// text looks at a JWS, at JSON, or at JSON in base64.
func (f *finder) text(text []byte) {
	if looksSigned(string(text)) {
		f.add(string(text))
		return
	}
	if decoded, err := DecodeHeader(string(text)); err == nil {
		text = decoded
	}
	if _, err := signature.Canonical(text); err != nil {
		return // it is no JSON, or too deep
	}
	var value any
	if json.Unmarshal(text, &value) == nil {
		f.value(value)
	}
}

func (f *finder) value(value any) {
	switch value := value.(type) {
	case []any:
		for _, element := range value {
			f.value(element)
		}
	case map[string]any:
		format, formatted := value["format"].(string)
		if signed, ok := value["signature"].(string); ok && formatted {
			if format != formatJWS {
				signed = format + ":" + signed // no JWS, so that it is not passed over
			}
			f.add(signed)
			return
		}
		// Members have no order of their own; this one is the same each time.
		for _, name := range slices.Sorted(maps.Keys(value)) {
			f.value(value[name])
		}
	}
}

func (f *finder) add(signed string) {
	if len(*f) <= MaxArtifacts && !slices.Contains(*f, signed) {
		*f = append(*f, signed)
	}
}

// looksSigned reports whether a text has the three parts of a compact JWS.
func looksSigned(text string) bool {
	return strings.Count(text, ".") == 2 && !strings.ContainsAny(text, " \r\n\t{}\"/:+=") && strings.HasPrefix(text, "ey")
}
