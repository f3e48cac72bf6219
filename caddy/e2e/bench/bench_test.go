// Package bench compares the built binary with a bare Caddy handler that writes the same bytes, with the reference seller
// @x402/express, and with a bare server of the MCP library, in one run on loopback. Only ratios within a run mean something,
// because absolute numbers depend on the machine. Run it with make -f xcaddy.mk bench.
package bench

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/prices"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

var (
	rows   = flag.String("rows", "", "the rows to measure, separated by commas; empty is all of them")
	rounds = flag.Int("rounds", 9, "how often those that are compared take turns")
)

// row is a part of the table that can be asked for by its name.
type row struct {
	name    string
	measure func(*testing.B, *table)
}

var all = []row{
	{"documents", measureDocuments},
	{"gate", measureGate},
	{"mcp", measureToolsCall},
	{"paid", measurePaid},
	{"offers", measureOffers},
}

// BenchmarkRatios measures the rows once, whatever b.N is, and prints their table.
func BenchmarkRatios(b *testing.B) {
	wanted := strings.FieldsFunc(*rows, func(r rune) bool { return r == ',' })
	for _, name := range wanted {
		require.True(b, slices.ContainsFunc(all, func(r row) bool { return r.name == name }), "there is no row %q", name)
	}
	var t table
	for _, r := range all {
		if len(wanted) > 0 && !slices.Contains(wanted, r.name) {
			continue
		}
		b.Run(r.name, func(b *testing.B) { r.measure(b, &t) })
	}
	fmt.Fprintf(os.Stdout, "\n%s", t.text())
}

// spread is what the rounds gave.
type spread struct{ median, least, most float64 }

// spreadOf is that of at least one number.
func spreadOf(numbers []float64) spread {
	sorted := slices.Sorted(slices.Values(numbers))
	middle := sorted[len(sorted)/2]
	if len(sorted)%2 == 0 {
		middle = (sorted[len(sorted)/2-1] + middle) / 2
	}
	return spread{middle, sorted[0], sorted[len(sorted)-1]}
}

// ratio compares two sides round by round.
func ratio(over, under []float64) spread {
	ratios := make([]float64, len(over))
	for i := range over {
		ratios[i] = over[i] / under[i]
	}
	return spreadOf(ratios)
}

// microseconds are what ours and another side took of them.
func microseconds(ours, other []float64) string {
	return fmt.Sprintf("%s and %s µs", number(spreadOf(ours).median), number(spreadOf(other).median))
}

func (s spread) String() string {
	return fmt.Sprintf("%s (%s … %s)", number(s.median), number(s.least), number(s.most))
}

// number has three digits that mean something.
func number(n float64) string {
	switch {
	case n >= 100:
		return fmt.Sprintf("%.0f", n)
	case n >= 10:
		return fmt.Sprintf("%.1f", n)
	}
	return fmt.Sprintf("%.2f", n)
}

// line is a figure of the table.
type line struct {
	// figure says what is measured, goal what is wanted of it, and beside what it was in absolute numbers.
	figure, value, goal, beside string
}

// table is what a run has found.
type table struct{ lines []line }

func (t *table) add(figure string, value any, goal, beside string) {
	t.lines = append(t.lines, line{figure, fmt.Sprint(value), goal, beside})
}

// text is the table as a terminal shows it.
func (t *table) text() string {
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "figure\tmedian (least … most)\tgoal\tabsolute")
	for _, l := range t.lines {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", l.figure, l.value, l.goal, l.beside)
	}
	_ = w.Flush() // into memory
	return out.String()
}

// site is an offer with every kind of rail, none of which is read.
const site = `pay_offer {
		base_url http://{HOST}
		contact pay@example.org
		rate_limit 10000 1s
		card https://checkout.example/pay
		usdc base-sepolia 0x52908400098527886E0F7030069857D2E4169EE7 {
			facilitator {FACILITATOR}
			rpc off
		}
		bitcoin tb1qw508d6qejxtdg4y5r3zarvary0c5xw7kxpjzsx {
			rates mempool
			esplora off
		}
		bank_transfer transfer pay@example.org
		storefront tip-jar https://shop.example/tip
	}`

// noFacilitator is an address at which nobody answers.
const noFacilitator = "http://127.0.0.1:9"

// startOffer runs the plugin as it is released.
func startOffer(t testing.TB, name, ledger, facilitator string, lanes int, env ...string) *side {
	t.Helper()
	return startCaddy(t, server.Released(t), name, "pay_offer {\n\t\tledger "+ledger+"\n\t}",
		strings.ReplaceAll(site, "{FACILITATOR}", facilitator), lanes, env...)
}

// fixed are requests whose answers are made before they come.
type fixed struct {
	figure, goal string
	request
}

// get is a GET of a path by a program.
func get(path string) request { return request{method: http.MethodGet, path: path} }

var documents = []fixed{
	{"agent card", "≥ 0.85", get(offer.PathAgentCard)},
	{"OpenAPI", "≥ 0.85", get(offer.PathOpenAPI)},
	{"llms.txt", "≥ 0.85", get(offer.PathLLMs)},
	{"page for people", "≥ 0.85", request{method: http.MethodGet, path: offer.PathMethods, header: http.Header{"Accept": {"text/html"}}}},
	{".uri", "≥ 0.85", get(offer.URIPath("usdc"))},
	{"402 of a POST to /v1/sponsor", "≥ 0.85", request{method: http.MethodPost, path: offer.PathSponsor}},
	{"402 of /v1/quote", "≥ 0.85", get(offer.PathQuote)},
	{"QR image", "≥ 0.85", request{}},
	{"/v1/received", "≥ 0.8", get(offer.PathReceived)},
}

// clients is how many ask at once where answers are fixed.
const clients = 2

// measureDocuments compares what is rendered before it is asked for with handlers that write the same bytes.
func measureDocuments(b *testing.B, t *table) {
	ours := startOffer(b, "pay_offer", "sqlite {DIR}/ledger.db", noFacilitator, clients, prices.Start(b)...)
	wanted := documents
	var image *url.URL
	require.Eventually(b, func() bool {
		redirect := ours.ask(b, get(offer.PNGPath("card")))
		var err error
		image, err = url.Parse(redirect.Header.Get("Location"))
		return err == nil && redirect.Status == http.StatusFound
	}, time.Minute, 20*time.Millisecond, "the key of the QR codes is there")
	answers := map[string]answer{}
	for i := range wanted {
		d := &wanted[i]
		if d.figure == "QR image" {
			d.request = get(image.Path)
		}
		a := ours.ask(b, d.request)
		require.NotEmpty(b, a.Body, "%s: %d", d.figure, a.Status)
		answers[d.method+" "+d.path] = a.copied()
	}
	bare := startBare(b, answers, clients)
	for _, d := range wanted {
		want := answers[d.method+" "+d.path]
		requireSame(b, want, bare.ask(b, d.request))
		spent := costs(b, d.request, want.Status, ours, bare)
		beside := fmt.Sprintf("%s, %d bytes", microseconds(spent[0], spent[1]), len(want.Body))
		t.add(d.figure+": bare Caddy handler ÷ ours", ratio(spent[1], spent[0]), d.goal, beside)
	}
}

// measureGate compares handlers behind a gate, for a browser with a valid pass, with the same handlers without a gate.
func measureGate(b *testing.B, t *table) {
	folder, text := b.TempDir(), strings.Repeat("0123456789abcde ", 128) // 2 KB
	require.NoError(b, os.WriteFile(filepath.Join(folder, "file"), []byte(text), 0o600))
	handlers := "\n\trespond /text `" + text + "`\n\thandle /file {\n\t\troot * " + folder + "\n\t\tfile_server\n\t}"
	f := startFacilitator(b, 0)
	const ledger = "pay_offer {\n\t\tledger sqlite {DIR}/ledger.db\n\t}"
	config := strings.ReplaceAll(site, "{FACILITATOR}", f.url)
	gated := startCaddy(b, server.Released(b), "behind a gate", ledger, config+"\n\tpay_offer_gate"+handlers, clients, prices.Start(b)...)
	open := startCaddy(b, server.Released(b), "without a gate", ledger, config+handlers, clients, prices.Start(b)...)
	for figure, r := range map[string]request{"file of 2 KB": get("/file"), "respond with 2 KB": get("/text")} {
		r.header = http.Header{"Cookie": {enter(b, gated, r)}}
		require.Equal(b, http.StatusOK, gated.ask(b, r).Status)
		require.Equal(b, http.StatusOK, open.ask(b, r).Status)
		spent := costs(b, r, http.StatusOK, gated, open)
		t.add("valid pass, "+figure+": without ÷ behind a gate", ratio(spent[1], spent[0]), "≥ 0.9", microseconds(spent[0], spent[1]))
	}
}

// enter pays at the gate and returns the cookie.
func enter(b *testing.B, gated *side, r request) (cookie string) {
	b.Helper()
	status, err := gated.lanes[0].exchange(demanded(b, gated, r).signed(b, chain.NewKey(b), gated.host), func(response *http.Response) error {
		cookie, _, _ = strings.Cut(response.Header.Get("Set-Cookie"), ";")
		return nil
	})
	require.NoError(b, requirePaid(status, err))
	require.NotEmpty(b, cookie)
	return cookie
}

// toolCall is what an agent sends that has not paid.
var toolCall = request{
	method: http.MethodPost, path: offer.PathMCP, body: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"first_42_sponsor"}}`,
	header: http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}},
}

// measureToolsCall compares a call without payment with a handler that writes the same bytes, and with the official library.
func measureToolsCall(b *testing.B, t *table) {
	ours := startOffer(b, "pay_offer", "sqlite {DIR}/ledger.db", noFacilitator, clients)
	want := ours.ask(b, toolCall)
	require.Equal(b, http.StatusOK, want.Status, "%s", want.Body)
	bare := startBare(b, map[string]answer{"POST " + offer.PathMCP: want.copied()}, clients)
	requireSame(b, want.copied(), bare.ask(b, toolCall))
	var message struct{ Result json.RawMessage }
	require.NoError(b, json.Unmarshal(want.Body, &message))
	library := startLibrary(b, message.Result)
	var other struct{ Result json.RawMessage }
	require.NoError(b, json.Unmarshal(library.ask(b, toolCall).Body, &other))
	require.JSONEq(b, string(message.Result), string(other.Result))

	spent := costs(b, toolCall, http.StatusOK, ours, bare, library)
	t.add("tools/call without payment: bare Caddy handler ÷ ours", ratio(spent[1], spent[0]), "", microseconds(spent[0], spent[1]))
	t.add("tools/call without payment: bare MCP library ÷ ours", ratio(spent[2], spent[0]), "≥ 0.8", microseconds(spent[0], spent[2]))
}

var libraryServer = lab.Program{Name: "mcp-sdk", Folder: "caddy/e2e", Package: "./bench/sdk"}

// startLibrary runs a bare server of the official library whose tool has a result.
func startLibrary(t testing.TB, result []byte) *side {
	t.Helper()
	binary, output, err := libraryServer.Path(t)
	require.NoError(t, err, "%s", output)
	file := filepath.Join(t.TempDir(), "result.json")
	require.NoError(t, os.WriteFile(file, result, 0o600))
	command := exec.Command(binary, file)
	in := lab.Must(command.StdinPipe())(t)
	out := lab.Must(command.StdoutPipe())(t)
	require.NoError(t, command.Start())
	t.Cleanup(func() {
		_ = in.Close()
		require.NoError(t, command.Wait())
	})
	host := lab.Must(bufio.NewReader(out).ReadString('\n'))(t)
	return newSide(t, "MCP library", strings.TrimSpace(host), command.Process.Pid, clients)
}
