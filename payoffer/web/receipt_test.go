package web

import (
	"bytes"
	"cmp"
	"errors"
	"html"
	"log/slog"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/report"
	"github.com/payoffer/caddy-pay-offer/payoffer/text"
)

const (
	payer = "0x1111111111111111111111111111111111111111"
	tx    = "0xabcdef0000000000000000000000000000000000000000000000000000000001"
)

var nonce = "0x" + strings.Repeat("ab", 32)

// row is a confirmed payment on a rail of the world's offer.
func (w *world) payment(t testing.TB, rail string, change func(*ledger.Receipt)) ledger.Receipt {
	t.Helper()
	r, found := w.offer.Rail(rail)
	require.True(t, found)
	row := ledger.Receipt{
		ID: 7, Offer: w.offer.ID, Account: w.offer.AccountOf(r), Rail: rail, ExternalID: rail + "-1", Asset: "USD", Amount: 42_00, USDCents: cents(42_00),
		ValueBasis: ledger.BasisFace, State: ledger.StatusConfirmed, Status: ledger.StatusConfirmed, EvidenceLevel: ledger.LevelSigned, OccurredAt: at.Unix(), ObservedAt: at.Unix(),
	}
	switch rail {
	case "usdc":
		row.Asset, row.Amount, row.EvidenceLevel, row.Transaction, row.Payer = "USDC", 42_000_000, ledger.LevelChain, tx, payer
	case "btc":
		row.Asset, row.Amount, row.EvidenceLevel, row.Transaction, row.ValueBasis = "BTC", 45_678, ledger.LevelChain, tx[2:], ledger.BasisQuote
	}
	if change != nil {
		change(&row)
	}
	w.receipts = []ledger.Receipt{row}
	w.accounts = []ledger.Account{{Offer: w.offer.ID, ID: "stripe/former", Rail: "card"}, {Offer: w.offer.ID, ID: row.Account, Rail: rail}}
	return row
}

// intent is a payment by x402 without a row.
func (w *world) intent(t testing.TB, state ledger.IntentState, evidence string) string {
	t.Helper()
	usdc := w.offer.USDC()[0]
	w.receipts, w.accounts = nil, []ledger.Account{{Offer: w.offer.ID, ID: usdc.Account(), Rail: "usdc"}}
	w.intents = []ledger.Intent{{
		IntentKey: ledger.IntentKey{Network: usdc.Network.CAIP2(), Asset: usdc.Network.USDC, From: payer, Nonce: nonce}.Canonical(), Offer: w.offer.ID, Account: usdc.Account(),
		Rail: "usdc", Amount: 42_000_000, USDCents: cents(42_00), Testnet: usdc.Test(),
		Progress: ledger.Progress{State: state, Evidence: evidence, Transaction: tx, CreatedAt: at.Unix()},
	}}
	return intentID(qrKey, w.offer.ID, usdc.Account(), payer, nonce)
}

func receiptPath(id string) string { return offer.PathReceipt + "/" + id }

// Every rail and every state, in every language.
func TestReceiptPageContent(t *testing.T) {
	for name, c := range map[string]struct {
		rail   string
		change func(*ledger.Receipt)
		intent ledger.IntentState // in place of a row
		claim  string
		test   bool
		unread bool // nobody reads the chain: rpc off

		state, status, paid, worth, back, kept string
		railName                               string // a text's key, or a name
		link                                   string
		signed                                 bool
	}{
		"card":            {rail: "card", state: "confirmed", status: "confirmed", paid: "$42"},
		"card authorised": {rail: "card", change: func(r *ledger.Receipt) { r.Status = ledger.StatusSeen }, state: "seen", status: "seen", paid: "$42"},
		"card in yen": {rail: "card", change: func(r *ledger.Receipt) { r.Asset, r.Amount, r.ValueBasis = "JPY", 6_500, ledger.BasisStated },
			state: "confirmed", status: "confirmed", paid: "6500 JPY", worth: "$42"},
		"refunded in part": {rail: "card", change: func(r *ledger.Receipt) { r.Refunded, r.RefundedCents = 10_00, 10_00 },
			state: "part", status: "confirmed", paid: "$42", back: "$10", kept: "$32"},
		"card in test mode": {rail: "card", change: func(r *ledger.Receipt) { r.Testnet = true }, test: true, state: "confirmed", status: "confirmed", paid: "$42"},
		"card failed":       {rail: "card", change: func(r *ledger.Receipt) { r.Status = ledger.StatusDropped }, state: "dropped", status: "dropped", paid: "$42"},
		"refunded": {rail: "card", change: func(r *ledger.Receipt) { r.Status, r.Refunded, r.RefundedCents = ledger.StatusRefunded, 42_00, 42_00 },
			state: "refunded", status: "refunded", paid: "$42", back: "$42"},
		"reversed": {rail: "card", change: func(r *ledger.Receipt) { r.Status = ledger.StatusReversed }, state: "reversed", status: "reversed", paid: "$42"},
		"an entry that the seller voided": {rail: "transfer", change: func(r *ledger.Receipt) { r.Status, r.EvidenceLevel = ledger.StatusReversed, ledger.LevelManual },
			state: "voided", status: "reversed", paid: "$42"},
		"usdc by transfer": {rail: "usdc", change: func(r *ledger.Receipt) { r.Final = true }, state: "confirmed", status: "confirmed", paid: "42 USDC", worth: "$42",
			link: "https://basescan.org/tx/" + tx, signed: true},
		"usdc, less than the price": {rail: "usdc", change: func(r *ledger.Receipt) { r.Amount, r.USDCents = 10_000, cents(1) }, state: "confirmed", status: "confirmed", paid: "0.01 USDC", worth: "$0.01",
			link: "https://basescan.org/tx/" + tx},
		"usdc refunded": {rail: "usdc", change: func(r *ledger.Receipt) {
			r.Status, r.Refunded, r.RefundedCents = ledger.StatusRefunded, 42_000_000, 42_00
		}, state: "refunded", status: "refunded", paid: "42 USDC", worth: "$42", back: "42 USDC",
			link: "https://basescan.org/tx/" + tx},
		"usdc by transfer, seen": {rail: "usdc", change: func(r *ledger.Receipt) { r.Status = ledger.StatusSeen }, state: "seen", status: "seen", paid: "42 USDC", worth: "$42",
			link: "https://basescan.org/tx/" + tx},
		"usdc by x402, seen": {rail: "usdc", change: func(r *ledger.Receipt) { r.Status, r.Nonce, r.IntentID = ledger.StatusSeen, nonce, cents(1) }, state: "seen", status: "seen", paid: "42 USDC", worth: "$42",
			link: "https://basescan.org/tx/" + tx, signed: true},
		"usdc by x402": {rail: "usdc", change: func(r *ledger.Receipt) { r.Nonce = nonce }, state: "confirmed", status: "confirmed", paid: "42 USDC", worth: "$42",
			link: "https://basescan.org/tx/" + tx, signed: true},
		"usdc by x402, claimed": {intent: ledger.IntentSettled, claim: ledger.EvidenceFacilitator, state: "claimed", status: "claimed", paid: "42 USDC", worth: "$42",
			link: "https://basescan.org/tx/" + tx, signed: true},
		"usdc by x402, claimed and nothing else": {intent: ledger.IntentSettled, claim: ledger.EvidenceFacilitator, unread: true, state: "claimedOnly", status: "claimed", paid: "42 USDC", worth: "$42",
			link: "https://basescan.org/tx/" + tx, signed: true},
		"usdc by x402, open":    {intent: ledger.IntentSettling, state: "settling", status: "settling", paid: "42 USDC", worth: "$42"},
		"usdc by x402, refused": {intent: ledger.IntentRefused, state: "dropped", status: "dropped", paid: "42 USDC", worth: "$42"},
		"test network": {rail: "usdc", test: true, change: func(r *ledger.Receipt) { r.Testnet = true }, state: "confirmed", status: "confirmed", paid: "42 USDC", worth: "$42",
			link: "https://sepolia.basescan.org/tx/" + tx, signed: true},
		"dropped": {rail: "usdc", change: func(r *ledger.Receipt) { r.Status = ledger.StatusDropped }, state: "dropped", status: "dropped", paid: "42 USDC", worth: "$42",
			link: "https://basescan.org/tx/" + tx},
		"moved": {rail: "usdc", change: func(r *ledger.Receipt) { r.Status = ledger.StatusMoved }, state: "moved", status: "moved", paid: "42 USDC", worth: "$42",
			link: "https://basescan.org/tx/" + tx},
		"bitcoin": {rail: "btc", state: "confirmed", status: "confirmed", paid: "0.00045678 BTC", worth: "$42", link: "https://mempool.space/tx/" + tx[2:]},
		"bitcoin of unknown value": {rail: "btc", change: func(r *ledger.Receipt) { r.USDCents, r.ValueBasis = nil, "" }, state: "confirmed", status: "confirmed", paid: "0.00045678 BTC",
			link: "https://mempool.space/tx/" + tx[2:]},
		"bank transfer": {rail: "transfer", change: func(r *ledger.Receipt) { r.EvidenceLevel = ledger.LevelManual }, state: "confirmed", status: "confirmed", paid: "$42"},
		"storefront":    {rail: "tip-jar", change: func(r *ledger.Receipt) { r.EvidenceLevel = ledger.LevelProvider }, state: "confirmed", status: "confirmed", paid: "$42", railName: "shop.example"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			said := terms()
			said.Thanks, said.Refunds, said.Legal = "Thank you so much.", "Refunds within 14 days.", []string{"Example Org Ltd", "VAT EU 123"}
			network := "base"
			if c.test {
				network = "base-sepolia"
			}
			w.offer = payoffertest.Offer(t, said, network)
			if c.unread {
				*w.healthOf("usdc") = observe.Health{Rail: "usdc", Source: "facilitator", Blind: true}
			}
			var id string
			number := ""
			if c.rail == "" {
				id = w.intent(t, c.intent, c.claim)
			} else {
				row := w.payment(t, c.rail, c.change)
				id, number = receiptID(qrKey, row), row.ExternalID
			}
			s := w.server(t)
			says := "receipt.say." + c.state
			if c.state == "dropped" && c.rail != "card" {
				says = "receipt.say.droppedChain"
			}

			res := send(t, s, "GET", receiptPath(id), "")
			require.Equal(t, 200, res.StatusCode)
			body := readJSON(t, res)
			require.Equal(t, baseURL+receiptPath(id), body["url"])
			require.Equal(t, c.status, body["status"])
			require.Equal(t, text.Languages[0].Text(says, "amount", c.back), body["description"])
			require.Equal(t, []any{"Example Org Ltd", "VAT EU 123"}, body["legal"])
			require.Equal(t, "Example Org", body["operator"])
			if number == "" {
				require.NotContains(t, body, "id")
			} else {
				require.Equal(t, number, body["id"])
			}
			if c.link == "" {
				require.NotContains(t, body, "transactionUrl")
			} else {
				require.Equal(t, c.link, body["transactionUrl"])
			}

			file := send(t, s, "GET", receiptPath(id)+"/receipt.jws", "")
			if c.signed {
				signed := body["signedReceipt"].(map[string]any)
				require.Equal(t, "jws", signed["format"])
				require.Contains(t, signed["signature"], "."+payer)
				require.Equal(t, name == "usdc by transfer", strings.HasSuffix(signed["signature"].(string), tx), "a transaction is signed once it is final")
				require.Equal(t, baseURL+receiptPath(id)+"/receipt.jws", body["signedReceiptUrl"])
				require.Equal(t, "application/jose", file.Header.Get("Content-Type"))
				require.Equal(t, `attachment; filename="receipt.jws"`, file.Header.Get("Content-Disposition"))
				require.Equal(t, signed["signature"], strings.TrimSpace(read(t, file)))
			} else {
				require.NotContains(t, body, "signedReceipt")
				require.NotContains(t, body, "signedReceiptUrl")
				require.Equal(t, 404, file.StatusCode)
			}

			for _, l := range text.Languages {
				res := send(t, s, "GET", receiptPath(id)+"?lang="+l.Tag, "", "Accept", browser)
				require.Equal(t, 200, res.StatusCode)
				require.Equal(t, l.Tag, res.Header.Get("Content-Language"))
				page := html.UnescapeString(read(t, res))
				shown := func(amount string) string {
					if dollars, found := strings.CutPrefix(amount, "$"); found {
						return l.Text("fact.price", "amount", l.Number(dollars))
					}
					number, unit, _ := strings.Cut(amount, " ")
					return strings.TrimSpace(l.Number(number) + " " + unit)
				}
				railName := c.railName
				if rail, found := w.offer.Rail(c.rail); found {
					railName = html.EscapeString(l.Say(rail.Face().Way))
				}
				for _, want := range []string{
					">" + l.Text("receipt.state."+c.state) + "<", l.Text(says, "amount", shown(c.back)), ">" + shown(c.paid) + "<", ">" + railName + "<", l.Moment(at), `datetime="2026-11-21T13:14:15Z"`,
					"<strong>Example Org</strong>", "<span>VAT EU 123</span>", `<meta name="robots" content="noindex">`,
				} {
					require.Contains(t, page, want, l.Tag)
				}
				has := func(want string, shown bool) {
					if shown {
						require.Contains(t, page, want, l.Tag)
					} else {
						require.NotContains(t, page, want, l.Tag)
					}
				}
				void := slices.Contains([]string{"refunded", "reversed", "voided", "dropped", "moved"}, c.state)
				returned := c.back != "" || slices.Contains([]string{"reversed", "voided"}, c.state)
				has(`<th scope="row">`+l.Text("fact.amount"), true)
				has(`<span class="quiet small">`+l.Text("receipt.worth")+" "+shown(c.worth), c.worth != "" && (!void || returned))
				has(`<p class="price">`+shown(c.paid)+"</p>", !void)
				has(`<p class="price quiet">`+shown(c.paid)+"</p>", void)
				has(`<p class="stamp paid"`, c.state == "confirmed")
				has(`<tr class="total"><th scope="row">`+l.Text("receipt.left"), returned)
				open := slices.Contains([]string{"settling", "claimed", "seen"}, c.state)
				has(l.Text("gate.write"), returned || open || c.state == "dropped")
				back, label := c.back, "receipt.refunded"
				if whole := []string{"refunded", "reversed", "voided"}; slices.Contains(whole, c.state) {
					back, label = c.paid, "receipt.state."+c.state
				}
				has(`<th scope="row">`+l.Text(label)+"</th><td>−"+shown(back)+"</td>", back != "")
				has("<dt>"+l.Text("receipt.description")+"</dt><dd>Example Offer<div", true)
				has(`data-copy="`+baseURL+receiptPath(id)+`">`+l.Text("receipt.copyLink")+"</button>", true)
				has("<figcaption>"+l.Text("receipt.scan"), true)
				has("<br>"+l.Text("receipt.reference")+": "+number+"</figcaption>", number != "")
				total := cmp.Or(c.kept, c.paid)
				has(`<p class="stamp quiet" role="status">`, void || returned) // else it would look pending
				if void {
					has("<s>"+shown(c.paid)+"</s>", back == "")
					total = regexp.MustCompile(`[0-9.]+`).ReplaceAllString(c.paid, "0")
				}
				has("</th><td>"+shown(total)+"</td></tr>\n</table>", true)
				has("<dt>"+l.Text("receipt.reference")+`</dt><dd class="hash">`+number+"</dd>", number != "")
				has("<dt>"+l.Text("receipt.sent")+"</dt>", number == "")
				has(`href="`+c.link+`" rel="noopener noreferrer"`, c.link != "")
				has("receipt.jws", c.signed)
				has(l.Text("thanks.test"), c.test)
				require.NotRegexp(t, "(?i)test network|testnetz|réseau de test|red de pruebas", page, "a card has no network, and the other rails are named by theirs")
				require.NotContains(t, page, "Klarna", "nobody knows that it was that")
				received := c.state == "confirmed" || c.state == "part" // nobody is thanked for what went back
				has("<h1>"+l.Text("receipt.title")+"</h1>", received)
				has("<h1>"+l.Text("receipt.titleMoved")+"</h1>", c.state == "moved")
				has("<h1>"+l.Text("receipt.titleOpen")+"</h1>", !received && c.state != "moved")
				has("Thank you so much.", received)
				has("Refunds within 14 days.", received)
				has(l.Text("receipt.confirms"), received)
				has(`<button class="button plain" type="button" id="print" hidden>`+l.Text("receipt.print")+"</button>", true)
				has(`<a href="https://www.example.org/">`+l.Text("layout.back", "name", "Example Org")+"</a>", true)
				has(`id="live" data-arrive>`, open)
				has(l.Text("receipt.again"), open)
				has(`<li aria-current="step"><span>`+l.Text("steps.confirming")+"<", c.state == "seen")
				has(`<li aria-current="step"><span>`+l.Text("steps.seeing")+"<", open && c.state != "seen")
				has(l.Text("steps.usual", "time", l.Text("rail.usdc.time")), open && c.rail != "card")
				has(">"+l.Text("steps.confirmed")+"<", open && c.state != "seen") // a later step, not the current one
				has(l.Moment(at)+" (", open)                                      // and how long ago that was
				if c.worth != "" && (!void || returned) {
					require.Contains(t, page, shown(c.worth))
				}
				if c.back != "" {
					require.Contains(t, page, shown(c.back))
				}
				require.NotContains(t, page, "ZgotmplZ")
				require.NotContains(t, page, `rel="canonical"`)
			}
		})
	}
}

// Who rebuilds a settled payload of the calldata of its transaction is told the
// address of its page, so nothing may stand there that is known to its payer alone.
func TestReceiptContainsOnlyPublicData(t *testing.T) {
	members := func(v any) (names []string) {
		for _, field := range reflect.VisibleFields(reflect.TypeOf(v)) {
			if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "" {
				names = append(names, name)
			}
		}
		return names
	}
	published := append(members(report.Receipt{}), "offer", "name", "operator", "legal") // the report, and the terms of the offer
	private := slices.DeleteFunc(members(payment{}), func(name string) bool { return slices.Contains(published, name) })
	require.ElementsMatch(t, []string{
		"url", "description", "transactionUrl", "signedReceipt", "signedReceiptUrl", // which follow from the others
		"payer", "authorization", // which a chain shows, and no other rail has
	}, private)
}

func TestUnreadableReceiptIs503(t *testing.T) {
	w := newWorld(t)
	id := receiptID(qrKey, w.payment(t, "usdc", nil))
	log := new(bytes.Buffer)
	c := w.config()
	c.Logger = slog.New(slog.NewTextHandler(log, nil))
	s := must(New(c))(t)
	w.key = nil
	res := send(t, s, "GET", receiptPath(id), "")
	require.Equal(t, 503, res.StatusCode)
	require.NotEmpty(t, res.Header.Get("Retry-After"))
	require.Equal(t, "urn:pay-offer:problem:not-started", readJSON(t, res)["type"])

	w.key, w.err = qrKey, errors.New("the database is away")
	res = send(t, s, "GET", receiptPath(id), "")
	require.Equal(t, 503, res.StatusCode)
	require.NotEmpty(t, res.Header.Get("Retry-After"))
	require.Equal(t, "urn:pay-offer:problem:ledger-unavailable", readJSON(t, res)["type"])
	require.Contains(t, log.String(), "receipts cannot be read")
	require.NotContains(t, log.String(), id[:8])
}

// A rail's name may be given to another chain, and a rail be removed.
func TestReceiptOfRemovedRail(t *testing.T) {
	w := newWorld(t)
	row := w.payment(t, "usdc", nil)
	id, page := receiptID(qrKey, row), ""
	load := func() {
		page = read(t, send(t, w.server(t), "GET", receiptPath(id), "", "Accept", browser))
	}
	w.offer = payoffertest.Offer(t, terms(), "polygon")
	load()
	require.Contains(t, page, "USDC on Base<")
	require.Contains(t, page, `href="https://basescan.org/tx/`+tx)
	card := must(offer.NewCard(checkout, nil, 42_00))(t)
	bitcoin := w.payment(t, "btc", nil)
	w.offer = must(offer.New(terms(), card))(t)
	id = receiptID(qrKey, bitcoin)
	load()
	require.Contains(t, page, ">Bitcoin<")
	require.Contains(t, page, `href="https://mempool.space/tx/`)
	w.receipts[0].Account, w.receipts[0].Rail = "gumroad/p1", "pack"
	w.accounts[1].ID = "gumroad/p1"
	id = receiptID(qrKey, w.receipts[0])
	load()
	require.Contains(t, page, "<dd>pack</dd>")
}

func TestReceiptExplorerLink(t *testing.T) {
	w := newWorld(t)
	id := receiptID(qrKey, w.payment(t, "usdc", func(r *ledger.Receipt) { r.Transaction = "../../evil?a=\"><script>" }))
	w.offer.USDC()[0].Explorer = "https://explorer.example/?tx="
	page := read(t, send(t, w.server(t), "GET", receiptPath(id), "", "Accept", browser))
	require.Contains(t, page, `href="https://explorer.example/?tx=..%2F..%2Fevil%3Fa=%22%3E%3Cscript%3E"`)
	require.NotContains(t, page, "evil?a=\"><script>")
	w.offer.USDC()[0].Explorer = ""
	require.NotContains(t, readJSON(t, send(t, w.server(t), "GET", receiptPath(id), "")), "transactionUrl")
}

func TestReceiptEscapesHostileText(t *testing.T) {
	const evil = `</script></style></title><script>alert(1)</script><img src=x onerror=alert(2)>"'` + "`{{.}}"
	w := newWorld(t)
	bad := terms()
	bad.Name, bad.Operator, bad.Description, bad.Thanks, bad.Refunds, bad.Legal = evil, evil, evil, evil, evil, []string{evil}
	w.offer = payoffertest.Offer(t, bad, "base")
	id := receiptID(qrKey, w.payment(t, "usdc", func(r *ledger.Receipt) {
		r.ExternalID, r.Transaction, r.Payer, r.Rail, r.Asset = evil, evil, evil, evil, evil
	}))
	s := w.server(t)
	for _, l := range text.Languages {
		res := send(t, s, "GET", receiptPath(id)+"?lang="+l.Tag, "", "Accept", browser)
		page := read(t, res)
		require.NotContains(t, page, "<script>alert")
		require.NotContains(t, page, "<img src=x")
		require.Equal(t, strings.Count(page, "<script"), strings.Count(page, "</script>"))
		require.GreaterOrEqual(t, strings.Count(page, "&lt;img src=x"), 8)
		require.Len(t, regexp.MustCompile(`(?s)<script>.*?</script>`).FindAllString(page, -1), 2, "it runs nothing but what prints it and copies its link")
		require.Regexp(t, `; script-src( 'sha256-[^' ]*'){2}; connect-src`, res.Header.Get("Content-Security-Policy"))
		require.Less(t, len(page), 40<<10)
		require.Empty(t, regexp.MustCompile(` (?:style|on[a-z]+)="`).FindString(page))
	}
}
