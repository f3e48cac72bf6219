package document

import (
	"strings"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// commentMarks breaks the marks of a section's heading.
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
	b.WriteString("\tPay: " + o.Card.URL + "\n") // not altered, because people copy it
	line("Every rail with its QR code", o.URL(offer.PathMethods))
	for _, r := range o.Rails {
		line(unpricedMethod(o, r).Title, o.URL(offer.URIPath(r.Name())))
	}
	if t := o.BankTransfer(); t != nil {
		line(unpricedMethod(o, t).Title+", page", o.URL(offer.PagePath(t.Name())))
	}

	b.WriteString("\n/* SITE */\n")
	line("Last update", strings.ReplaceAll(o.Updated, "-", "/"))
	line("Software", "Caddy with pay_offer "+Version)
	b.WriteString("\tSource: " + o.SourceURL + "\n")
	return Document{Type: "text/plain; charset=utf-8", Body: []byte(b.String())}
}
