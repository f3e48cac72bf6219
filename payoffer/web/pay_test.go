package web

import (
	"encoding/base64"
	"html"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/text"
)

// waysOf are the rows of the pay page, by the rails' names, in their order.
func waysOf(page string) (names []string, rows map[string]string) {
	rows = make(map[string]string)
	page, _, _ = strings.Cut(page, "</section>")
	for _, row := range strings.Split(page, `<details class="way"`)[1:] {
		name := regexp.MustCompile(`id="([^"]*)"`).FindStringSubmatch(row)[1]
		names, rows[name] = append(names, name), row
	}
	return names, rows
}

func TestPayPageTermsOfEachRail(t *testing.T) {
	w := newWorld(t)
	for _, l := range text.Languages {
		page := read(t, send(t, w.server(t), "GET", "/v1/pay?lang="+l.Tag, "", "Accept", browser))
		names, rows := waysOf(page)
		for i, rail := range w.offer.Rails {
			m, face := rail.Methods(w.offer, w.live)[0], rail.Face()
			require.Equal(t, m.Rail, names[i], "the rails stand in their order, the card first")
			row := html.UnescapeString(rows[m.Rail])
			for _, fact := range m.Facts {
				require.Contains(t, row, ">"+l.Say(fact.Value)+"</span>")
				if fact.Copy != "" && rail != offer.Rail(w.offer.BankTransfer()) { // an invoice is only requested
					require.Contains(t, row, "<dt>"+l.Text("fact."+fact.Label)+`</dt><dd data-fact="`+fact.Label+`" data-copy="`+fact.Copy+`">`)
				}
			}
			summary, _, _ := strings.Cut(row, "</summary>")
			for _, said := range []string{l.Say(face.Name), l.Say(face.Hint)} {
				require.Contains(t, summary, said)
			}
			require.Contains(t, row, l.Say(face.Fee))
			require.Contains(t, row, l.Say(face.Note))
			scanned := strings.Count(row, `loading="lazy" alt="`+l.Text("pay.qr", "name", face.Name)+`"`) == 1
			require.Equal(t, m.URI != "" && m.InvoiceURL == "" && rail != offer.Rail(w.offer.BankTransfer()), scanned, "a checkout or a mail is opened on the same device")
			act := `href="` + m.Link() + `">` + l.Say(face.Act) + "<"
			if m.InvoiceURL != "" {
				act = `<form class="actions" method="post" action="/v1/pay/` + m.Rail + "?lang=" + l.Tag + `"><button class="button">` + l.Say(face.Act) + "<"
			}
			require.Contains(t, row, act)
		}
		require.Contains(t, page, `"price":"42.00"`)
		require.NotContains(t, page, l.Text("pay.test"))
	}
}

// What an API client needs is behind one link.
func TestPayPageLinksToAPI(t *testing.T) {
	w := newWorld(t)
	page := read(t, send(t, w.server(t), "GET", "/v1/pay?lang=de", "", "Accept", browser))
	require.Contains(t, page, `<a href="/v1/sponsor?lang=de">`)
	require.NotContains(t, page, "spendControls")
}

func TestPayPageMarksTestMoney(t *testing.T) {
	w := newWorld(t)
	w.offer = payoffertest.Offer(t, terms(), "base-sepolia")
	_, rows := waysOf(read(t, send(t, w.server(t), "GET", "/v1/pay", "", "Accept", browser)))
	for name, row := range rows {
		require.Equal(t, name == "usdc", strings.Contains(row, "no real money"), name)
		require.Equal(t, name == "usdc", strings.Contains(row, `<span class="tag">Test</span>`), name)
	}
	for tag, network := range map[string]string{"en": "(test network)", "de": "(Testnetz)", "fr": "(réseau de test)", "es": "(red de pruebas)"} {
		page := read(t, send(t, w.server(t), "GET", "/v1/pay?lang="+tag, "", "Accept", browser))
		require.Contains(t, page, `data-title="Base Sepolia `+network+`"`, "sentences of the wallet")
		require.Contains(t, page, "<span>Base Sepolia "+network+"</span>", "values to pay by hand")
	}
}

// One row is open: the recommended one, which is the first, or else the card; and
// never one that cannot be paid now.
func TestPayPageOpensRecommendedRail(t *testing.T) {
	for recommend, first := range map[string]string{"": "card", "card": "card", "btc": "btc"} {
		want := []string{first}
		for _, rail := range payoffertest.Offer(t, terms(), "base").Rails {
			if rail.Name() != first {
				want = append(want, rail.Name())
			}
		}
		for _, quoted := range []bool{true, false} {
			w, terms := newWorld(t), terms()
			terms.Recommend = recommend
			w.offer = payoffertest.Offer(t, terms, "base")
			open := want[0]
			if !quoted {
				w.live = offer.Live{}
				if open == "btc" {
					open = "card"
				}
			}
			names, rows := waysOf(read(t, send(t, w.server(t), "GET", "/v1/pay", "", "Accept", browser)))
			require.Equal(t, want, names)
			for name, row := range rows {
				require.True(t, strings.HasPrefix(row, ` name="way"`), "one is open at a time")
				require.Equal(t, name == open, strings.HasPrefix(row, ` name="way" open>`), "%s of %q", name, recommend)
				require.Equal(t, name == recommend, strings.Contains(row, ">Recommended<"), "%s of %q", name, recommend)
				available := payoffertest.Rail(t, w.offer, name).Methods(w.offer, w.live)[0].Available
				require.Equal(t, !available, strings.Contains(row, "<small>Not available now</small>"), name)
			}
		}
	}
}

// The question before a second payment is next to the payment methods that it hides, and leads to a page in the same language.
func TestPaymentPagesHaveQuestionNextToMethods(t *testing.T) {
	w := newWorld(t)
	for _, target := range []string{"/v1/pay", "/v1/pay/transfer"} {
		page := read(t, send(t, w.server(t), "GET", target+"?lang=fr", "", "Accept", browser))
		require.Contains(t, page, `<section aria-labelledby="howToPay">`+"\n"+`<div id="arrived" role="status" data-page="/v1/thanks?lang=fr"></div>`, target)
		require.Contains(t, page, `<div data-arrive="/v1/received?lang=fr" hidden></div>`, target)
		w.offer.PrivateReceived = true
		private := read(t, send(t, w.server(t), "GET", target+"?lang=fr", "", "Accept", browser))
		require.Contains(t, private, `<div id="arrived" role="status"`, target)
		require.NotContains(t, private, `data-arrive="`, target)
		w.offer.PrivateReceived = false
	}
}

func TestPayPagePollsWithoutReceipt(t *testing.T) {
	w := newWorld(t)
	page := read(t, send(t, w.server(t), "GET", "/v1/pay", "", "Accept", browser))
	require.Contains(t, page, `data-arrive="/v1/received" hidden>`, "an idle page asks for nothing")
	_, rows := waysOf(page)
	for name, row := range rows {
		require.Equal(t, payoffertest.Rail(t, w.offer, name).Face().Asks, strings.Contains(row, `id="`+name+`" data-ask>`), name)
	}
}

func TestDemoPagesAreMarked(t *testing.T) {
	for address, demo := range map[string]bool{"https://checkout.example/pay-42": true, "https://checkout.example.net/pay": true, "https://buy.stripe.com/1": false} {
		w := newWorld(t)
		card := must(offer.NewCard(address, nil, w.offer.Amount))(t)
		*w.offer.Card = *card
		for _, l := range text.Languages {
			for _, target := range []string{"/v1/pay", "/v1/pay/transfer"} {
				page := read(t, send(t, w.server(t), "GET", target+"?lang="+l.Tag, "", "Accept", browser))
				require.Equal(t, demo, strings.Contains(page, l.Text("pay.demo")), "%s %s", target, address)
			}
		}
	}
}

// A row of the page has its rail's name as its id, which the links to it end in.
func TestPayPageIDsAreReserved(t *testing.T) {
	w := newWorld(t)
	page, others := read(t, send(t, w.server(t), "GET", "/v1/pay", "", "Accept", browser)), 0
	for _, id := range regexp.MustCompile(`\sid="([^"]*)"`).FindAllStringSubmatch(page, -1) {
		require.Equal(t, 1, strings.Count(page, id[0]), id[1])
		if _, offered := w.offer.Rail(id[1]); !offered {
			require.Error(t, offer.CheckRailName(id[1]), id[1])
			others++
		}
	}
	require.GreaterOrEqual(t, others, 3)
}

// both is an account that banks on both sides of an ocean know.
var both = offer.Bank{
	AccountHolderName: "Example Org Limited", IBAN: "DE75512108001245126199", BIC: "SOGEDEFFXXX", AmountEUR: 39_00,
	RoutingNumber: "021000021", AccountNumber: "00123456789",
}

// publishing makes the world's offer publish an account.
func (w *world) publishing(t *testing.T, bank offer.Bank) *world {
	t.Helper()
	require.NoError(t, w.offer.BankTransfer().Publish(bank))
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

// A page never has an amount above an account of another currency: banks credit what the payer types.
func TestBankAccountsAreSeparateLists(t *testing.T) {
	s := newWorld(t).publishing(t, both).server(t)
	for _, l := range text.Languages {
		page := html.UnescapeString(read(t, send(t, s, "GET", "/v1/pay/transfer?lang="+l.Tag, "", "Accept", browser)))
		lists := regexp.MustCompile(`(?s)<h3 id="transfer\.\w+">([^<]*)</h3>\s*<dl class="facts"[^>]*>(.*?)</dl>`).FindAllStringSubmatch(page, -1)
		require.Len(t, lists, 2, l.Tag)
		var copied [2][]string
		for i, key := range []string{"transfer.sepa", "transfer.us"} {
			require.Equal(t, l.Text(key), lists[i][1])
			for _, found := range regexp.MustCompile(`data-copy="([^"]*)"`).FindAllStringSubmatch(lists[i][2], -1) {
				copied[i] = append(copied[i], found[1])
			}
		}
		require.Equal(t, [2][]string{
			{"39.00", "Example Org Limited", "DE75512108001245126199", "SOGEDEFFXXX", "Example 42"},
			{"42.00", "Example Org Limited", "021000021", "00123456789", "Example 42"},
		}, copied, l.Tag)
	}
}

// One account needs no heading, and has the price in the currency of the offer unless there is one in euros.
func TestSingleBankAccountHasNoHeading(t *testing.T) {
	for name, c := range map[string]struct {
		bank    offer.Bank
		copied  []string
		scanned bool
	}{
		"an IBAN":           {offer.Bank{AccountHolderName: "A", IBAN: both.IBAN}, []string{"42.00", "A", both.IBAN, "Example 42"}, true},
		"the United States": {offer.Bank{AccountHolderName: "A", RoutingNumber: both.RoutingNumber, AccountNumber: "1234"}, []string{"42.00", "A", both.RoutingNumber, "1234", "Example 42"}, false},
		"no account":        {offer.Bank{}, []string{"42.00", "Example Org", "bank@example.org", "Example 42"}, false},
	} {
		w := newWorld(t)
		if c.bank.AccountHolderName != "" {
			w.publishing(t, c.bank)
		}
		page := read(t, send(t, w.server(t), "GET", "/v1/pay/transfer", "", "Accept", browser))
		require.NotContains(t, page, "<h3>", name)
		var copied []string
		for _, found := range regexp.MustCompile(`data-copy="([^"]*)"`).FindAllStringSubmatch(page, -1) {
			copied = append(copied, found[1])
		}
		require.Equal(t, c.copied, copied, name)
		_, rows := waysOf(read(t, send(t, w.server(t), "GET", "/v1/pay", "", "Accept", browser)))
		for _, shown := range []string{page, rows["transfer"]} {
			require.Equal(t, c.scanned, strings.Contains(shown, "/v1/qr/transfer/"), "%s: a mail is not scanned", name)
		}
	}
}

// The tags are the other methods that the operator listed, in the order of how well they are
// known: the best known one is the name of the row.
func TestCardRowShowsListedMethods(t *testing.T) {
	for methods, want := range map[string][]string{
		"":                                     nil,
		"card":                                 nil,
		"link card sepa_debit":                 {"Link", "Sepa debit"},
		"us_bank_account klarna <b>x</b> card": {"Klarna", "US-Bankkonto", "&lt;b&gt;x&lt;/b&gt;"},
	} {
		w := newWorld(t)
		*w.offer.Card = *must(offer.NewCard("https://buy.stripe.com/1", strings.Fields(methods), w.offer.Amount))(t)
		_, rows := waysOf(read(t, send(t, w.server(t), "GET", "/v1/pay?lang=de", "", "Accept", browser)))
		var tags []string
		for _, found := range regexp.MustCompile(`<li class="tag">(.*?)</li>`).FindAllStringSubmatch(rows["card"], -1) {
			tags = append(tags, found[1])
		}
		require.Equal(t, want, tags, methods)
		require.Equal(t, want != nil, strings.Contains(rows["card"], `<ul class="tags" aria-label="Akzeptiert auch">`), methods)
		require.Contains(t, rows["card"], "<h3>Karte", methods)
	}
}

func TestBankAccountIsPublishedEverywhere(t *testing.T) {
	s := newWorld(t).publishing(t, both).server(t)
	want := map[string]any{
		"accountHolderName": "Example Org Limited", "iban": "DE75512108001245126199", "bic": "SOGEDEFFXXX", "amountEur": 39.0,
		"routingNumber": "021000021", "accountNumber": "00123456789",
		"epc": "BCD\n002\n1\nSCT\nSOGEDEFFXXX\nExample Org Limited\nDE75512108001245126199\nEUR39.00\n\n\nExample 42",
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
				"Example Org Limited": "Example Org Limited", "DE75512108001245126199": "DE75 5121 0800 1245 1261 99", "SOGEDEFFXXX": "SOGEDEFFXXX", "39.00": "39 EUR", "Example 42": "Example 42",
			} {
				require.Contains(t, shown, `data-copy="`+copied+`"><span>`+value+`</span>`, l.Tag)
			}
			for _, more := range []string{"021000021", "00123456789", "42.00"} { // a row leaves them to the page
				require.Equal(t, shown == page, strings.Contains(shown, `data-copy="`+more+`"><span>`), l.Tag)
			}
			require.Equal(t, want["epc"], scanned(t, shown))
			require.Contains(t, shown, `href="`+uris+`">`+l.Text("rail.transfer.act")+"<")
		}
		require.Contains(t, page, l.Text("transfer.scan"))
		require.Contains(t, page, `alt="`+l.Text("pay.qr", "name", offer.Phrase{Key: "rail.transfer.name"})+`"`)
		require.NotContains(t, page, l.Text("transfer.answer"), "nobody need wait for an answer")
	}
}

// enum is the values that the API description lists for a member of a schema.
func enum(t *testing.T, schema, member string) (values []string) {
	t.Helper()
	at := readJSON(t, send(t, newWorld(t).server(t), "GET", "/openapi.json", ""))
	for _, name := range []string{"components", "schemas", schema, "properties", member} {
		at = at[name].(map[string]any)
	}
	for _, value := range at["enum"].([]any) {
		if value, isString := value.(string); isString { // else null
			values = append(values, value)
		}
	}
	require.NotEmpty(t, values)
	return values
}

func TestSchemaValuesHaveTranslations(t *testing.T) {
	for _, c := range []struct{ schema, member, before, after string }{
		{"RailReport", "lastError", "received.error.", ""}, {"RailReport", "state", "received.observed.", ""},
		{"Receipt", "evidence", "received.proof.", ""}, {"Receipt", "status", "received.status.", ""},
		{"Arrival", "state", "thanks.", ".title"}, {"Arrival", "state", "thanks.", ".how"},
	} {
		for _, l := range text.Languages {
			for _, value := range enum(t, c.schema, c.member) {
				key := c.before + value + c.after
				require.NotEqual(t, key, l.Text(key), l.Tag)
			}
		}
	}
	require.Equal(t, enum(t, "Receipt", "status"), enum(t, "Transition", "to"))
	require.Len(t, text.Languages[0].Group("received.error"), len(enum(t, "RailReport", "lastError")), "a text whose code is not published")
}
