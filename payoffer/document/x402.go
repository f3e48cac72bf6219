package document

import (
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// x402Discovery is the file that x402 directories read. No standard fixes it:
// version and resources are what crawlers read, accepts are the requirement
// objects of x402 version 2. items and lastUpdated are those of a draft of the
// x402 foundation, beside which the others may stand.
type x402Discovery struct {
	Version      int      `json:"version"`
	X402Version  int      `json:"x402Version"`
	Name         string   `json:"name"`
	Description  string   `json:"description"`
	Resources    []string `json:"resources" jsonschema:"The payable URLs."`
	Instructions string   `json:"instructions" jsonschema:"What a client has to do."`
	Accepts      any      `json:"accepts" jsonschema:"The requirements of x402 version 2."`
	// LastUpdated is in Unix seconds: the day of the configuration.
	LastUpdated int64      `json:"lastUpdated,omitempty" jsonschema:"The day of the last change, in Unix seconds."`
	Items       []x402Item `json:"items"`
}

// x402Item is one payable URL, and how it is called.
type x402Item struct {
	Resource offer.Resource `json:"resource"`
	Type     string         `json:"type"`
	Accepts  any            `json:"accepts" jsonschema:"The requirements of x402 version 2."`
	Input    x402Input      `json:"input" jsonschema:"The request; its body is ignored."`
}

type x402Input struct {
	Method string `json:"method"`
}

// X402 lists the one payable URL. accepts are the x402 version 2 requirements.
// An offer without a USDC rail must not publish it, for nothing there takes an
// x402 payment.
func X402(o *offer.Offer, accepts any) Document {
	speaks, updated := "", int64(0)
	if o.Challenges() {
		speaks = ", for x402 and for the Payment scheme (MPP)"
	}
	if day, err := time.Parse(time.DateOnly, o.Updated); err == nil {
		updated = day.Unix()
	}
	return JSON(typeJSON, x402Discovery{
		Version: 1, X402Version: 2, Name: o.Name, Description: o.Description,
		Resources: []string{o.URL(offer.PathSponsor)},
		Instructions: "Send POST to the resource. The 402 answer quotes " + price(o) + " in USDC" + speaks + ". " + capNote(o) +
			" A person must have authorised the payment.",
		Accepts: accepts, LastUpdated: updated,
		Items: []x402Item{{o.Resource(), "http", accepts, x402Input{"POST"}}},
	})
}

// capNote tells a buyer why a default x402 client refuses the quote.
func capNote(o *offer.Offer) string {
	return "Most x402 clients refuse more than about 1 USD by default: raise the client's spending cap to " + price(o) + "."
}
