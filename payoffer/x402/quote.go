package x402

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// Quote is one rendered 402 answer. Without a USDC rail, HeaderStart is empty and Body is only CardQuote.
type Quote struct {
	// HeaderStart is PAYMENT-REQUIRED up to the token of the extension access.
	HeaderStart string
	// Body is Terms with the signed offers as JSON.
	Body []byte
	// Terms are the version 1 quote with the card checkout.
	Terms PaymentRequiredV1
}

// Header is PAYMENT-REQUIRED with a new token; empty without a USDC rail.
func (q *Quote) Header() string {
	if q.HeaderStart == "" {
		return ""
	}
	return q.HeaderStart + base64.StdEncoding.EncodeToString([]byte(rand.Text()+`"}}}}`))
}

const unpaid = "payment required"

// requirements are the terms of a rail. flow is flowUpfront, or empty if the charge follows the application's answer.
func requirements(u *offer.USDC, flow string) Requirements {
	return Requirements{
		Scheme: schemeExact, Network: u.Network.CAIP2(), Amount: u.AmountAtomic(), Asset: u.Network.USDC,
		PayTo: u.PayTo, MaxTimeoutSeconds: maxTimeoutSeconds,
		Extra: extra{domain{Name: u.Network.TokenName, Version: u.Network.TokenVersion}, flow},
	}
}

func requirementsV1(resource offer.Resource, v2 Requirements, network string) RequirementsV1 {
	return RequirementsV1{
		Scheme: v2.Scheme, Network: network, MaxAmountRequired: v2.Amount, Asset: v2.Asset, PayTo: v2.PayTo,
		Resource: resource.URL, Description: resource.Description, MimeType: resource.MimeType,
		MaxTimeoutSeconds: v2.MaxTimeoutSeconds, Extra: v2.Extra.domain,
	}
}

// terms are the requirements of a rail, which its payments must match and facilitators get.
type terms struct {
	accepted Requirements
	v1, v2   json.RawMessage
	domain   []byte
	resource offer.Resource
}

func newTerms(o *offer.Offer, u *offer.USDC, flow string) terms {
	accepted := requirements(u, flow)
	return terms{accepted, offer.JSON(requirementsV1(o.Resource(), accepted, u.Network.Name)), offer.JSON(accepted), domainHash(u.Network), o.Resource()}
}

func (r *Rail) amount() int64 { return r.USDC.Atomic() }

func (t *terms) in(version int) json.RawMessage {
	if version == 1 {
		return t.v1
	}
	return t.v2
}

// Accepts are the ways to pay in version 2 that are offered now, in the order of the rails.
func (s *Service) Accepts() []Requirements { return s.currentlyQuoted().accepts() }

func (q *quoted) accepts() []Requirements {
	accepts := make([]Requirements, len(q.rails))
	for i, rail := range q.rails {
		accepts[i] = rail.terms.accepted
	}
	return accepts
}

// Hint says how to raise the spending cap of a client. Cloudflare's client cannot raise the cap of
// @x402/core, which has one since 2.23.
func (s *Service) Hint() string {
	return fmt.Sprintf(`x402 clients refuse more than 1 USD unless told otherwise: set spendControls.maxAmountPerPayment to "$%[1]s" (@x402/fetch), `+
		`maxValue to %[2]sn (x402-fetch), or maxPaymentValue to %[2]sn with @x402/core below 2.23 (Cloudflare's agents/x402).`,
		s.Offer.Amount, s.Rails[0].USDC.AmountAtomic())
}

// Required is the version 2 quote with all extensions and a new token.
func (s *Service) Required(reason string) PaymentRequired {
	required := s.currentlyQuoted().required(s.Offer.Resource(), reason)
	required.Extensions[ExtensionAccess] = NewAccess()
	return required
}

func (q *quoted) required(resource offer.Resource, reason string) PaymentRequired {
	return PaymentRequired{X402Version: 2, Error: reason, Resource: resource, Accepts: q.accepts(), Extensions: maps.Clone(q.extensions)}
}

// ExtensionAccess has a random token that is new in every quote. A client repeats it in its payment. It never gets to
// the facilitator or the chain, so a payment with the same token is the payer's.
const ExtensionAccess = "access"

// NewAccess is the extension with a new token.
func NewAccess() json.RawMessage {
	return offer.JSON(map[string]any{"info": map[string]any{"token": rand.Text()}})
}

// paymentIDExtension declares that a client may send a payment identifier.
var paymentIDExtension = json.RawMessage(`{"info":{"required":false}}`)

// PAYMENT-REQUIRED has shortened texts, in bytes of JSON, because proxies limit a whole header block to
// 4 KB by default. The body and facilitators get the whole texts.
const (
	maxHeaderError       = 160
	maxHeaderDescription = 108
	maxHeaderResource    = 350 // above it, what only directories show is left out
)

// Quote is the cached answer to a request without payment.
func (s *Service) Quote() *Quote { return s.currentlyQuoted().unpaid }

// Refusal is a quote whose error is reason, without the extension for directories.
func (s *Service) Refusal(reason string) *Quote {
	return s.QuoteFor(s.Offer.Resource(), false, reason)
}

// QuoteFor is a quote for another resource that a payment of the offer opens. The charge of a deferred one follows the
// answer of the application.
func (s *Service) QuoteFor(resource offer.Resource, deferred bool, reason string) *Quote {
	return s.newQuote(s.currentlyQuoted(), resource, deferred, reason, extensionPaymentID)
}

// newQuote makes a quote whose header has the named extensions and access. The signed offers, which are
// for the offer's own resource, are too long for a header and are in the body.
func (s *Service) newQuote(q *quoted, resource offer.Resource, deferred bool, reason string, extensions ...string) *Quote {
	terms := PaymentRequiredV1{CardQuote: CardQuote{Error: reason, Fallback: s.Offer.Card.Fallback()}}
	if len(s.Rails) == 0 {
		return &Quote{Body: append(offer.JSON(terms.CardQuote), '\n'), Terms: terms}
	}
	terms.X402Version, terms.Accepts, terms.Hint = 1, []RequirementsV1{}, s.Hint()
	for _, rail := range q.rails {
		if rail.USDC.Network.V1 {
			terms.Accepts = append(terms.Accepts, requirementsV1(resource, rail.terms.accepted, rail.USDC.Network.Name))
		}
	}
	required, body := q.required(inHeader(resource), shortened(reason, maxHeaderError)), terms
	if deferred {
		for i := range required.Accepts {
			required.Accepts[i] = q.rails[i].deferred.accepted
		}
	}
	if resource.URL == s.Offer.Resource().URL {
		body.Extensions = selectExtensions(required.Extensions, extensionOfferReceipt)
	}
	required.Extensions = selectExtensions(required.Extensions, extensions...)
	return &Quote{HeaderStart: headerStart(required), Body: append(offer.JSON(body), '\n'), Terms: terms}
}

// headerStart encodes a quote that has extensions, up to the token. Blanks fill its JSON up to a multiple of 3 bytes,
// so that Header can append the base64 of the rest.
func headerStart(required PaymentRequired) string {
	const access = `"access":{"info":{"token":"`
	start := strings.TrimSuffix(string(offer.JSON(required)), "}}") + ","
	blanks := strings.Repeat(" ", (3-(len(start)+len(access))%3)%3)
	return base64.StdEncoding.EncodeToString([]byte(start + blanks + access))
}

func inHeader(r offer.Resource) offer.Resource {
	r.Description = shortened(r.Description, maxHeaderDescription)
	if len(offer.JSON(r)) > maxHeaderResource {
		r.IconURL, r.Tags, r.ServiceName = "", nil, ""
	}
	return r
}

func selectExtensions(extensions map[string]json.RawMessage, names ...string) map[string]json.RawMessage {
	kept := maps.Clone(extensions)
	maps.DeleteFunc(kept, func(name string, _ json.RawMessage) bool { return !slices.Contains(names, name) })
	return kept
}

// shortened is the beginning of a text that takes at most limit bytes as JSON.
func shortened(text string, limit int) string {
	if len(offer.JSON(text)) <= limit+len(`""`) {
		return text
	}
	runes := []rune(text)
	runes = runes[:min(len(runes), limit)]
	for len(offer.JSON(string(runes)+"…")) > limit+len(`""`) {
		runes = runes[:len(runes)-1]
	}
	return string(runes) + "…"
}

// extensionBazaar describes the resource for the directories of facilitators (x402, Bazaar).
const extensionBazaar = "bazaar"

// bazaarSchema is the JSON Schema of the extension's info. It is short, because it is in a header.
var bazaarSchema = json.RawMessage(`{"$schema":"https://json-schema.org/draft/2020-12/schema","properties":{"input":{"properties":{"type":{"const":"http"},` +
	`"method":{"enum":["POST"]},"body":{"type":"object"}},"required":["type","method","body"]},"output":{"properties":{"example":{"type":"object"}}}},"required":["input"]}`)

// bazaar describes the paid call, a POST without a body, and its answer.
func (s *Service) bazaar() json.RawMessage {
	type object = map[string]any
	return offer.JSON(extension{object{
		"input":  object{"type": "http", "method": "POST", "bodyType": "json", "body": object{}},
		"output": object{"type": "json", "example": object{"success": true, "status": "seen", "amountUsd": s.Offer.Amount, "currency": "USD"}},
	}, bazaarSchema})
}
