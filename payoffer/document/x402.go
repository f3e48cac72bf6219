package document

import (
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// x402Discovery is the file that x402 directories read. There is no standard: crawlers read
// version, resources and accepts; items and lastUpdated are in a draft of the foundation.
type x402Discovery struct {
	Version      int        `json:"version"`
	X402Version  int        `json:"x402Version"`
	Name         string     `json:"name"`
	Description  string     `json:"description"`
	Resources    []string   `json:"resources" jsonschema:"The payable URLs."`
	Instructions string     `json:"instructions" jsonschema:"How to pay."`
	Accepts      any        `json:"accepts" jsonschema:"The requirements of x402 version 2."`
	LastUpdated  int64      `json:"lastUpdated,omitempty" jsonschema:"The day of the last change, in Unix seconds."`
	Items        []x402Item `json:"items"`
}

// x402Item is one payable URL.
type x402Item struct {
	Resource offer.Resource `json:"resource"`
	Type     string         `json:"type"`
	Accepts  any            `json:"accepts" jsonschema:"The requirements of x402 version 2."`
	Input    x402Input      `json:"input" jsonschema:"The request; its body is ignored."`
}

type x402Input struct {
	Method string `json:"method"`
}

// X402 lists the payable URLs of an offer with a USDC rail. accepts are the requirements of
// x402 version 2.
func X402(o *offer.Offer, accepts any) Document {
	protocols, updated := "", int64(0)
	if o.Challenges() {
		protocols = ", for x402 and for the Payment scheme (MPP)"
	}
	if day, err := time.Parse(time.DateOnly, o.Updated); err == nil {
		updated = day.Unix()
	}
	request, resources := "Send POST to the resource.", []string{o.URL(offer.PathSponsor)}
	items := []x402Item{{o.Resource(), "http", accepts, x402Input{"POST"}}}
	for _, g := range o.Gates {
		request = "Send POST to the first resource, or GET to another one, which the same payment opens."
		resource := o.ResourceAt(g.Origin() + g.Path())
		resources, items = append(resources, resource.URL), append(items, x402Item{resource, "http", accepts, x402Input{"GET"}})
	}
	return JSON(typeJSON, x402Discovery{
		Version: 1, X402Version: 2, Name: o.Name, Description: o.Description,
		Resources: resources,
		Instructions: request + " The 402 answer quotes " + price(o) + " in USDC" + protocols + ". " + capNote(o) +
			" A person must have authorised the payment.",
		Accepts: accepts, LastUpdated: updated,
		Items: items,
	})
}

// capNote explains why an x402 client with default settings refuses the quote.
func capNote(o *offer.Offer) string {
	return "Most x402 clients refuse more than about 1 USD by default: raise the client's spending cap to " + price(o) + "."
}
