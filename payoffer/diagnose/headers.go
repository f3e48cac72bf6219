package diagnose

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"github.com/payoffer/caddy-pay-offer/payoffer/site"
)

// compared are the headers that must arrive as the server sends them; quote checks those of payments.
var compared = []string{
	"Content-Security-Policy", "Access-Control-Allow-Origin", "Access-Control-Expose-Headers", "Cache-Control", "Referrer-Policy",
}

// headers compares the headers that arrive with those that the running server sends. The first
// address is the issue, because others would have the same cause.
func (c *check) headers(ctx context.Context) {
	if c.running == nil {
		return
	}
	for _, sent := range c.running.Answers {
		address := c.Offer.Offer.URL(sent.Path)
		r, _, err := c.sendAccepting(ctx, sent.Accept, sent.Method, address)
		if err != nil {
			continue // links reports it
		}
		var changed []string
		for _, name := range compared {
			want, got := strings.Join(sent.Header.Values(name), ", "), strings.Join(r.Header.Values(name), ", ")
			if want != "" && want != got {
				changed = append(changed, fmt.Sprintf("%s is %.100q, and the server sent %.100q", name, got, want))
			}
		}
		if len(changed) > 0 {
			c.addIssue(HeadersChanged, address, fmt.Sprintf("%s %s arrives with other headers: %s", sent.Method, address, strings.Join(changed, "; ")))
			return
		}
	}
}

// inlined is the style of a page; an edited page may have another one than ours.
var inlined = regexp.MustCompile(`(?s)<style>(.*?)</style>`)

// sitePolicy checks that a browser applies the style of the page of the site.
func (c *check) sitePolicy(h http.Header, body []byte) {
	at, policy := c.Offer.Offer.SitePage(), h.Get("Content-Security-Policy")
	if found := inlined.FindSubmatch(body); found != nil && policy != "" &&
		!strings.Contains(policy, site.Source(string(found[1]))) && !strings.Contains(policy, "'unsafe-inline'") {
		c.addIssue(HeadersChanged, at, fmt.Sprintf("%s arrives with a Content-Security-Policy that refuses its style: %.100q", at, policy))
	}
}
