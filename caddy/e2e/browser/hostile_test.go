package browser

import (
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/showcase"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/text"
)

// evil is a text that would write to the console if anything of it ran, and that the policy would complain of there if
// anything of it only tried to. Of a word so long the page must not become wider.
var evil = strings.Repeat("verylong", 20) +
	`</script></style></title><script>window.pwned=console.error("pwned")</script><img src=x onerror='console.error("pwned")'><svg/onload=console.error("pwned")>` +
	`" ' autofocus onfocus=console.error("pwned") onmouseover=console.error("pwned") style=background:url(https://foreign.example/) x="` + "`" +
	"\u2028\u2029';console.error('pwned')//\";console.error('pwned')//${console.error('pwned')}`\\\"}]]><!--<script>" +
	`{{.}} {amount} {name} ${7*7} javascript:console.error("pwned") data:text/html,<script>console.error("pwned")</script>`

// refusedStatus is what the browser tells of a page that refuses.
var refusedStatus = regexp.MustCompile(`status of (4|5)[0-9]{2} \(`)

// hostile shows every page of the showcase with a text that tries to be something else, in the
// language whose texts are the longest.
func (v visit) hostile(t *testing.T) {
	host, _ := serve(t, func(address string) *offer.Offer { return hostileOffer(t, address) })
	var views []View
	query := "?" + url.Values{"lang": {longestLanguage(t)}, "session_id": {evil}, "x": {evil}}.Encode()
	for _, path := range []string{
		offer.PathMethods, offer.PagePath("transfer"), offer.PathReceived, offer.PathThanks, offer.PathSponsor,
		offer.PathReceipt + "/" + url.PathEscape(evil), offer.PathMethods + "/" + url.PathEscape(evil),
	} {
		views = append(views, View{URL: host + path + query, Width: 390})
	}
	for i, page := range v.Looks(t, views...) {
		path := views[i].URL
		messages := slices.DeleteFunc(page.Messages, func(m string) bool { return refusedStatus.MatchString(m) }) // the page says so, too
		require.Empty(t, messages, path)
		require.Empty(t, page.Foreign, path)
		require.Zero(t, page.Overflow, path)
	}
}

// hostileOffer is the showcase with the evil text wherever an operator writes one.
func hostileOffer(t *testing.T, address string) *offer.Offer {
	t.Helper()
	base := showcase.Offer(t, address)
	terms := base.Terms
	terms.Name, terms.Operator, terms.Description, terms.Contact = evil, evil, evil, evil
	terms.Thanks, terms.Refunds, terms.Legal = evil, evil, []string{evil, evil}
	transfer, err := offer.NewBankTransfer("transfer", "pay@example.org", evil[:140], evil[:140], terms.Amount)
	require.NoError(t, err)
	*base.BankTransfer() = *transfer
	base.Terms = terms
	return base
}

// longestLanguage is the tag of the language with the longest texts.
func longestLanguage(t *testing.T) string {
	t.Helper()
	tag, most := "", 0
	for _, l := range text.Languages {
		texts, err := json.Marshal([]map[string]string{l.Group("rail"), l.Group("pay"), l.Group("received"), l.Group("layout")})
		require.NoError(t, err)
		if len(texts) > most {
			tag, most = l.Tag, len(texts)
		}
	}
	return tag
}
