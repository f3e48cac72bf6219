package browser

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/showcase"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/cases"
	"github.com/payoffer/caddy-pay-offer/payoffer/text"
)

// fitting is a Visit of a page in several widths and fonts.
type fitting struct {
	Visit
	Fonts []string `json:"fonts"`
}

// fitted is how a page looks in one width and font.
type fitted struct {
	Width int
	Font  string
	Page
}

// fonts are a wide and a narrow font of the test machine.
var fonts = []string{"'DejaVu Sans'", "'DejaVu Sans Condensed'"}

// everyTextFits looks for broken words, cut text, and pages that are wider than the window: on every page, in every
// language, also with the longest texts that an offer may have.
func (v visit) everyTextFits(t *testing.T) {
	widths, fonts := []int{320, 360, 390, 768, 1280}, fonts
	if cases.EndToEnd(1, 2, 2) == 1 {
		widths, fonts = []int{320, 390, 1280}, fonts[:1]
	}
	var all []fitting
	add := func(page Visit, l *text.Language) {
		page.URL, page.Widths = strings.Replace(page.URL, "lang="+longestLanguage(t), "lang="+l.Tag, 1), widths
		all = append(all, fitting{page, fonts})
	}
	long, pages := serve(t, func(address string) *offer.Offer {
		o := showcase.Offer(t, address)
		word := strings.Repeat("Zahlungsverpflichtungsgesetz", 20)
		o.Name, o.Operator, o.Thanks, o.Refunds = "Verantwortungsbewusstsein "+word[:54], word[:80], word[:500], word[:500]
		o.Description = strings.Repeat("Lebensversicherungsgesellschaft ", 16)[:500]
		o.Legal = []string{word[:140], strings.Repeat("Handelsregister ", 9)[:140]}
		return o
	})
	receipts := showcase.Receipts(t, pages)
	for _, l := range text.Languages {
		for _, page := range v.pages(t) {
			add(page, l)
		}
		query := "?lang=" + longestLanguage(t)
		for _, path := range []string{offer.PathMethods, offer.PathReceived, offer.PathThanks, offer.PathSponsor, receipts["card-confirmed-signed-USD"], "/v1/receipt/none"} {
			add(Visit{Name: "long " + path, URL: long + path + query}, l)
		}
	}
	var looks [][]fitted
	v.Do(t, "fits", all, &looks)
	require.Len(t, looks, len(all))
	for i, page := range all {
		for _, look := range looks[i] {
			require.Positive(t, look.Texts, page.URL)
			if len(look.Broken)+len(look.Cut)+look.Overflow > 0 {
				t.Errorf("%s (%s), %d pixels, %s: broken %q, cut %q, %d pixels too wide", page.Name, page.URL, look.Width, look.Font, look.Broken, look.Cut, look.Overflow)
			}
		}
	}
}
