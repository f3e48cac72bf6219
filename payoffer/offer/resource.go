package offer

import (
	"net/netip"
	"net/url"
	"strings"
)

// Resource is what a client pays for (x402 version 2, PaymentRequired.resource).
// Directories ignore optional members that are not in their form (x402, Bazaar).
type Resource struct {
	URL         string   `json:"url" jsonschema:"The payable URL."`
	Description string   `json:"description" jsonschema:"What is paid for."`
	MimeType    string   `json:"mimeType,omitempty" jsonschema:"The media type of the answer to a payment."`
	ServiceName string   `json:"serviceName,omitempty" jsonschema:"The name of the service in ASCII."`
	Tags        []string `json:"tags,omitempty" jsonschema:"What the service is listed under."`
	IconURL     string   `json:"iconUrl,omitempty" jsonschema:"An image of the service."`
}

// Resource is the URL that accepts x402 payments.
func (o *Offer) Resource() Resource {
	return Resource{
		URL: o.URL(PathSponsor), Description: o.Amount.String() + " USD, one payment: " + o.Name, MimeType: "application/json",
		ServiceName: serviceName(o.Name), Tags: o.Tags, IconURL: o.iconURL(),
	}
}

// ResourceAt is what a payment opens at an address behind a gate. The address has no query.
func (o *Offer) ResourceAt(address string) Resource {
	r := o.Resource()
	r.URL, r.MimeType = address, ""
	return r
}

// maxServiceName is the longest name of a service in a directory, in characters.
const maxServiceName = 32

// serviceName is the part of a name that directories list: whole words of printable ASCII.
func serviceName(name string) (listed string) {
	for word := range strings.FieldsSeq(name) {
		ascii := strings.IndexFunc(word, func(r rune) bool { return r < ' ' || r > '~' }) < 0
		switch {
		case ascii && listed == "" && len(word) <= maxServiceName:
			listed = word
		case ascii && listed != "" && len(listed)+1+len(word) <= maxServiceName:
			listed += " " + word
		case ascii:
			return listed
		}
	}
	return listed
}

// iconURL is the address of the icon; empty if directories cannot reach the host.
func (o *Offer) iconURL() string {
	u, err := url.Parse(o.BaseURL)
	if err != nil || IsLoopback(u.Hostname()) {
		return ""
	}
	if _, err := netip.ParseAddr(u.Hostname()); err == nil {
		return ""
	}
	return o.URL(PathIcon)
}
