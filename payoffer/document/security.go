package document

import (
	"strings"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// securityLifetime is how long a security.txt may be used. RFC 9116 section
// 2.5.5 recommends less than a year.
const securityLifetime = 180 * 24 * time.Hour

// Security is security.txt (RFC 9116). It expires 180 days after now, rounded
// down to a day in UTC so that it changes once a day; it must be rendered
// again before it expires. The contacts are the inbox of the bank-transfer
// rail, or the contact address of an offer without one, and then the invoice
// (specification section 4).
func Security(o *offer.Offer, now time.Time) Document {
	var lines []string
	if mailbox := securityMailbox(o); mailbox != "" {
		lines = append(lines, "Contact: "+mailto(mailbox))
	}
	expires := now.UTC().Add(securityLifetime).Truncate(24 * time.Hour)
	lines = append(lines,
		"Contact: "+o.URL(offer.PathInvoice),
		"Expires: "+expires.Format(time.RFC3339),
		"Preferred-Languages: en",
		"Canonical: "+o.URL(offer.PathSecurity),
	)
	return Document{Type: "text/plain; charset=utf-8", Body: []byte(strings.Join(lines, "\n") + "\n")}
}

func securityMailbox(o *offer.Offer) string {
	if t := o.Transfer(); t != nil {
		return t.Inbox()
	}
	return o.Contact
}
