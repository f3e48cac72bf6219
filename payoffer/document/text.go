package document

import (
	"strings"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// price is the amount, such as "42 USD".
func price(o *offer.Offer) string { return o.Amount.String() + " USD" }

// unpricedMethod is a rail's first method without a price: a rail that needs an exchange rate has a
// title and no link.
func unpricedMethod(o *offer.Offer, r offer.Rail) offer.Method {
	return r.Methods(o, offer.Live{})[0]
}

// markdownSpecial escapes inline markup, entities and HTML (CommonMark section 2.4). At the
// start of a line more characters have a meaning.
var markdownSpecial = strings.NewReplacer(
	`\`, `\\`, "`", "\\`", `*`, `\*`, `_`, `\_`, `[`, `\[`, `]`, `\]`,
	`<`, `\<`, `>`, `\>`, `&`, `\&`, `#`, `\#`, `|`, `\|`, `~`, `\~`, `!`, `\!`,
)

// markdown escapes an operator's text for the inside of a Markdown line.
func markdown(s string) string { return markdownSpecial.Replace(s) }
