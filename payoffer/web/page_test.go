package web

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/page"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/report"
	"github.com/payoffer/caddy-pay-offer/payoffer/text"
)

// pageTargets are the pages for people.
var pageTargets = []string{"/v1/pay", "/v1/invoice", "/v1/pay/transfer", "/v1/received", "/v1/thanks", "/v1/sponsor", "/v1/pay/nothing"}

func TestReceivedPageShowsUnmonitoredRails(t *testing.T) {
	w := newWorld(t)
	page := func() string { return read(t, send(t, w.server(t), "GET", "/v1/received", "", "Accept", browser)) }
	w.healthOf("usdc").Blind = true
	w.totals = []ledger.Total{confirmed("card", ledger.LevelSigned, 10_00)}
	require.Contains(t, page(), `<p class="price" role="status">$10 <small>1 payment</small></p>`)
	var names []string
	for _, rail := range w.offer.Rails {
		if rail.Name() == "usdc" || rail.Source() == offer.SourceSeller {
			names = append(names, text.Languages[0].Say(rail.Face().Name))
		}
	}
	require.Contains(t, page(), `<p class="quiet small">Not monitored automatically: `+strings.Join(names, ", ")+`. Only confirmed`)
	require.Regexp(t, `<th scope="row" class="name">USDC on Base</th><td>–</td><td>not monitored automatically`, page())
	require.Regexp(t, `<th scope="row" class="name">Bitcoin</th><td>0</td><td>monitored, just now</td>`, page())
	require.Regexp(t, `<th scope="row" class="name">Bank transfer</th><td>0</td><td>entered by the seller</td>`, page())
	for _, word := range []string{"at most", "at least", "partial", "unknown"} {
		require.NotContains(t, strings.ToLower(page()), word)
	}

	w.healthOf("usdc").LastError = observe.ErrUnreachable
	require.Contains(t, page(), "Not monitored automatically: Bank transfer.")
	require.Regexp(t, `<th scope="row" class="name">USDC on Base</th><td>–</td><td>monitoring interrupted: its source does not answer`, page())

	w.healthOf("usdc").Blind, w.healthOf("usdc").LastError = false, ""
	require.Contains(t, page(), "Not monitored automatically: Bank transfer.")
	for i := range w.health {
		w.health[i].Source = "webhook"
	}
	require.NotContains(t, strings.ToLower(page()), "not monitored")
}

func TestReceivedPageSeparatesTestPayments(t *testing.T) {
	w := newWorld(t)
	page := func() string { return read(t, send(t, w.server(t), "GET", "/v1/received", "", "Accept", browser)) }
	test := with(confirmed("card", ledger.LevelSigned, 84_00), func(t *ledger.Total) { t.Count, t.Testnet = 2, true })
	w.totals = []ledger.Total{test}
	require.Contains(t, page(), "<small>2 test payments, $84 (not counted)</small>")
	w.totals = append(w.totals, confirmed("card", ledger.LevelSigned, 42_00))
	require.Contains(t, page(), "<small>1 payment</small>")
	require.Contains(t, page(), `<p class="quiet">2 test payments, $84 (not counted)</p>`)
	require.Equal(t, map[string]any{"count": 2.0, "amountUsd": 84.0, "amountUsdDecimal": "84.00"}, readJSON(t, send(t, w.server(t), "GET", "/v1/received", ""))["test"])
}

// What does not count stands below, so that nobody is told that there is nothing.
func TestReceivedPageWithOnlyUncountedPayment(t *testing.T) {
	w := newWorld(t)
	w.receipts = []ledger.Receipt{{ID: 1, ExternalID: "pi_1", Rail: "card", Asset: "USD", Amount: 42_00, Status: ledger.StatusConfirmed, EvidenceLevel: ledger.LevelSigned, Testnet: true}}
	for _, blind := range []bool{false, true} {
		w.healthOf("usdc").Blind = blind
		for _, l := range text.Languages {
			page := read(t, send(t, w.server(t), "GET", "/v1/received?lang="+l.Tag, "", "Accept", browser))
			require.Contains(t, page, "<small>"+l.Text("received.noneCounts")+"</small>")
			require.Contains(t, page, "pi_1")
		}
	}
}

// An offer that sells again and again has no goal to speak of, unless it has one.
func TestReceivedPageGoalOnlyIfSet(t *testing.T) {
	w := newWorld(t)
	w.totals = []ledger.Total{with(confirmed("card", ledger.LevelSigned, 210_00), func(t *ledger.Total) { t.Count = 5 })}
	page := func() string {
		return strings.SplitN(read(t, send(t, w.server(t), "GET", "/v1/received", "", "Accept", browser)), "<h1", 2)[1]
	}
	none := page()
	require.Contains(t, none, ">$210 <small>5 payments</small>")
	for _, word := range []string{"goal", "of $", "<progress"} {
		require.NotContains(t, strings.SplitN(none, "<details", 2)[0], word)
	}
	require.Equal(t, 42.0, readJSON(t, send(t, w.server(t), "GET", "/v1/received", ""))["goalUsd"], "the price")

	goal := terms()
	goal.Goal = 1_000_00
	w.offer = payoffertest.Offer(t, goal, "base")
	require.Contains(t, page(), ">$210 <small>of $1,000 · 5 payments</small>")
	require.Contains(t, page(), `<progress max="100" value="21"`)
	report := readJSON(t, send(t, w.server(t), "GET", "/v1/received", ""))
	require.Equal(t, []any{1000.0, "1000.00", 790.0, false}, []any{report["goalUsd"], report["goalUsdDecimal"], report["remainingUsd"], report["goalMet"]})
	w.totals[0].USDCents = 1_000_00
	require.Contains(t, page(), "<small>of $1,000, goal reached · 5 payments</small>")
}

func TestReceivedPageOtherCurrencies(t *testing.T) {
	w := newWorld(t)
	w.totals = []ledger.Total{
		confirmed("card", ledger.LevelSigned, 42_00),
		with(confirmed("card", ledger.LevelSigned, 0), func(t *ledger.Total) { t.Currency, t.Amount, t.UnknownUSD = "JPY", 6_500, 1 }),
	}
	w.totals[0].Refunded, w.totals[0].RefundedCents = 10_00, 10_00
	w.receipts = []ledger.Receipt{{ID: 1, ExternalID: "pi_1", Rail: "card", Asset: "JPY", Amount: 6_500, Status: ledger.StatusConfirmed, EvidenceLevel: ledger.LevelSigned}}
	page := read(t, send(t, w.server(t), "GET", "/v1/received", "", "Accept", browser))
	require.Contains(t, page, `<td>6,500 JPY</td>`)
	require.Contains(t, page, "card, a signed message: pi_1")
	require.Contains(t, page, `<td>2 <span class="quiet">($32)</span><span class="apart quiet">1 of unknown value</span>`)
	require.Contains(t, page, `in JPY: 1 (6,500 JPY, value unknown)`)
	require.Contains(t, page, "refunded or disputed: $10 in part")

	for asset, want := range map[string]string{"EUR": "39.00 EUR", "KWD": "3.9 KWD", "JPY": "3,900 JPY", "ISK": "39.00 ISK"} {
		w.totals[1].Currency, w.totals[1].Amount, w.receipts[0].Asset, w.receipts[0].Amount = asset, 2*3900, asset, 3900
		page := read(t, send(t, w.server(t), "GET", "/v1/received", "", "Accept", browser))
		require.Contains(t, page, `<td>`+want+`</td>`)
		w.totals[1].Amount = 3900
		require.Contains(t, read(t, send(t, w.server(t), "GET", "/v1/received", "", "Accept", browser)), "in "+asset+": 1 ("+want+", value unknown)")
		require.NotContains(t, page, "smallest unit")
	}
}

// Receipts stand in the order in which they were recorded. Each is led by when its
// money moved, which may be another order, and the evidence says both.
func TestReceivedPageDates(t *testing.T) {
	w := newWorld(t)
	w.receipts = []ledger.Receipt{{
		ID: 2, ExternalID: "INV-1", Rail: "transfer", Asset: "USD", Amount: 42_00, Status: ledger.StatusConfirmed, EvidenceLevel: ledger.LevelManual, USDCents: cents(42_00), RefundedCents: 10_00,
		Refunded: 10_00, ValueBasis: ledger.BasisStated, OccurredAt: at.Unix() - 7*86_400, ObservedAt: at.Unix(),
	}, {ID: 1, ExternalID: "0x:0", Rail: "usdc", Status: ledger.StatusMoved, EvidenceLevel: ledger.LevelChain, OccurredAt: at.Unix() - 86_400, ObservedAt: at.Unix() - 60}}
	s := w.server(t)
	page := read(t, send(t, s, "GET", "/v1/received", "", "Accept", browser))
	require.Contains(t, page, `<td>Bank transfer<time class="apart quiet" datetime="2026-11-14T13:14:15Z" title="14 November 2026, 13:14 UTC">7 days ago</time><span class="tag">$10 paid back</span></td>`)
	require.Contains(t, page, `14 November 2026, 13:14 UTC, recorded on 21 November 2026, 13:14 UTC, transfer, entered by the seller, value as the seller states it: INV-1`)
	require.Contains(t, page, ">Latest payments</caption>")
	require.NotRegexp(t, "<t[dh].*refunded", page, "the part may be disputed")
	require.Equal(t, 1, strings.Count(page, `<tr id="payment-`), "an own transfer is not a payment")

	rows := readJSON(t, send(t, s, "GET", "/v1/received", ""))["receipts"].([]any)
	first, second := rows[0].(map[string]any), rows[1].(map[string]any)
	require.Equal(t, []any{"2026-11-21T13:14:15Z", "2026-11-14T13:14:15Z", "stated", 10.0, "10.00", true},
		[]any{first["recordedAt"], first["occurredAt"], first["valueBasis"], first["refundedUsd"], first["refundedUsdDecimal"], first["counted"]})
	require.Equal(t, false, second["counted"])
	require.Nil(t, second["refundedUsd"])
	require.NotContains(t, second, "valueBasis")
}

// The operator wrote the day; where it began is no matter of the payer's.
func TestManualEntryDateIsShownUnchanged(t *testing.T) {
	w := newWorld(t)
	row := w.payment(t, "transfer", func(r *ledger.Receipt) {
		r.ExternalID, r.EvidenceLevel, r.Evidence = "INV-1", ledger.LevelManual, json.RawMessage(`{"day":"2026-11-20","enteredAt":"2026-11-21T13:14:15Z"}`)
		r.OccurredAt = time.Date(2026, 11, 19, 23, 0, 0, 0, time.UTC).Unix()
	})
	s := w.server(t)
	for _, l := range text.Languages {
		day := l.Date(time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC))
		receipt := read(t, send(t, s, "GET", receiptPath(receiptID(qrKey, row))+"?lang="+l.Tag, "", "Accept", browser))
		require.Contains(t, receipt, `<time datetime="2026-11-20">`+day+`</time>`)
		require.NotContains(t, receipt, "23:00")
		received := read(t, send(t, s, "GET", "/v1/received?lang="+l.Tag, "", "Accept", browser))
		require.Contains(t, received, `datetime="2026-11-20" title="`+day+`">`+day+`</time>`)
		require.Contains(t, received, ">"+day+", "+l.Text("received.recorded", "at", l.Moment(at))+",")
		require.Contains(t, received, l.Say(payoffertest.Rail(t, w.offer, "transfer").Face().Name)+", "+day)
		require.NotContains(t, received, "23:00")
	}
	for _, told := range []map[string]any{
		readJSON(t, send(t, s, "GET", receiptPath(receiptID(qrKey, row)), "")),
		readJSON(t, send(t, s, "GET", "/v1/received", ""))["receipts"].([]any)[0].(map[string]any),
	} {
		require.Equal(t, []any{"2026-11-20", "2026-11-19T23:00:00Z"}, []any{told["day"], told["occurredAt"]})
	}
}

func TestReceivedPageExplainsUncountedPayments(t *testing.T) {
	w := newWorld(t)
	sum := func(status ledger.Status, level ledger.EvidenceLevel, cents int64) ledger.Total {
		return with(confirmed("card", level, cents), func(t *ledger.Total) { t.Status = status })
	}
	w.totals = []ledger.Total{
		sum(ledger.StatusConfirmed, ledger.LevelSigned, 1_00), sum(ledger.StatusSeen, ledger.LevelSigned, 2_00),
		sum(ledger.StatusClaimed, "", 4_00), sum(ledger.StatusSettling, "", 5_00), sum(ledger.StatusReversed, ledger.LevelSigned, 6_00),
	}
	w.healthOf("card").LastError, w.healthOf("card").At = observe.ErrLimited, at.Unix()-7_300
	page := read(t, send(t, w.server(t), "GET", "/v1/received", "", "Accept", browser))
	require.Contains(t, page, ">$1 <small>1 payment</small></p>")
	for _, want := range []string{
		"pending: 1 <span class=\"quiet\">($2)",
		"reported, not verified: 1 <span class=\"quiet\">($4)", "outcome unknown: 1 <span class=\"quiet\">($5)",
		"disputed or voided: 1 <span class=\"quiet\">($6)", "monitored: the provider asks for fewer calls, 2 hours ago",
	} {
		require.Contains(t, page, want)
	}
	require.NotContains(t, page, "refunded or disputed: ")
}

func TestReceiptStatusText(t *testing.T) {
	say := formatter{text.Languages[0], nil}
	receipt := func(status, level, asset, refunded string, own, testnet bool) (r report.Receipt) {
		r.Status, r.Evidence, r.Asset, r.RefundedAtomic, r.Own, r.Testnet = status, level, asset, refunded, own, testnet
		return r
	}
	for want, r := range map[string]report.Receipt{
		"confirmed":                       receipt("confirmed", "chain", "", "0", false, false),
		"by the seller":                   receipt("confirmed", "chain", "", "0", true, false),
		"650 JPY paid back":               receipt("confirmed", "signed", "JPY", "650", false, false),
		"0.5 USDC paid back":              receipt("confirmed", "chain", "USDC", "500000", false, false),
		"$1 paid back":                    receipt("confirmed", "signed", "USD", "100", false, false),
		"pending":                         receipt("seen", "chain", "", "0", false, false),
		"failed":                          receipt("dropped", "chain", "", "0", false, false),
		"refunded":                        receipt("refunded", "signed", "", "1", false, false),
		"reversed":                        receipt("reversed", "signed", "", "0", false, false),
		"voided":                          receipt("reversed", "manual", "", "0", false, false),
		"confirmed (test, no real money)": receipt("confirmed", "chain", "", "0", false, true),
	} {
		require.Equal(t, want, say.state(r))
	}
	for seconds, want := range map[int64]string{0: "just now", 9: "just now", 10: "10 seconds ago", 119: "119 seconds ago", 120: "2 minutes ago", 7_199: "119 minutes ago", 7_200: "2 hours ago", 172_800: "2 days ago"} {
		require.Equal(t, want, say.ago(seconds))
	}
}

func TestReceivedPagePaging(t *testing.T) {
	w := newWorld(t)
	for id := int64(25); id > 0; id-- {
		w.receipts = append(w.receipts, ledger.Receipt{ID: id, ExternalID: "r"})
	}
	s := w.server(t)
	page := func(target string) string { return read(t, send(t, s, "GET", target, "", "Accept", browser)) }
	first := page("/v1/received")
	require.Contains(t, first, `href="https://pay.example.org/v1/received?before=6&amp;limit=20"`)
	require.Contains(t, first, ">Latest payments</caption>")
	require.NotContains(t, first, ">Latest payments</a>")
	last := page("/v1/received?before=6&limit=20")
	require.Contains(t, last, `<a href="/v1/received">Latest payments</a>`)
	require.Contains(t, last, ">Older payments</caption>")
	require.NotContains(t, last, ">Older payments</a>")
	require.Contains(t, page("/v1/received?before=1"), "No older payment")
}

func TestCardOnlyOfferPages(t *testing.T) {
	w := newWorld(t)
	bare := terms()
	bare.Operator, bare.Contact, bare.Description = "", "", ""
	w.offer = must(offer.New(bare, w.offer.Card))(t)
	w.accepts = nil
	s := w.server(t)
	page := read(t, send(t, s, "GET", "/v1/pay", "", "Accept", browser))
	require.Equal(t, 1, strings.Count(page, `<details class="way"`))
	require.NotContains(t, page, "mailto:")
	require.False(t, serves(t, s, "/v1/pay/transfer"))
	require.False(t, serves(t, s, "/v1/pay/btc.uri"))
	require.False(t, serves(t, s, "/.well-known/x402"))
}

// Before a payment the foot of the page names the seller by its legal lines; a receipt has them among its own.
func TestLegalLinesAtFootOfPages(t *testing.T) {
	w := newWorld(t)
	o := terms()
	o.Legal = []string{"Example Org Ltd", "1 Harbour Street"}
	w.offer = payoffertest.Offer(t, o, "base")
	s := w.server(t)
	for path, shown := range map[string]bool{"/v1/pay": true, "/v1/pay/transfer": true, "/v1/pay/none.uri": true, "/v1/thanks": false} {
		_, foot, _ := strings.Cut(read(t, send(t, s, "GET", path, "", "Accept", browser)), "<footer>")
		require.Equal(t, shown, strings.Contains(foot, "<p>Example Org Ltd · 1 Harbour Street</p>"), path)
	}
	require.NotContains(t, read(t, send(t, newWorld(t).server(t), "GET", "/v1/pay", "", "Accept", browser)), "</nav>\n<p>", "no empty line")
}

// The default description says only what the price says.
func TestDefaultDescriptionIsNotUnderPrice(t *testing.T) {
	w := newWorld(t)
	require.Contains(t, read(t, send(t, w.server(t), "GET", "/v1/pay", "", "Accept", browser)), `<p class="lead" lang="">One fixed payment.</p>`)
	o := terms()
	o.Description = offer.DefaultDescription(o.Amount)
	w.offer = payoffertest.Offer(t, o, "base")
	for _, l := range text.Languages {
		page := read(t, send(t, w.server(t), "GET", "/v1/pay?lang="+l.Tag, "", "Accept", browser))
		require.NotContains(t, page, `class="lead"`)
		require.Contains(t, page, `<meta name="description" content="`+l.Text("default.description", "amount", o.Amount), "other sites have no price beside it")
	}
}

// A shape is what a page is: its elements with their attributes, in order, each
// with its depth; and apart from them its texts.
type shape struct {
	elements []string
	texts    string
}

// inert are the attributes whose value does nothing, beside those for our scripts.
var inert = []string{"d", "viewBox", "content", "title", "alt", "aria-label", "value", "datetime"}

// schemes are those of our links.
var schemes = []string{"", "https", "mailto", "ethereum", "bitcoin"}

// shapeOf is the shape of a page, of which nothing runs but what its policy names.
// Of an attribute that does something the value is part of the shape; of a link, where
// it leads.
func shapeOf(t *testing.T, w *httptest.ResponseRecorder) (s shape) {
	t.Helper()
	document := must(html.Parse(strings.NewReader(w.Body.String())))(t)
	policy := w.Header().Get("Content-Security-Policy")
	require.Contains(t, policy, "default-src 'none'; ")
	require.NotContains(t, policy, "unsafe")
	require.Contains(t, policy, "; frame-ancestors 'none'")
	inlined := 0
	var texts strings.Builder
	for n := range document.Descendants() {
		depth := strings.Repeat(" ", len(slices.Collect(n.Ancestors())))
		switch n.Type {
		case html.ElementNode:
			s.elements = append(s.elements, depth+n.Data+attributes(t, n, &texts))
			if n.Data == "script" || n.Data == "style" {
				if n.FirstChild == nil { // a file of ours
					require.Equal(t, page.WalletPath, attribute(n, "src"))
					require.Contains(t, policy, " 'self'; connect-src 'self'")
					continue
				}
				if attribute(n, "type") == "" {
					inlined++
				}
				inline(t, n, policy, &texts)
			}
		case html.TextNode:
			if parent := n.Parent.Data; parent != "script" && parent != "style" {
				texts.WriteString(n.Data + "\n")
			}
		default:
			s.elements = append(s.elements, depth+"<!"+n.Data)
		}
	}
	require.Equal(t, inlined, strings.Count(policy, "'sha256-"), "the policy allows nothing else")
	s.texts = texts.String()
	return s
}

// attributes are those of an element as its shape has them.
func attributes(t *testing.T, n *html.Node, texts *strings.Builder) (all string) {
	t.Helper()
	for _, a := range n.Attr {
		require.False(t, strings.HasPrefix(a.Key, "on") || a.Key == "style" || a.Key == "srcdoc" || a.Key == "http-equiv", a.Key)
		switch {
		case a.Key == "href" || a.Key == "src":
			u, err := url.Parse(a.Val)
			require.NoError(t, err, a.Val)
			require.Contains(t, schemes, u.Scheme, a.Val)
			require.True(t, a.Key == "href" || u.Scheme == "" && u.Host == "", "a page loads from its own host alone: %s", a.Val)
			all += " " + a.Key + "=" + u.Scheme + "://" + u.Host
		case slices.Contains(inert, a.Key) || strings.HasPrefix(a.Key, "data-"):
			texts.WriteString(a.Val + "\n")
			all += " " + a.Key
		default:
			all += " " + a.Key + "=" + a.Val
		}
	}
	return all
}

// inline holds a script or a style to the policy. A script of a JSON type is data,
// which nobody runs.
func inline(t *testing.T, n *html.Node, policy string, texts *strings.Builder) {
	t.Helper()
	source := n.FirstChild.Data
	for _, a := range n.Attr {
		if a.Key == "type" && strings.HasSuffix(a.Val, "json") {
			require.True(t, json.Valid([]byte(source)), source)
			require.NotContains(t, source, "<")
			if a.Val == "application/ld+json" { // beside it, the catalogue's own
				texts.WriteString(source + "\n")
			}
			return
		}
	}
	sum := sha256.Sum256([]byte(source))
	require.Contains(t, policy, "'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'")
}
