package browser

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/showcase"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/text"
)

// maxHeight is how high the page may be on a phone with any row open, in pixels: the chooser, and at the foot legal lines.
const maxHeight = 1720

// terms holds the text beside each QR code against the invoice, for people must be able to compare
// what their wallet read.
func (v visit) terms(t *testing.T) {
	o := showcase.Offer(t, v.showcase)
	views := []View{{URL: v.showcase + offer.PagePath("transfer"), Width: 1280}}
	for _, rail := range o.Rails {
		views = append(views, View{URL: v.showcase + offer.PathMethods + "#" + rail.Name(), Width: 1280})
	}
	pages := v.Looks(t, views...)
	for i, rail := range o.Rails {
		page := pages[i+1]
		if m := rail.Methods(o, showcase.Live)[0]; m.URL != "" || m.InvoiceURL != "" {
			require.Len(t, page.Images, 1, "a checkout is opened on the same device, and an invoice has a page of its own")
			continue
		}
		require.Len(t, page.Images, 2, "the logo and the code of the open row")
		for _, want := range besides(rail, o) {
			require.Contains(t, page.Images[1].Beside, want, rail.Name())
		}
	}
	require.Len(t, pages[0].Images, 2)
	for _, want := range append(besides(o.BankTransfer(), o), "SOGEDEFFXXX", "021000021", "00123456789") {
		require.Contains(t, pages[0].Images[1].Beside, want)
	}
}

// besides are the payee, the amount, the network and the address of a rail as people know them.
func besides(rail offer.Rail, o *offer.Offer) []string {
	return map[string][]string{
		"usdc":     {"42 USDC", "USDC on Base", "0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045"},
		"btc":      {"0.00045678 BTC", "Bitcoin", "bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq"},
		"transfer": {"39 EUR", "Example & Söhne GmbH", "DE75 5121 0800 1245 1261 99", "Example 42"},
	}[rail.Name()]
}

func (v visit) copies(t *testing.T) {
	copied := v.Copy(t, v.showcase+offer.PathMethods)
	o, l, want, names := showcase.Offer(t, v.showcase), text.Languages[0], []Copied{}, map[string]bool{}
	for _, rail := range o.Rails {
		for _, fact := range rail.Methods(o, showcase.Live)[0].Facts {
			if fact.Copy != "" {
				name := "Copy: " + l.Text("fact."+fact.Label) + ", " + l.Say(rail.Face().Name)
				want = append(want, Copied{name, fact.Copy, name, []string{"Copied"}})
			}
		}
	}
	require.Equal(t, want, copied)
	for _, button := range copied {
		require.False(t, names[button.Name], "two buttons are called %q", button.Name)
		names[button.Name] = true
	}
	for name, holds := range map[string]string{
		"Copy: Amount, USDC on Base": "42", "Copy: Send to, USDC on Base": "0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045",
		"Copy: Amount, Bitcoin": "0.00045678", "Copy: Send to, Bitcoin": "bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq",
		"Copy: Price in euros, Bank transfer": "39.00", "Copy: IBAN, Bank transfer": "DE75512108001245126199",
	} {
		require.Contains(t, copied, Copied{name, holds, name, []string{"Copied"}})
	}
}

// rows opens each row by the keyboard, in every language, and wide in that of the longest texts: on a phone nothing but what is seen is loaded.
func (v visit) rows(t *testing.T) {
	o := showcase.Offer(t, v.showcase)
	var views []View
	longest := longestLanguage(t)
	for _, l := range text.Languages {
		for _, width := range widths {
			if width == 390 || l.Tag == longest {
				views = append(views, View{URL: v.showcase + offer.PathMethods + "?lang=" + l.Tag, Width: width})
			}
		}
	}
	for n, rows := range v.Rows(t, views...) {
		width, what := views[n].Width, views[n].URL
		_, tag, _ := strings.Cut(what, "?lang=")
		l, _ := text.Choose(tag, nil)
		require.Len(t, rows, len(o.Rails))
		asked := []string{}
		for i, row := range rows {
			rail := o.Rails[i]
			require.Equal(t, rail.Name(), row.Rail)
			require.Equal(t, []string{rail.Name()}, row.Open, "one row is open at a time")
			require.Zero(t, row.Overflow, rail.Name())
			require.Contains(t, row.Text, l.Say(rail.Face().Act), what)
			if width == 390 {
				require.LessOrEqual(t, row.Height, maxHeight, "%s in %s", rail.Name(), what)
				require.Empty(t, row.Low, "%s in %s", rail.Name(), what)
				require.Equal(t, asked, row.Before, "a code that nobody asked for was loaded")
			}
			if m := rail.Methods(o, showcase.Live)[0]; m.URL == "" && m.InvoiceURL == "" {
				asked = append(asked, rail.Name())
			}
			require.Equal(t, asked, row.After, "a code of a closed row was loaded")
		}
	}
}

// choice goes through the rows with the keys of radio buttons. The open row stays open whatever is pressed.
func (v visit) choice(t *testing.T) {
	o := showcase.Offer(t, v.showcase)
	last := len(o.Rails) - 1
	got := v.Choose(t, View{URL: v.showcase + offer.PathMethods, Width: 390}, "Enter", "Space", "click", "ArrowDown", "ArrowRight", "ArrowUp", "Enter", "ArrowLeft", "ArrowUp")
	for i, at := range []int{0, 0, 0, 1, 2, 1, 1, 0, last} {
		name := o.Rails[at].Name()
		require.Equal(t, []string{name}, got.Chosen[i].Open, "after key %d", i)
		require.Equal(t, name, got.Chosen[i].Focused, "after key %d", i)
	}
	require.Equal(t, []string{o.Rails[last].Name()}, got.Current)
}

func (v visit) rowsWithoutScript(t *testing.T) {
	view := View{URL: v.showcase + offer.PathMethods, Width: 390}
	scriptless := view
	scriptless.NoScript = true
	both := v.Rows(t, view, scriptless)
	with, without := both[0], both[1]
	o := showcase.Offer(t, v.showcase)
	for i, row := range without {
		require.Equal(t, []string{with[i].Rail}, row.Open)
		require.Equal(t, with[i].Links, row.Links)
		require.LessOrEqual(t, row.Height, maxHeight)
		for _, fact := range o.Rails[i].Methods(o, showcase.Live)[0].Facts {
			require.Equal(t, !fact.Detail, strings.Contains(row.Text, text.Languages[0].Say(fact.Value)), fact.Label)
		}
	}
	require.Contains(t, without[2].Text, "This price holds until 13:45 UTC. After that, reload the page.")
}

func (v visit) linkToRow(t *testing.T) {
	for _, noScript := range []bool{false, true} {
		page := v.Look(t, View{URL: v.showcase + offer.PathMethods + "#btc", Width: 390, NoScript: noScript})
		require.Contains(t, page.Text, "bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq")
		require.NotContains(t, page.Text, "Pay $42", "the row of the card is closed")
	}
}

// phone looks at the list of payments, whose words are not broken, on a phone.
func (v visit) phone(t *testing.T) {
	var views []View
	for _, l := range text.Languages {
		views = append(views, View{URL: v.showcase + offer.PathReceived + "?lang=" + l.Tag, Width: 390, Screenshot: Screenshot("showcase-received-" + l.Tag)})
	}
	for i, page := range v.Looks(t, views...) {
		require.Zero(t, page.Overflow, views[i].URL)
		require.Greater(t, page.TallestRow, 40, views[i].URL)
		require.LessOrEqual(t, page.TallestRow, 170, views[i].URL) // three lines and two below
	}
}

func (v visit) print(t *testing.T) {
	page := v.Look(t, View{URL: v.showcase + offer.PathMethods + "#btc", Width: 720, Dark: true, Print: true, Screenshot: Screenshot("showcase-pay-print")})
	for _, want := range []string{"$42", "Example & Söhne", "Bitcoin", "0.00045678 BTC", "bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq"} {
		require.Contains(t, page.Text, want)
	}
	require.Len(t, page.Images, 2, "the logo and the code of the open row")
	require.Empty(t, page.Buttons)
	for _, other := range []string{"tip-jar.example", "USDC", "Open in your wallet", "Copy", "Deutsch", "QR code\n"} {
		require.NotContains(t, page.Text, other)
	}
	require.Empty(t, page.Faint)
	require.Empty(t, v.Look(t, View{URL: v.showcase + offer.PagePath("transfer"), Width: 720, Print: true}).Buttons)
}
