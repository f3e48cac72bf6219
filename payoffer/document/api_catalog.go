package document

import "github.com/payoffer/caddy-pay-offer/payoffer/offer"

// linkset is a set of links in JSON (RFC 9264 section 4.2).
type linkset struct {
	Linkset []linkContext `json:"linkset"`
}

type linkContext struct {
	Anchor      string       `json:"anchor" jsonschema:"The resource with the links."`
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

// APICatalog is the API catalog (RFC 9727) of the HTTP interface and the agent endpoint.
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
			Payment:     []linkTarget{{Href: o.Card.URL, Type: "text/html", Title: unpricedMethod(o, o.Card).Title}},
		},
		{
			Anchor:      agent,
			ServiceDesc: []linkTarget{{Href: o.URL(offer.PathAgentCard), Type: typeJSON}},
			ServiceDoc:  []linkTarget{{Href: o.URL(offer.PathSkill), Type: "text/markdown"}},
		},
	}})
}
