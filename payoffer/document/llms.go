package document

import (
	"fmt"
	"strings"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// LLMs is llms.txt (llmstxt.org). Addresses of the service need no escaping in
// Markdown.
func LLMs(o *offer.Offer) Document {
	var b strings.Builder
	entry := func(name, path, note string) {
		fmt.Fprintf(&b, "- [%s](%s): %s\n", markdown(name), o.URL(path), note)
	}
	fmt.Fprintf(&b, "# %s\n\n", markdown(o.Name))
	fmt.Fprintf(&b, "> Pay %s to %s. %s\n\n", price(o), markdown(o.Operator), markdown(o.Description))
	b.WriteString("A human must have authorised the payment. A 402 answer or a 200 invoice is a quote, not a payment.\n")

	b.WriteString("\n## Pay\n\n")
	entry("Checkout", offer.PathPay, "redirects to the card checkout")
	entry("Every rail", offer.PathMethods, "page for people with QR codes; JSON for programs")
	for _, r := range o.Rails {
		entry(unpricedMethod(o, r).Title, offer.URIPath(r.Name()), "the payment URI")
	}

	if len(o.Gates) > 0 {
		b.WriteString("\n## Opened by the payment\n\n")
		listGates(&b, o)
	}

	b.WriteString("\n## Programs\n\n")
	entry("Invoice", offer.PathInvoice, "every way to pay now, as JSON")
	entry("Quote", offer.PathOffer, "the machine-readable quote, HTTP 402")
	if len(o.USDC()) > 0 {
		name, takes := "x402", "takes an x402 payment by POST. "
		if o.Challenges() {
			name, takes = "x402 and MPP", "takes a payment by x402 or by the Payment scheme (MPP, evm/charge, whose nonce is the Keccak-256 of challenge id and realm) by POST. "
		}
		entry(name, offer.PathSponsor, takes+capNote(o))
	}
	entry("Agent endpoint", offer.PathMCP, "JSON-RPC by POST; tool `"+ToolName+"`")
	entry("Agent card", offer.PathAgentCard, "describes the agent endpoint")
	entry("Skill", offer.PathSkill, "how an agent pays")
	entry("API description", offer.PathOpenAPI, "OpenAPI 3.1")

	if len(o.USDC()) > 0 {
		b.WriteString("\n## Specifications\n\n" + specifications(o))
	}
	b.WriteString("\n## Optional\n\n")
	if !o.PrivateReceived {
		entry("Received", offer.PathReceived, "received payments and the evidence for them")
	}
	entry("Humans", offer.PathHumans, "who operates this")
	return Document{Type: "text/plain; charset=utf-8", Body: []byte(b.String())}
}
