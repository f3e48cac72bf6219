package x402

import (
	"encoding/json"
	"fmt"
	"maps"
	"unicode/utf8"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// Quote is one rendered 402 answer.
type Quote struct {
	// Header is the value of PAYMENT-REQUIRED; empty for an offer without a
	// USDC rail.
	Header string
	// Body is Terms with the signed offers as JSON, for an offer without a USDC
	// rail only the part that every quote has.
	Body []byte
	// Terms are the version 1 quote with the card checkout.
	Terms PaymentRequiredV1
}

// unpaid is the error of a quote that answers a request without payment.
const unpaid = "payment required"

func requirements(u *offer.USDC) Requirements {
	return Requirements{
		Scheme: schemeExact, Network: u.Network.CAIP2(), Amount: u.AmountAtomic(), Asset: u.Network.USDC,
		PayTo: u.PayTo, MaxTimeoutSeconds: maxTimeoutSeconds,
		Extra: extra{domain{Name: u.Network.TokenName, Version: u.Network.TokenVersion}, flowUpfront},
	}
}

// requirementsV1 are the same ones in version 1, which has a network's name.
func requirementsV1(o *offer.Offer, v2 Requirements, network string) RequirementsV1 {
	resource := o.Resource()
	return RequirementsV1{
		Scheme: v2.Scheme, Network: network, MaxAmountRequired: v2.Amount, Asset: v2.Asset, PayTo: v2.PayTo,
		Resource: resource.URL, Description: resource.Description, MimeType: resource.MimeType,
		MaxTimeoutSeconds: v2.MaxTimeoutSeconds, Extra: v2.Extra.domain,
	}
}

// terms are what a rail's payments are compared with and sent to a facilitator
// with, rendered once.
type terms struct {
	accepted Requirements
	// v1 and v2 are our own requirement object in either dialect, never the
	// client's.
	v1, v2 json.RawMessage
	// domain is the hash of the token's EIP-712 domain.
	domain []byte
	// resource is what is paid for.
	resource json.RawMessage
}

// newTerms are those of a rail.
func newTerms(o *offer.Offer, u *offer.USDC) terms {
	accepted := requirements(u)
	return terms{accepted, encode(requirementsV1(o, accepted, u.Network.Name)), encode(accepted), domainHash(u.Network), encode(o.Resource())}
}

// amount is the price in atomic units.
func (r *Rail) amount() int64 { return r.USDC.Atomic() }

// in is the requirement object of an x402 version.
func (t *terms) in(version int) json.RawMessage {
	if version == 1 {
		return t.v1
	}
	return t.v2
}

// Accepts are the ways to pay, in version 2 form and in the order of the
// rails.
func (s *Service) Accepts() []Requirements {
	accepts := make([]Requirements, len(s.Rails))
	for i, rail := range s.Rails {
		accepts[i] = rail.terms.accepted
	}
	return accepts
}

// Hint tells a buyer why its client may refuse to pay and how to let it. What
// Cloudflare's client caps itself can be lifted, the cap of @x402/core under it
// cannot: the first version with one is 2.23.
func (s *Service) Hint() string {
	return fmt.Sprintf(`x402 clients refuse more than 1 USD unless told otherwise: set spendControls.maxAmountPerPayment to "$%[1]s" (@x402/fetch), `+
		`maxValue to %[2]sn (x402-fetch), or maxPaymentValue to %[2]sn with @x402/core below 2.23 (Cloudflare's agents/x402).`,
		s.Offer.Amount, s.Rails[0].USDC.AmountAtomic())
}

// Required is the version 2 quote with a reason, as it stands in a body.
func (s *Service) Required(reason string) PaymentRequired {
	return PaymentRequired{
		X402Version: 2, Error: reason, Resource: s.Offer.Resource(), Accepts: s.Accepts(),
		Extensions: maps.Clone(*s.extensions.Load()),
	}
}

// paymentIDExtension declares that a client may name its payment. Clients need
// no schema for that.
var paymentIDExtension = json.RawMessage(`{"info":{"required":false}}`)

// How much of a text stands in PAYMENT-REQUIRED, in bytes of JSON: of a
// description the longest name in letters. What is longer stands whole in the
// body. A resource has less beside its address the longer that is, whose host
// stands in the challenges of other protocols too; a facilitator gets it whole.
const (
	maxHeaderError       = 160
	maxHeaderDescription = 108
	maxHeaderResource    = 572
)

// Quote is the standing answer to a request without payment.
func (s *Service) Quote() *Quote { return s.quote.Load() }

// Refusal is a quote of the same terms whose error is reason. No directory
// lists a resource by a refusal, whose header has other things to say.
func (s *Service) Refusal(reason string) *Quote { return s.quoted(reason, extensionPaymentID) }

// quoted is a quote whose header has the named extensions. A proxy's buffer for
// the whole header is 4 KB by default, so that the signed offers stand in the
// body.
func (s *Service) quoted(reason string, extensions ...string) *Quote {
	terms := PaymentRequiredV1{CardQuote: CardQuote{Error: reason, Fallback: s.Offer.Card.Fallback()}}
	if len(s.Rails) == 0 {
		return &Quote{Body: encodeBody(terms.CardQuote), Terms: terms}
	}
	terms.X402Version, terms.Accepts, terms.Hint = 1, []RequirementsV1{}, s.Hint()
	for _, rail := range s.Rails {
		if rail.USDC.Network.V1 {
			terms.Accepts = append(terms.Accepts, requirementsV1(s.Offer, rail.terms.accepted, rail.USDC.Network.Name))
		}
	}
	required, body := s.Required(shortened(reason, maxHeaderError)), terms
	body.Extensions = only(required.Extensions, extensionOfferReceipt)
	required.Resource = inHeader(required.Resource)
	required.Extensions = only(required.Extensions, extensions...)
	return &Quote{Header: EncodeHeader(required), Body: encodeBody(body), Terms: terms}
}

// inHeader is a resource as PAYMENT-REQUIRED has room for it.
func inHeader(r offer.Resource) offer.Resource {
	r.Description = shortened(r.Description, maxHeaderDescription)
	for _, leave := range []func(){func() {}, func() { r.IconURL = "" }, func() { r.Tags = nil }, func() { r.ServiceName = "" }} {
		if leave(); len(encode(r))+len(r.URL)*3/2 <= maxHeaderResource {
			break
		}
	}
	return r
}

// only are the extensions of these names.
func only(extensions map[string]json.RawMessage, names ...string) map[string]json.RawMessage {
	kept := make(map[string]json.RawMessage)
	for _, name := range names {
		if extension, found := extensions[name]; found {
			kept[name] = extension
		}
	}
	return kept
}

// shortened is the beginning of a text that takes at most limit bytes as JSON.
func shortened(text string, limit int) string {
	const ellipsis = "…"
	inJSON := func(s string) int { return len(encode(s)) - len(`""`) }
	if inJSON(text) <= limit {
		return text
	}
	end := 0
	for room := limit - len(ellipsis); ; {
		_, size := utf8.DecodeRuneInString(text[end:])
		if room -= inJSON(text[end : end+size]); room < 0 {
			return text[:end] + ellipsis
		}
		end += size
	}
}

func encodeBody(v any) []byte { return append(encode(v), '\n') }

func encode(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("x402: encode %T: %v", v, err)) // the types of this package always marshal
	}
	return data
}

// extensionBazaar is the extension by which facilitators list a resource
// (x402, Bazaar).
const extensionBazaar = "bazaar"

// bazaarSchema describes the extension's info (JSON Schema 2020-12), by which
// facilitators validate what a client echoes and directories tell input and
// output. It says no more than they look for, for it travels in a header.
var bazaarSchema = json.RawMessage(`{"$schema":"https://json-schema.org/draft/2020-12/schema","properties":{"input":{"properties":{"type":{"const":"http"},"method":{"enum":["POST"]},"body":{"type":"object"}},"required":["type","method","body"]},"output":{"properties":{"example":{"type":"object"}}}},"required":["input"]}`)

// bazaar says how the paid resource is called, which is POST without a body (an
// empty object where a client insists on one), and the part of a paid answer
// that is the same for every buyer.
func (s *Service) bazaar() json.RawMessage {
	return encode(extension{json.RawMessage(`{"input":{"type":"http","method":"POST","bodyType":"json","body":{}},"output":{"type":"json",` +
		`"example":{"success":true,"status":"seen","amountUsd":` + string(encode(s.Offer.Amount)) + `,"currency":"USD"}}}`), bazaarSchema})
}
