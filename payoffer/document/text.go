package document

import (
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

// markdownSpecial escapes what starts inline markup, an entity or HTML in
// CommonMark (section 2.4). Text must not land at the start of a line, where
// more characters have a meaning.
var markdownSpecial = strings.NewReplacer(
	`\`, `\\`, "`", "\\`", `*`, `\*`, `_`, `\_`, `[`, `\[`, `]`, `\]`,
	`<`, `\<`, `>`, `\>`, `&`, `\&`, `#`, `\#`, `|`, `\|`, `~`, `\~`, `!`, `\!`,
)

// markdown escapes an operator's text for the inside of a Markdown line.
func markdown(s string) string { return markdownSpecial.Replace(s) }
