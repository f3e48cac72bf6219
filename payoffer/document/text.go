package document

import (
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// commentMarks breaks up the marks that open and close a section's heading in
// humans.txt.
var commentMarks = strings.NewReplacer("*/", "* /", "/*", "/ *")

// Humans is humans.txt (humanstxt.org): the operator and every payment rail.
func Humans(o *offer.Offer) Document {
	var b strings.Builder
	line := func(label, value string) {
		if value != "" {
			b.WriteString("\t" + label + ": " + commentMarks.Replace(value) + "\n")
		}
	}
	b.WriteString("/* TEAM */\n")
	line("Operator", o.Operator)
	line("Contact", o.Contact)
	line("Site", o.SitePage())

	b.WriteString("\n/* PAY */\n")
	line("Offer", o.Name)
	line("Amount", price(o))
	b.WriteString("\tPay: " + o.Card.URL + "\n") // an address is copied, so never altered
	line("Every rail with its QR code", o.URL(offer.PathMethods))
	for _, r := range o.Rails {
		line(fixed(o, r).Title, o.URL(offer.URIPath(r.Name())))
	}
	if t := o.Transfer(); t != nil {
		line(fixed(o, t).Title+", page", o.URL(offer.PagePath(t.Name())))
	}

	b.WriteString("\n/* SITE */\n")
	line("Last update", strings.ReplaceAll(o.Updated, "-", "/"))
	line("Software", "Caddy with pay_offer "+Version)
	b.WriteString("\tSource: " + o.SourceURL + "\n")
	return Document{Type: "text/plain; charset=utf-8", Body: []byte(b.String())}
}

// LLMs is llms.txt (llmstxt.org): a title, a summary and lists of links. Links
// are addresses of the service only, which hold nothing that Markdown would
// read.
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
		entry(fixed(o, r).Title, offer.URIPath(r.Name()), "the payment URI")
	}

	b.WriteString("\n## Programs\n\n")
	entry("Invoice", offer.PathInvoice, "every way to pay now, as JSON")
	entry("Quote", offer.PathOffer, "the machine-readable quote, HTTP 402")
	if len(o.USDC()) > 0 {
		entry("x402", offer.PathSponsor, "takes an x402 payment by POST. "+capNote(o))
	}
	entry("Agent endpoint", offer.PathMCP, "JSON-RPC by POST; tool `"+ToolName+"`")
	entry("Agent card", offer.PathAgentCard, "describes the agent endpoint")
	entry("Skill", offer.PathSkill, "how an agent pays")
	entry("API description", offer.PathOpenAPI, "OpenAPI 3.1")

	b.WriteString("\n## Optional\n\n")
	entry("Received", offer.PathReceived, "received payments and the evidence for them")
	entry("Humans", offer.PathHumans, "who operates this")
	if o.Funding != nil {
		entry("Funding", offer.PathFunding, "the project's funding manifest")
	}
	return Document{Type: "text/plain; charset=utf-8", Body: []byte(b.String())}
}

// securityLifetime is how long a security.txt may be used. RFC 9116 section
// 2.5.5 recommends less than a year.
const securityLifetime = 180 * 24 * time.Hour

// Security is security.txt (RFC 9116). It expires 180 days after now, rounded
// down to a day in UTC so that it changes once a day; it must be rendered
// again before it expires. The contacts are the inbox of the bank-transfer
// rail, or the contact address of an offer without one, and then the invoice
// (specification section 4).
func Security(o *offer.Offer, now time.Time) Document {
	var body strings.Builder
	mailbox := o.Contact
	if t := o.Transfer(); t != nil {
		mailbox = t.Inbox
	}
	if mailbox != "" { // a mailbox holds no space and one at sign (offer.ParseMailbox)
		body.WriteString("Contact: mailto:" + strings.ReplaceAll(url.QueryEscape(mailbox), "%40", "@") + "\n")
	}
	expires := now.UTC().Add(securityLifetime).Truncate(24 * time.Hour)
	fmt.Fprintf(&body, "Contact: %s\nExpires: %s\nPreferred-Languages: en\nCanonical: %s\n",
		o.URL(offer.PathInvoice), expires.Format(time.RFC3339), o.URL(offer.PathSecurity))
	return Document{Type: "text/plain; charset=utf-8", Body: []byte(body.String())}
}

// typeURIList is the media type of a list of URIs; it has no charset.
const typeURIList = "text/uri-list"

// URIList is a text/uri-list document (RFC 2483 section 5): one URI a line,
// each line ended by CR LF.
func URIList(uris ...string) Document {
	var body strings.Builder
	for _, uri := range uris {
		body.WriteString(uri + "\r\n")
	}
	return Document{Type: typeURIList, Body: []byte(body.String())}
}

// price is the amount for people, as in "42 USD".
func price(o *offer.Offer) string { return o.Amount.String() + " USD" }

// fixed is the method behind a rail's URI list without anything that follows
// the exchange rate: a rail that needs the rate has a title here and no link.
func fixed(o *offer.Offer, r offer.Rail) offer.Method {
	return r.Methods(o, offer.Live{})[0]
}

// markdownSpecial escapes what starts inline markup, an entity or HTML in
// CommonMark (section 2.4). Text must not land at the start of a line, where
// more characters have a meaning.
var markdownSpecial = strings.NewReplacer(
	`\`, `\\`, "`", "\\`", `*`, `\*`, `_`, `\_`, `[`, `\[`, `]`, `\]`,
	`<`, `\<`, `>`, `\>`, `&`, `\&`, `#`, `\#`, `|`, `\|`, `~`, `\~`, `!`, `\!`,
)

// markdown escapes an operator's text for the inside of a Markdown line.
func markdown(s string) string { return markdownSpecial.Replace(s) }
