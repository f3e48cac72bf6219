package browser

import (
	"encoding/base64"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/showcase"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/cases"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// widths are those of the windows that pages are looked at in.
var widths = []int{390, 1280}

// pages are all pages, in the language whose texts are the longest, with every row of the chooser, every state of a receipt
// and every status of an error.
func (v visit) pages(t *testing.T) (all []Visit) {
	t.Helper()
	in := "?lang=" + longestLanguage(t)
	add := func(name, url string) {
		path, rest, _ := strings.Cut(url, "?")
		if rest != "" {
			rest = "&" + rest
		}
		path, fragment, found := strings.Cut(path, "#")
		if found {
			fragment = "#" + fragment
		}
		all = append(all, Visit{Name: name, URL: path + in + rest + fragment, Pictures: os.Getenv("PAY_OFFER_SCREENSHOTS")})
	}
	add("demo", v.site+offer.PathSite)
	add("offer", v.open+offer.PathSite)
	add("sponsor", v.service+offer.PathSponsor)
	add("pay", v.service+offer.PathMethods)
	add("transfer", v.service+offer.PagePath("transfer"))
	add("received-empty", v.service+offer.PathReceived)
	add("thanks", v.service+offer.PathThanks)
	add("thanks-unknown", v.service+offer.PathThanks+"?session_id=cs_test_other")
	for _, rail := range showcase.Offer(t, v.showcase).Rails {
		add("showcase-pay-"+rail.Name(), v.showcase+offer.PathMethods+"#"+rail.Name())
	}
	add("showcase-transfer", v.showcase+offer.PagePath("transfer"))
	add("showcase-received", v.showcase+offer.PathReceived)
	add("showcase-thanks-waiting", v.showcase+offer.PathThanks+"?session_id=cs_test_other")
	add("showcase-thanks-received", v.showcase+offer.PathThanks+"?session_id=cs_test_showcase")
	add("showcase-sponsor", v.showcase+offer.PathSponsor)
	for _, state := range slices.Sorted(maps.Keys(v.receipts)) {
		add("showcase-receipt-"+state, v.showcase+v.receipts[state])
	}
	for _, state := range slices.Sorted(maps.Keys(v.invoices)) {
		add("showcase-invoice-"+state, v.showcase+v.invoices[state])
	}
	add("error-wallet-down", v.showcase+offer.PagePath(offer.RailLightning))
	all[len(all)-1].Method = "POST"
	add("error-400", v.showcase+offer.PathThanks+"?session_id=none")
	add("error-404", v.showcase+offer.URIPath("none"))
	add("error-405", v.showcase+offer.PathMethods)
	all[len(all)-1].Method = "PUT"
	add("error-413", v.showcase+offer.PathSponsor)
	all[len(all)-1].Method, all[len(all)-1].Body = "POST", strings.Repeat(" ", 70_000)
	for status, outcome := range map[int]x402.Status{400: x402.Malformed, 409: x402.Conflict, 429: x402.Limited, 503: x402.Unavailable} {
		add(fmt.Sprintf("error-payment-%d", status), v.showcase+offer.PathSponsor)
		all[len(all)-1].Method, all[len(all)-1].Headers = "POST", map[string]string{
			x402.HeaderSignature: base64.StdEncoding.EncodeToString([]byte("{}")), showcase.HeaderOutcome: string(outcome),
		}
	}
	return all
}

// everyPage visits every page once, by default in one of the two widths, and holds against it what must hold of every page.
func (v visit) everyPage(t *testing.T) {
	all := v.pages(t)
	for i := range all {
		all[i].Widths, all[i].NoScript, all[i].Audit = widths, true, true
		if all[i].Pictures == "" && cases.EndToEnd(1, 2, 2) == 1 {
			// Those of one kind follow each other, so that each kind is seen in both widths and without a script, and audited.
			all[i].Widths, all[i].NoScript, all[i].Audit = widths[i%2:i%2+1], i%4 < 2, i%3 == 0
		}
	}
	visited := v.Visits(t, all...)
	require.Len(t, visited, len(all))
	for i, page := range visited {
		t.Run(all[i].Name, func(t *testing.T) {
			if strings.HasPrefix(all[i].Name, "error-") {
				require.Len(t, page.Messages, page.Loads, "the browser tells of the status")
				page.Messages = slices.DeleteFunc(page.Messages, refusedStatus.MatchString)
			}
			require.Empty(t, page.Messages)
			require.Empty(t, page.Foreign, "asked for before the person chose")
			require.Len(t, page.Looks, 2*len(all[i].Widths))
			if all[i].NoScript {
				require.Len(t, page.Plain, map[int]int{1: 1, 2: 4}[len(all[i].Widths)])
			}
			for _, look := range slices.Concat(page.Looks, page.Zoomed, page.Plain) {
				requireReadable(t, look)
			}
			for _, plain := range page.Plain {
				require.Equal(t, page.Looks[0].Links, plain.Links, "without a script")
				if page.Looks[0].Width == 390 { // wide, a script opens a code
					require.Len(t, plain.Images, len(page.Looks[0].Images))
				}
				require.Empty(t, plain.Buttons, "a button without a script does nothing")
			}
			if slices.Contains(all[i].Widths, 1280) {
				require.Len(t, page.Zoomed, 2)
				require.GreaterOrEqual(t, page.Keyboard.Controls, len(page.Looks[len(page.Looks)-1].Links))
			}
			require.Empty(t, page.Keyboard.Unreached, "by the keyboard")
			require.Empty(t, page.Keyboard.Unseen, "by the keyboard")
			require.Empty(t, page.Moving, "with reduced motion")
			require.Empty(t, page.Hidden, "in forced colors")
		})
	}
}

func requireReadable(t *testing.T, look Look) {
	t.Helper()
	how := fmt.Sprintf("%d pixels, dark %v", look.Width, look.Dark)
	require.Zero(t, look.Overflow, "pixels beyond the window: "+how)
	require.Greater(t, look.Texts, 10)
	require.Empty(t, look.Faint, how)
	require.Empty(t, look.Cut, how)
	require.Empty(t, look.Broken, how)
	require.Empty(t, look.Violations, how)
	for _, image := range look.Images {
		require.NotEmpty(t, image.Alt)
		require.True(t, image.Loaded, image.Alt)
	}
	requireUsable(t, look.Links)
}
