package x402

import (
	"encoding/json"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
)

// extensionOfferReceipt is the extension by which the service signs what it
// offers and what it took (x402, Offer and Receipt Extension).
const extensionOfferReceipt = "offer-receipt"

// formatJWS is the format of signed artifacts: JWS over canonical JSON.
const formatJWS = "jws"

// artifactVersion is the version of the payloads.
const artifactVersion = 1

// offerValidity is how long a signed offer holds. It must be signed again
// before, see Refresh.
const offerValidity = 48 * time.Hour

// Signer signs statements of the service.
type Signer interface {
	// Sign makes a compact JWS whose payload is the canonical JSON of
	// payload. It returns "" while there is no key.
	Sign(payload any) string
}

// artifact is a signed offer or receipt as it travels (section 3.1 of the
// extension).
type artifact struct {
	Format string `json:"format"`
	// AcceptIndex is the place of an offer's terms in accepts: a hint that is
	// not signed. nil for a receipt.
	AcceptIndex *int `json:"acceptIndex,omitempty"`
	// Signature is a compact JWS.
	Signature string `json:"signature"`
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
	// Transaction is empty in our receipts. The extension leaves it out for
	// privacy, and a receipt must stay true when a reorganization of the chain
	// gives the transaction another hash.
	Transaction string `json:"transaction,omitempty"`
}

// Schemas of the extension's info in a quote and in a paid answer, as short as
// can be, for they travel in headers.
var (
	offersSchema  = json.RawMessage(`{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{"offers":{"type":"array","items":{"type":"object","required":["format","signature"]}}},"required":["offers"]}`)
	receiptSchema = json.RawMessage(`{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{"receipt":{"type":"object","required":["format","signature"]}},"required":["receipt"]}`)
)

// extension is an extension as it stands in a quote or a paid answer.
type extension struct {
	Info   any             `json:"info"`
	Schema json.RawMessage `json:"schema"`
}

// Refresh signs the standing quote again: call it when the signer has got
// another key, and once a day.
func (s *Service) Refresh() {
	// One at a time, so that an older key never replaces a newer one.
	s.refreshing.Lock()
	defer s.refreshing.Unlock()
	extensions := map[string]json.RawMessage{extensionPaymentID: paymentIDExtension, extensionBazaar: s.bazaar()}
	if offers := s.signedOffers(); len(offers) > 0 {
		extensions[extensionOfferReceipt] = encode(extension{map[string]any{"offers": offers}, offersSchema})
	}
	s.extensions.Store(&extensions)
	s.quote.Store(s.Refusal(unpaid))
}

// signedOffers are the accepts in their order, or nothing while there is no key.
func (s *Service) signedOffers() []artifact {
	if s.signer == nil {
		return nil
	}
	var offers []artifact
	until := s.now().Add(offerValidity).Unix()
	for n, accepted := range s.Accepts() {
		signed := s.signer.Sign(OfferPayload{
			Version: artifactVersion, ResourceURL: s.resource().URL, Scheme: accepted.Scheme, Network: accepted.Network,
			Asset: accepted.Asset, PayTo: accepted.PayTo, Amount: accepted.Amount, ValidUntil: until,
		})
		if signed == "" {
			return nil
		}
		offers = append(offers, artifact{Format: formatJWS, AcceptIndex: &n, Signature: signed})
	}
	return offers
}

// receipt is the extension of a paid answer, or nil while there is no key.
func (s *Service) receipt(i ledger.Intent) map[string]json.RawMessage {
	if s.signer == nil {
		return nil
	}
	signed := s.signer.Sign(ReceiptPayload{
		Version: artifactVersion, Network: i.Network, ResourceURL: s.resource().URL, Payer: i.From, IssuedAt: s.now().Unix(),
	})
	if signed == "" {
		return nil
	}
	return map[string]json.RawMessage{
		extensionOfferReceipt: encode(extension{map[string]any{"receipt": artifact{Format: formatJWS, Signature: signed}}, receiptSchema}),
	}
}
