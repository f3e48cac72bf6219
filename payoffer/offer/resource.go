package offer

import (
	"net/netip"
	"net/url"
	"strings"
	"unicode"
)

// Resource is what a program pays for (x402 version 2, PaymentRequired.resource).
// Facilitators and directories list it under the members that may be missing, and
// drop what is not in their form (x402, Bazaar, "Service Metadata on resource").
type Resource struct {
	URL         string   `json:"url"`
	Description string   `json:"description"`
	MimeType    string   `json:"mimeType"`
	ServiceName string   `json:"serviceName,omitempty" jsonschema:"The name of the service, as far as it is ASCII."`
	Tags        []string `json:"tags,omitempty" jsonschema:"What the service is listed under."`
	IconURL     string   `json:"iconUrl,omitempty" jsonschema:"An image of the service."`
}

// Resource is the one URL that takes a payment by a program.
func (o *Offer) Resource() Resource {
	return Resource{
		URL: o.URL(PathSponsor), Description: o.Amount.String() + " USD, one payment: " + o.Name, MimeType: "application/json",
		ServiceName: serviceName(o.Name), Tags: o.Tags, IconURL: o.iconURL(),
	}
}

// maxServiceName is how long the name of a service may be, in characters.
const maxServiceName = 32

// serviceName is a name in printable ASCII, in as many whole words as it may have:
// signs of other kinds are left out, and so is a word with another letter, which
// would be misspelt.
func serviceName(name string) string {
	var words []string
	for word := range strings.FieldsSeq(strings.Map(asciiOrLetter, name)) {
		if strings.IndexFunc(word, unlisted) < 0 {
			words = append(words, word)
		}
	}
	plain := strings.Join(words, " ")
	if len(plain) <= maxServiceName {
		return plain
	}
	plain = plain[:maxServiceName+1]
	if end := strings.LastIndexByte(plain, ' '); end > 0 {
		return plain[:end]
	}
	return plain[:maxServiceName]
}

// unlisted reports whether a character is not printable ASCII.
func unlisted(r rune) bool { return r < ' ' || r > '~' }

// asciiOrLetter keeps what makes words and drops other signs by returning -1.
func asciiOrLetter(r rune) rune {
	switch {
	case unicode.IsSpace(r):
		return ' '
	case unlisted(r) && !unicode.In(r, unicode.L, unicode.M, unicode.N):
		return -1
	}
	return r
}

// iconURL is the address of the pages' icon; empty where the host is none that a
// directory asks.
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
