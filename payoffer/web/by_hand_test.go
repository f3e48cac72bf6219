package web

import (
	"html"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/text"
)

// rows are the rows of the pay page in a language, without entities.
func (w *world) rows(t *testing.T, l *text.Language) map[string]string {
	t.Helper()
	_, rows := waysOf(html.UnescapeString(read(t, send(t, w.server(t), "GET", "/v1/pay?lang="+l.Tag, "", "Accept", browser))))
	return rows
}

// Whoever copies only the address must see the network: coins that are sent on another one may be lost.
func TestUSDCByHandShowsNetwork(t *testing.T) {
	for _, networks := range []string{"", "eip155:1 "} { // also if no wallet in the browser can pay
		w := newWorld(t)
		w.live.Networks = networks
		for _, l := range text.Languages {
			row := w.rows(t, l)["usdc"]
			shown, hidden, found := strings.Cut(row, `<details class="more">`)
			require.True(t, found)
			require.Contains(t, shown, "<dt>"+l.Text("fact.network")+"</dt><dd><span>Base</span>")
			require.Contains(t, shown, l.Text("rail.usdc.only", "network", "Base"))
			require.Contains(t, hidden, "<dt>"+l.Text("fact.chain")+"</dt><dd><span>8453</span>")
			require.Contains(t, hidden, "<dt>"+l.Text("fact.token")+"</dt>")
		}
	}
}

// No page shows the receipt of a payment that was sent from elsewhere.
func TestPaymentByHandSaysWhereReceiptComesFrom(t *testing.T) {
	w := newWorld(t)
	w.offer.Contact = "pay@example.org"
	for _, l := range text.Languages {
		for name, row := range w.rows(t, l) {
			rail := payoffertest.Rail(t, w.offer, name)
			m := rail.Methods(w.offer, w.live)[0]
			sent := m.Symbol != "" && m.InvoiceURL == ""
			require.Equal(t, sent, strings.Contains(row, l.Text("pay.next", "time", rail.Face().Hint)), "%s %s", l.Tag, name)
			require.False(t, sent && !rail.Face().Asks, "the page would wait for nothing")
			if sent { // the payer compares before sending
				require.Regexp(t, `</dl>(\s|<p class="small only">.*</p>)*<p class="actions">.*</p>\s<p class="quiet small waiting" hidden>.*</p>\s<p class="quiet small">`+l.Say(rail.Face().Fee)+" "+l.Say(rail.Face().Note), row)
			}
			require.Equal(t, sent, strings.Contains(row, l.Text("pay.sent")+` <a href="mailto:pay@example.org">`), "%s %s", l.Tag, name)
		}
	}
}

// Without a published account the payer first writes to the seller, and has nothing to copy into a form yet.
func TestBankTransferWithoutAccountBeginsWithButton(t *testing.T) {
	w := newWorld(t)
	for _, l := range text.Languages {
		page := html.UnescapeString(read(t, send(t, w.server(t), "GET", "/v1/pay/transfer?lang="+l.Tag, "", "Accept", browser)))
		row := w.rows(t, l)["transfer"]
		for _, shown := range []string{row, page} {
			require.Contains(t, shown, "<li>"+l.Text("transfer.write")+"</li>")
			require.Contains(t, shown, l.Text("transfer.counts"))
			require.Contains(t, shown, `<a class="button" href="mailto:`)
		}
		require.Less(t, strings.Index(row, l.Text("fact.amount")+": <span>42"), strings.Index(row, "<ol>"), "the steps name this amount")
		require.NotContains(t, row, "data-copy=")
		require.Less(t, strings.Index(page, `<a class="button" href="mailto:`), strings.Index(page, "data-copy="))
	}
}

// A payer in the United States finds the account there from the row, which shows only the first one.
func TestBankRowLinksToAccountInUnitedStates(t *testing.T) {
	iban, us := both, both
	iban.RoutingNumber, iban.AccountNumber, us.IBAN, us.BIC, us.AmountEUR = "", "", "", "", 0
	for _, c := range []struct {
		bank  offer.Bank
		links bool
	}{{both, true}, {iban, false}, {us, false}} {
		w := newWorld(t).publishing(t, c.bank)
		for _, l := range text.Languages {
			row := w.rows(t, l)["transfer"]
			require.Equal(t, c.links, strings.Contains(row, `<a href="/v1/pay/transfer?lang=`+l.Tag+`#transfer.us">`+l.Text("transfer.fromUS")), "%v", c.bank)
			require.Contains(t, row, l.Text("transfer.counts"))
			page := read(t, send(t, w.server(t), "GET", "/v1/pay/transfer", "", "Accept", browser))
			require.Equal(t, c.links, strings.Contains(page, `<h3 id="transfer.us">`), "%v", c.bank)
		}
	}
}

func TestUnavailableRailOffersToTryAgain(t *testing.T) {
	w := newWorld(t)
	w.live = offer.Live{}
	for _, l := range text.Languages {
		row := w.rows(t, l)["btc"]
		require.Contains(t, row, l.Text("pay.unavailable", "name", "Bitcoin", "reason", l.Text("rail.btc.noRate")))
		require.Contains(t, row, `<a class="button plain" href="/v1/pay?lang=`+l.Tag+`">`+l.Text("error.again")+"</a>", "a link with a fragment would not load the page again")
	}
}

// A page writes an amount as its language does, and copies it as wallets read it.
func TestPayPageAmountsInLanguage(t *testing.T) {
	w := newWorld(t)
	w.live.Satoshis = 45_678
	for tag, shown := range map[string]string{"en": "0.00045678", "de": "0,00045678", "fr": "0,00045678", "es": "0,00045678"} {
		l, _ := text.Choose(tag, nil)
		rows := w.rows(t, l)
		require.Contains(t, rows["btc"], `data-copy="0.00045678"><span>`+shown+" BTC</span>")
		for _, rail := range []string{"btc", "lightning"} { // what the amount in bitcoin is worth
			require.Contains(t, rows[rail], `<p class="small">`+l.Text("pay.rate", "amount", offer.USD(42_00))+"</p>")
		}
		require.NotContains(t, rows["usdc"], l.Text("pay.rate", "amount", offer.USD(42_00)))
	}
}

// Two shops may be on one host. Without labels only the names of their rails differ.
func TestPayPageTellsShopsApart(t *testing.T) {
	rows := newWorld(t).rows(t, text.Languages[0])
	require.Contains(t, rows["tip-jar"], "<h3>shop.example</h3>\n<small>Tip jar</small>")
	require.Contains(t, rows["pack"], "<h3>shop.example</h3>\n<small>Pack</small>")
}

// A demo says once that nothing is charged.
func TestDemoPageHasOneNote(t *testing.T) {
	w := newWorld(t)
	w.offer = payoffertest.Offer(t, terms(), "base-sepolia")
	w.offer.Demo = true
	row := w.rows(t, text.Languages[0])["usdc"]
	require.NotContains(t, row, text.Languages[0].Text("pay.test"))
	require.Contains(t, row, `USDC on Base Sepolia <span class="tag">Test</span>`)
}
