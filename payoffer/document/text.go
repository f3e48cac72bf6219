package document

import (
	"net/url"
	"strings"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// price is the amount for people, as in "42 USD".
func price(o *offer.Offer) string { return o.Amount.String() + " USD" }

// fixed is the method behind a rail's URI list without anything that follows
// the exchange rate: a rail that needs the rate has a title here and no link.
func fixed(o *offer.Offer, r offer.Rail) offer.Method {
	return r.Methods(o, offer.Live{})[0]
}

// titles are the rails' names for people, in order.
func titles(o *offer.Offer) []string {
	out := make([]string, len(o.Rails))
	for i, r := range o.Rails {
		out[i] = fixed(o, r).Title
	}
	return out
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

// mailto is the URI of a mailbox (RFC 6068). Its host is kept readable; a
// mailbox holds no space and one at sign (offer.ParseMailbox).
func mailto(mailbox string) string {
	return "mailto:" + strings.ReplaceAll(url.QueryEscape(mailbox), "%40", "@")
}
