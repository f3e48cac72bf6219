package document

import "github.com/payoffer/caddy-pay-offer/payoffer/offer"

// linkset is a set of links in JSON (RFC 9264 section 4.2).
type linkset struct {
	Linkset []linkContext `json:"linkset"`
}

type linkContext struct {
	Anchor      string       `json:"anchor" jsonschema:"What the links are of."`
	Item        []linkTarget `json:"item,omitempty"`
	ServiceDesc []linkTarget `json:"service-desc,omitempty"`
	ServiceDoc  []linkTarget `json:"service-doc,omitempty"`
	Payment     []linkTarget `json:"payment,omitempty"`
}

type linkTarget struct {
	Href  string `json:"href" jsonschema:"The target."`
	Type  string `json:"type,omitempty"`
	Title string `json:"title,omitempty"`
}

// APICatalog is the API catalog (RFC 9727): the HTTP interface and the agent
// endpoint, with their descriptions (RFC 8631) and the card checkout.
func APICatalog(o *offer.Offer) Document {
	agent := o.URL(offer.PathMCP)
	return JSON(`application/linkset+json; profile="https://www.rfc-editor.org/info/rfc9727"`, linkset{[]linkContext{
		{
			Anchor: o.URL(offer.PathAPICatalog),
			Item:   []linkTarget{{Href: o.BaseURL}, {Href: agent}},
		},
		{
			Anchor:      o.BaseURL,
			ServiceDesc: []linkTarget{{Href: o.URL(offer.PathOpenAPI), Type: typeJSON}},
			ServiceDoc:  []linkTarget{{Href: o.URL(offer.PathLLMs), Type: "text/plain"}},
			Payment:     []linkTarget{{Href: o.Card.URL, Type: "text/html", Title: fixed(o, o.Card).Title}},
		},
		{
			Anchor:      agent,
			ServiceDesc: []linkTarget{{Href: o.URL(offer.PathAgentCard), Type: typeJSON}},
			ServiceDoc:  []linkTarget{{Href: o.URL(offer.PathSkill), Type: "text/markdown"}},
		},
	}})
}

// x402Discovery is the file that x402 directories read. No standard fixes it:
// version and resources are what crawlers read, accepts are the requirement
// objects of x402 version 2.
type x402Discovery struct {
	Version      int      `json:"version"`
	X402Version  int      `json:"x402Version"`
	Name         string   `json:"name"`
	Description  string   `json:"description"`
	Resources    []string `json:"resources" jsonschema:"The payable URLs."`
	Instructions string   `json:"instructions" jsonschema:"What a client has to do."`
	Accepts      any      `json:"accepts"`
}

// X402 lists the one payable URL. accepts are the x402 version 2 requirements.
// An offer without a USDC rail must not publish it, for nothing there takes an
// x402 payment.
func X402(o *offer.Offer, accepts any) Document {
	return JSON(typeJSON, x402Discovery{
		Version: 1, X402Version: 2, Name: o.Name, Description: o.Description,
		Resources: []string{o.URL(offer.PathSponsor)},
		Instructions: "Send POST to the resource. The 402 answer quotes " + price(o) + " in USDC. " + capNote(o) +
			" A person must have authorised the payment.",
		Accepts: accepts,
	})
}

// capNote tells a buyer why a default x402 client refuses the quote.
func capNote(o *offer.Offer) string {
	return "Most x402 clients refuse more than about 1 USD by default: raise the client's spending cap to " + price(o) + "."
}
