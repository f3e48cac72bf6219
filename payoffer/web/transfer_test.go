package web

import (
	"encoding/base64"
	"html"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/text"
)

// both is an account that banks on both sides of an ocean know.
var both = offer.Bank{
	AccountHolderName: "Example Org Limited", IBAN: "DE75512108001245126199", BIC: "SOGEDEFFXXX", AmountEUR: 39_00,
	RoutingNumber: "021000021", AccountNumber: "00123456789",
}

// publishing makes the world's offer publish an account.
func (w *world) publishing(t *testing.T, bank offer.Bank) *world {
	t.Helper()
	require.NoError(t, w.offer.Transfer().Publish(bank))
	return w
}

// scanned is the text of the code that a row or page shows.
func scanned(t *testing.T, page string) string {
	t.Helper()
	found := regexp.MustCompile(`src="/v1/qr/transfer/([\w-]+)\.`).FindStringSubmatch(page)
	require.NotNil(t, found)
	code := must(base64.RawURLEncoding.DecodeString(found[1]))(t)
	return string(code)
}

func TestTheAccountStandsWhereverTheBankTransferDoes(t *testing.T) {
	s := newWorld(t).publishing(t, both).server(t)
	want := map[string]any{
		"accountHolderName": "Example Org Limited", "iban": "DE75512108001245126199", "bic": "SOGEDEFFXXX", "amountEur": 39.0,
		"routingNumber": "021000021", "accountNumber": "00123456789",
		"epc": "BCD\n002\n1\nSCT\nSOGEDEFFXXX\nExample Org Limited\nDE75512108001245126199\nEUR39.00\n\n\nExample Offer 42",
	}
	require.Equal(t, want, readJSON(t, send(t, s, "GET", "/v1/pay/transfer", ""))["bank"])
	require.Equal(t, want, readJSON(t, send(t, s, "GET", "/v1/pay/transfer.uri", "", "Accept", "application/json"))["bank"])
	var schemes []any
	for _, m := range readJSON(t, send(t, s, "GET", "/v1/invoice", ""))["methods"].([]any) {
		if bank := m.(map[string]any)["bank"]; bank != nil {
			require.Equal(t, want, bank)
			schemes = append(schemes, m.(map[string]any)["scheme"])
		}
	}
	require.Equal(t, []any{"transfer"}, schemes)
	uris := strings.TrimSpace(read(t, send(t, s, "GET", "/v1/pay/transfer.uri", "")))
	require.Regexp(t, `^mailto:bank@example\.org\?[^\r\n]*$`, uris, "one mailto URI, as ever")

	for _, l := range text.Languages {
		page := html.UnescapeString(read(t, send(t, s, "GET", "/v1/pay/transfer?lang="+l.Tag, "", "Accept", browser)))
		_, rows := waysOf(html.UnescapeString(read(t, send(t, s, "GET", "/v1/pay?lang="+l.Tag, "", "Accept", browser))))
		for _, shown := range []string{page, rows["transfer"]} {
			for copied, value := range map[string]string{
				"Example Org Limited": "Example Org Limited", "DE75512108001245126199": "DE75 5121 0800 1245 1261 99", "39.00": "39 EUR", "Example Offer 42": "Example Offer 42",
			} {
				require.Contains(t, shown, `data-copy="`+copied+`"><span>`+value+`</span>`, l.Tag)
			}
			for _, more := range []string{"SOGEDEFFXXX", "021000021", "00123456789", "42.00"} { // a row leaves them to the page
				require.Equal(t, shown == page, strings.Contains(shown, `data-copy="`+more+`"><span>`), l.Tag)
			}
			require.Equal(t, want["epc"], scanned(t, shown))
			require.Contains(t, shown, `href="`+uris+`">`+l.Text("rail.transfer.act")+"<")
		}
		require.Contains(t, page, l.Text("transfer.scan"))
		require.Contains(t, page, `alt="`+l.Text("pay.qr", "name", offer.Phrase{Key: "rail.transfer.name"})+`"`)
		require.Contains(t, rows["transfer"], l.Text("rail.transfer.direct")+` <a href="/v1/pay/transfer?lang=`+l.Tag+`">`)
		require.NotContains(t, page, l.Text("transfer.answer"), "nobody need wait for an answer")
	}
}
