package document

import (
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// securityLifetime is less than the year that RFC 9116 section 2.5.5 recommends.
const securityLifetime = 180 * 24 * time.Hour

// Security is security.txt (RFC 9116). It expires 180 days after the current day (UTC). The
// contacts are the inbox of the bank transfer, or else the contact address, and the
// invoice.
func Security(o *offer.Offer, now time.Time) Document {
	var body strings.Builder
	mailbox := o.Contact
	if t := o.BankTransfer(); t != nil {
		mailbox = t.Inbox
	}
	if mailbox != "" { // it has no space and one at sign (offer.ParseMailbox)
		body.WriteString("Contact: mailto:" + strings.ReplaceAll(url.QueryEscape(mailbox), "%40", "@") + "\n")
	}
	expires := now.UTC().Add(securityLifetime).Truncate(24 * time.Hour)
	fmt.Fprintf(&body, "Contact: %s\nExpires: %s\nPreferred-Languages: en\nCanonical: %s\n",
		o.URL(offer.PathInvoice), expires.Format(time.RFC3339), o.URL(offer.PathSecurity))
	return Document{Type: "text/plain; charset=utf-8", Body: []byte(body.String())}
}
