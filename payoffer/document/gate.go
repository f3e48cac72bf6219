package document

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

const tagGates = "gates"

// describeGates adds the start of each gate to the paths, and their tag. A start whose path
// is taken is left out, because OpenAPI has one item for a path.
func describeGates(o *offer.Offer, paths map[string]object, tags map[string]bool) {
	body := object{"*/*": object{}}
	for _, g := range o.Gates {
		path := g.Path()
		if paths[path] != nil {
			continue
		}
		get := Operation{
			Method: http.MethodGet, Path: path, Tag: tagGates, Summary: "Opened by the payment: " + access(g),
			Description: "One payment of " + price(o) + " opens every route with this tag. ",
			Responses: object{
				"200": object{"description": "The content. A payment also gets a cookie that opens it again.", "content": body},
				"402": Response("The quote, or why a payment was refused.", Body{typeJSON, "Quote"}, Problem, HTML),
				"4XX": object{"description": "Refused, or an answer of the site.", "content": body},
			},
			Traits: Quotes | Leads | Charges,
		}.describe(o)
		get["operationId"] = "gate_" + notInID.ReplaceAllStringFunc(path[1:], func(s string) string {
			return fmt.Sprintf("_%02x", s) // different paths have different names
		})
		paths[path], tags[tagGates] = object{"get": get}, true
		if origin := g.Origin(); origin != o.BaseURL {
			paths[path]["servers"] = []object{{"url": origin, "description": "The site behind the gate."}}
		}
	}
}

// inLink escapes what ends an address in Markdown.
var inLink = strings.NewReplacer("(", "%28", ")", "%29", "<", "%3C", ">", "%3E", " ", "%20")

// listGates writes the starts as a list of Markdown.
func listGates(b *strings.Builder, o *offer.Offer) {
	for _, g := range o.Gates {
		fmt.Fprintf(b, "- [%s](%s): %s\n", markdown(g.Start), inLink.Replace(g.Start), access(g))
	}
}

// access is how long a payment opens the gate, such as "30-day access".
func access(g offer.Gate) string {
	const day = 24 * time.Hour
	switch d := g.Access; {
	case d%day == 0:
		return fmt.Sprintf("%d-day access", d/day)
	case d%time.Hour == 0:
		return fmt.Sprintf("%d-hour access", d/time.Hour)
	default:
		return fmt.Sprintf("%d-minute access", d/time.Minute)
	}
}
