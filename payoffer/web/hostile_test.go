package web

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/cases"
	"github.com/payoffer/caddy-pay-offer/payoffer/text"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// mark stands in every text of these tests, so that it is found where it is shown.
const mark = "Pwned"

// harmless is the text that the others are compared with.
const harmless = mark + " text"

// hostile are texts of every kind that ever turned data into something else.
var hostile = map[string]string{
	"ends of elements":   mark + `</script></style></title></textarea></dd></bdi>--></noscript><script>window.pwned=1</script><img src=x onerror=window.pwned=1><svg/onload=window.pwned=1>`,
	"ends of attributes": mark + `" ' > onmouseover="window.pwned=1" autofocus onfocus='window.pwned=1' style=x:y x=` + "`",
	"ends of strings":    mark + "\u2028\u2029';window.pwned=1//\";window.pwned=1//${window.pwned=1}`\\\\\"}]]><!--<script>\\u003c/script>",
	"templates":          mark + `{{.}}{{template "content" .}}{{end}}{amount}{n}{name}<%= 7*7 %>${7*7}#{7*7}&lt;&#60;&amp`,
	"schemes":            `javascript:window.pwned=1//` + mark + ` data:text/html,<script>window.pwned=1</script>`,
	"directions":         mark + "\u202e\u202d\u2066\u2067\u2068\u2069\u2069\u200f 24\u202c",
	"no text at all":     mark + "\xff\xfe\x00\r\n\t\x1b[31m\xed\xa0\x80\ufffe",
	"a very long one":    mark + strings.Repeat(`<b>"&long `, cases.Of(200, 200, 2_000)),
}

// fill writes a text into every string of a value: what payers, providers and
// former configurations left in the ledger.
func fill(value any, text string) {
	v := reflect.Indirect(reflect.ValueOf(value))
	for i := range v.NumField() {
		switch field := v.Field(i); field.Kind() {
		case reflect.String:
			field.SetString(text)
		case reflect.Struct:
			if field.CanAddr() && field.Type() != reflect.TypeOf(at) {
				fill(field.Addr().Interface(), text)
			}
		}
	}
}

// inURL is what the configuration takes of a text as the end of an address.
func inURL(text string) string {
	var taken []rune
	for _, r := range text {
		if _, err := offer.ParseURL("https://host.example/" + string(r)); err == nil && len(taken) < 200 {
			taken = append(taken, r)
		}
	}
	return string(taken)
}

// inMail is what it takes of a text for a bank's statement.
func inMail(text string) string {
	var taken []rune
	for _, r := range strings.ToValidUTF8(text, "") {
		if offer.CheckPrintable(string(r)) == nil && len(taken) < 140 {
			taken = append(taken, r)
		}
	}
	return string(taken)
}

// says is a world in which everything that somebody else wrote is one text.
func says(t *testing.T, text string) *world {
	t.Helper()
	w := newWorld(t)
	o := terms()
	o.ID, o.Name, o.Operator, o.Description, o.Contact, o.Account = text, text, text, text, text, text
	o.Thanks, o.Refunds, o.Legal = text, text, []string{text, text}
	o.SourceURL, o.Logo, o.Goal = "https://code.example.net/"+inURL(text), "/logo.png?"+inURL(text), 420_00
	card, err := offer.NewCard("https://checkout.example/"+inURL(text), []string{text, "card"}, o.Amount)
	require.NoError(t, err)
	network := must(offer.LookupNetwork("base"))(t)
	usdc := must(offer.NewUSDC("usdc", network, payTo, o.Amount))(t)
	usdc.Explorer = "https://explorer.example/?" + inURL(text) + "="
	btc := must(offer.NewBitcoin(payoffertest.Bitcoin, inMail(text), o.Amount))(t)
	btc.Explorer = usdc.Explorer
	transfer := must(offer.NewBankTransfer("transfer", "bank@example.org", inMail(text), inMail(text), o.Amount))(t)
	tip, err := offer.NewStorefront("tip-jar", "https://shop.example/"+inURL(text), o.Amount)
	require.NoError(t, err)
	tip.Product = text
	w.offer = must(offer.New(o, card, usdc, btc, transfer, tip))(t)

	for i, rail := range append(w.offer.Rails, card) {
		r := ledger.Receipt{USDCents: cents(42_00)}
		fill(&r, text)
		total := confirmed(text, ledger.LevelChain, 1_00)
		fill(&total, text)
		if i < len(w.offer.Rails) { // what is ours says what it is
			r.Rail, r.Status, r.EvidenceLevel, r.ValueBasis = rail.Name(), ledger.StatusConfirmed, ledger.LevelSigned, ledger.BasisStated
			total.Rail, total.Status, total.EvidenceLevel = rail.Name(), ledger.StatusConfirmed, ledger.LevelSigned
		}
		r.ID, r.OccurredAt, r.ObservedAt, r.Amount = int64(90-i), at.Unix(), at.Unix(), 42_00
		r.Nonce, r.ExternalID, r.Account = "", fmt.Sprint(text, i), w.offer.AccountOf(rail) // which find it
		w.accounts = append(w.accounts, ledger.Account{ID: r.Account})
		w.receipts, w.totals = append(w.receipts, r), append(w.totals, total)
	}
	for i := range w.health {
		w.health[i].ObservedThrough = text
	}
	w.outcome = x402.Outcome{Status: x402.Conflict, Version: 2, Reason: text, Detail: text, Intent: text}
	return w
}

// A visit is a request of a person.
type visit struct {
	name, method, target string
	headers              []string
}

// visits are those of every page: of each row of the route table, and of what no
// row names.
func visits(s *Server, text string) []visit {
	text = strings.ToValidUTF8(text, "")
	text = text[:min(len(text), 200)]
	query := url.Values{"session_id": {text}, "x": {text}, text: {text}}.Encode()
	all := []visit{
		{"older receipts", "GET", "/v1/received?before=88&limit=2&" + query, nil},
		{"no number", "GET", "/v1/received?before=" + url.QueryEscape(text), nil},
		{"no cursor", "GET", "/v1/received?after=" + url.QueryEscape(text), nil},
		{"no language", "GET", "/v1/pay?lang=" + url.QueryEscape(text), nil},
		{"no rail", "GET", "/v1/pay/" + url.PathEscape(text), nil},
		{"no code", "GET", "/v1/qr/" + url.PathEscape(text) + "/" + url.PathEscape(text), nil},
		{"no receipt", "GET", offer.PathReceipt + "/" + url.PathEscape(text), nil},
		{"nobody", "GET", "/.well-known/webfinger?resource=" + url.QueryEscape(text), nil},
		{"a conflict", "POST", "/v1/sponsor", []string{x402.HeaderSignature, x402.EncodeHeader(map[string]any{"x402Version": 2, "payload": text, "accepted": map[string]any{}})}},
		{"no payment", "POST", "/v1/sponsor", []string{x402.HeaderSignature, "!" + inURL(text)}},
	}
	_, rows, _ := s.Receipts.TotalsAndReceipts(context.Background(), s.Offer.ID, 0, maxReceipts) // of a stand-in
	for i, row := range rows {
		all = append(all, visit{fmt.Sprint("a receipt ", i), "GET", offer.PathReceipt + "/" + receiptID(qrKey, row), nil})
	}
	for _, row := range table(s.Offer) {
		if !strings.Contains(row.Path, "{") {
			all = append(all, visit{row.Path, row.Method, row.Path, nil}, visit{row.Path + "?", row.Method, row.Path + "?" + query, nil}, visit{row.Path, "DELETE", row.Path, nil})
		}
	}
	return all
}

// unfilled is what stands in a page where a value is missing.
var unfilled = regexp.MustCompile(`<nil>|%!|ZgotmplZ|\{\w*\}`)

// TestNoTextChangesPageStructure holds every page with hostile texts against the same page
// with a harmless one: the two differ in texts and in the values of attributes that
// mean nothing, and in nothing else.
func TestNoTextChangesPageStructure(t *testing.T) {
	want := looks(t, harmless, spoken())
	require.GreaterOrEqual(t, len(want), len(pageTargets)*len(spoken()))
	require.Contains(t, want["GET a receipt 0 in en"].texts, text.Languages[0].Text("receipt.keep"))
	for at, page := range want {
		require.NotRegexp(t, unfilled, strings.ReplaceAll(page.texts, sessionTemplate, ""), at)
	}
	for n, name := range slices.Sorted(maps.Keys(hostile)) {
		t.Run(name, func(t *testing.T) {
			languages := spokenOf(n)
			got, shown := looks(t, hostile[name], languages), 0
			require.Len(t, got, len(want)/len(spoken())*len(languages))
			for at, page := range got {
				require.Contains(t, want, at)
				require.Equal(t, want[at].elements, page.elements, at)
				require.Equal(t, strings.Contains(want[at].texts, mark), strings.Contains(page.texts, mark), at)
				require.False(t, strings.ContainsAny(page.texts, "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"), at)
				shown += strings.Count(page.texts, mark)
			}
			require.Greater(t, shown, 100)
		})
	}
}

// spoken are all languages; under the race detector, for which nothing here runs at once, the first.
func spoken() []*text.Language {
	all := len(text.Languages)
	return text.Languages[:cases.Of(all, all, all)]
}

// spokenOf are the languages of one of the hostile texts: every other one, by turns, so that each language has half of the
// texts; all with PAY_OFFER_CASES=more.
func spokenOf(n int) (some []*text.Language) {
	for i, l := range spoken() {
		if len(spoken()) == 1 || i%2 == n%2 || cases.Of(0, 1, 1) == 1 {
			some = append(some, l)
		}
	}
	return some
}

// looks are the shapes of all pages in languages where everybody writes a text.
func looks(t *testing.T, said string, languages []*text.Language) map[string]shape {
	t.Helper()
	all := make(map[string]shape)
	synctest.Test(t, func(t *testing.T) { // so that a slow machine reads the ledger in time
		s := says(t, said).server(t)
		for _, v := range visits(s, said) {
			for _, l := range languages {
				if w := look(t, s, v, l, inMail(said)); w != nil {
					all[fmt.Sprint(v.method, " ", v.name, " in ", l.Tag)] = shapeOf(t, w)
				}
			}
		}
	})
	return all
}

// look is the answer to a visit in a language if it is a page.
func look(t *testing.T, s *Server, v visit, l *text.Language, alien string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(v.method, "/", nil)
	u := must(url.Parse(v.target))(t)
	r.URL, r.RequestURI = u, v.target
	r.Header = http.Header{"Accept": {browser}, "Accept-Language": {l.Tag, alien}}
	for i := 0; i < len(v.headers); i += 2 {
		r.Header.Set(v.headers[i], v.headers[i+1])
	}
	w := httptest.NewRecorder()
	if !s.Serve(w, r) || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/html") || w.Code == http.StatusFound {
		return nil
	}
	require.Equal(t, l.Tag, w.Header().Get("Content-Language"), v.target)
	for name, values := range w.Header() {
		require.False(t, strings.ContainsAny(strings.Join(values, ""), "\r\n\x00"), name)
	}
	return w
}
