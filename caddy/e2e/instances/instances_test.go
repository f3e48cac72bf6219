// Package instances tests several servers of one offer on one PostgreSQL database and one storage, behind nginx: whoever
// asks cannot tell which of them answers.
package instances

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/mpp"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/cases"
)

// timely is all of an answer that follows from when it was made, in the first group of each pattern: how far each instance has
// read what it observes by itself, when it asked for the price of Bitcoin, and a challenge, of which no two are alike.
var timely = []*regexp.Regexp{
	regexp.MustCompile(`"observedAt": ?"([^"]*)"`),
	regexp.MustCompile(`"lagSeconds": ?(\d+)`),
	regexp.MustCompile(`"observedThrough": ?"([^"]*)"`),
	regexp.MustCompile(`validUntil\\?": ?\\?"([^"\\]*)`), // also within a text of JSON
	regexp.MustCompile(`data-until="([^"]*)"`),
	regexp.MustCompile(`Read at ([^<]*)\. Programs`),
	regexp.MustCompile(`checked up to ([^,<]*)`),
	regexp.MustCompile(`(just now|\d+ (?:seconds?|minutes?|hours?|days?) ago)`),
	regexp.MustCompile(`(\d\d:\d\d) UTC`),
	regexp.MustCompile(`\bid(?:=|":)"([\w-]{43})"`),
	regexp.MustCompile(`\b(?:expires|opaque)(?:=|":)"([^"]*)"`),
	regexp.MustCompile(`token\\?": ?\\?"([A-Z2-7]{26})`),
}

// masks are masked texts. Most are the same in several answers.
var masks sync.Map

// masked is a text without what is about time.
func masked(text string) string {
	if known, ok := masks.Load(text); ok {
		return known.(string)
	}
	body := text
	for _, pattern := range timely {
		body = pattern.ReplaceAllStringFunc(body, func(found string) string {
			at := pattern.FindStringSubmatchIndex(found)
			return found[:at[2]] + "#" + found[at[3]:]
		})
	}
	masks.Store(text, body)
	return body
}

func aboutTime(a server.Answer) bool { return masked(a.Body) != a.Body }

// timeless is an answer without what is about time, and without the headers that nginx writes in its own name. The length
// and the validator of a body that is about time are, too, also where they alone are asked for.
func timeless(a server.Answer, aboutTime bool) server.Answer {
	header := a.Header.Clone()
	for n, challenge := range header["Www-Authenticate"] {
		header["Www-Authenticate"][n] = masked(challenge)
	}
	if quote := header.Get("PAYMENT-REQUIRED"); quote != "" {
		header.Set("PAYMENT-REQUIRED", quote[:len(quote)-44]) // without its token
	}
	for _, name := range []string{"Date", "Server", "Connection"} {
		header.Del(name)
	}
	if aboutTime {
		header.Del("ETag")
		header.Del("Content-Length")
	}
	return server.Answer{Status: a.Status, Header: header, Body: masked(a.Body)}
}

func TestInstancesAnswerAlike(t *testing.T) {
	s := openShop(t, 2)
	first, second := s.instances[0], s.instances[1]
	paid, bought := s.payment(), []request{delivery("1"), notice("sale-1")}
	require.Equal(t, http.StatusOK, s.do(first.url, paid).Status)
	for n, r := range bought {
		require.Equal(t, http.StatusOK, s.do(s.instances[n].url, r).Status)
	}
	out, err := s.run("", "record", "--address", second.admin, "--rail", "transfer", "--reference", "INV-1", "--amount", "42")
	require.NoError(t, err, out)
	server.Eventually(t, "the payment is read from the chain", func() bool { return server.Confirmed(first.url, "usdc") == 1 })

	all := s.requests(append(bought, paid)...)
	require.Greater(t, len(all), 400, "the description names fewer paths than are known")
	compared, timelyPaths := 0, make(map[string]bool)
	compare := func(r request) server.Answer {
		a := s.do(first.url, r)
		timelyPaths[r.path] = timelyPaths[r.path] || aboutTime(a)
		for _, origin := range []string{second.url, s.base, s.base} { // nginx asks them in turn
			got := s.do(origin, r)
			assert.Equal(t, timeless(a, timelyPaths[r.path]), timeless(got, timelyPaths[r.path]), r)
		}
		require.Less(t, a.Status, 500, "%s: %s", r, a.Body)
		compared++
		return a
	}
	for _, r := range all {
		a := compare(r)
		if tag := a.Header.Get("ETag"); tag != "" && r.header != nil && a.Status == http.StatusOK && !aboutTime(a) {
			r.header = r.header.Clone()
			r.header.Set("If-None-Match", tag)
			require.Equal(t, http.StatusNotModified, compare(r).Status, r)
		}
	}
	t.Logf("%d requests were answered alike by both instances", compared)
}

// Receipts, offers, QR addresses and challenges, also after a rotation.
func TestInstancesAcceptEachOthersSignatures(t *testing.T) {
	s := openShop(t, 2)
	receipt := s.do(s.instances[0].url, s.payment())
	require.Equal(t, http.StatusOK, receipt.Status, receipt.Body)
	signed := []string{receipt.Header.Get("PAYMENT-RESPONSE")}
	require.NotEmpty(t, signed[0])
	var paid struct{ ReceiptURL string }
	require.NoError(t, json.Unmarshal([]byte(receipt.Body), &paid))
	page := strings.TrimPrefix(paid.ReceiptURL, s.base)
	require.Regexp(t, "^/v1/receipt/", page)
	genuine := func() {
		t.Helper()
		for _, i := range s.instances {
			signed = append(signed, s.do(i.url, request{path: "/v1/quote"}).Body, s.do(i.url, request{path: page}).Body, s.do(i.url, request{path: page + "/receipt.jws"}).Body)
		}
		for range cases.EndToEnd(1, 3, 3) { // nginx asks the instances in turn
			for _, text := range signed {
				out, err := s.run(text, "verify", "-")
				require.NoError(t, err, out)
				require.Contains(t, out, "VALID")
			}
		}
	}
	genuine()
	keys := func(i *instance) int {
		return strings.Count(s.do(i.url, request{path: "/.well-known/did.json"}).Body, `"publicKeyJwk"`)
	}
	out, err := s.run("", "rotate-key", "--address", s.instances[1].admin)
	require.NoError(t, err, out)
	require.Equal(t, 2, keys(s.instances[1]))

	// One that starts now has the new key at once; the others look for it every minute.
	third := s.open("instance 3", payoffertest.FreePort(t))
	require.Equal(t, 2, keys(third))
	require.Equal(t, s.do(s.instances[1].url, request{path: "/.well-known/did.json"}).Body, s.do(third.url, request{path: "/.well-known/did.json"}).Body)
	genuine()
	for _, r := range s.requests() {
		if strings.HasPrefix(r.path, "/v1/qr/") && !strings.Contains(r.path, "forged") && r.method == "" {
			require.Equal(t, http.StatusOK, s.do(third.url, r).Status, r)
		}
	}

	challenge := mpp.Challenged(t, s.do(s.instances[0].url, request{method: http.MethodPost, path: "/v1/sponsor"}).Header, s.chain.Network)
	require.NotNil(t, challenge)
	answering := s.answering(challenge)
	for _, i := range []*instance{third, s.instances[1]} {
		receipt := s.do(i.url, answering)
		require.Equal(t, http.StatusOK, receipt.Status, receipt.Body)
		require.NotEmpty(t, receipt.Header.Get("Payment-Receipt"))
	}
	server.Eventually(t, "one payment for each of the two", func() bool { return len(s.chain.TransfersTo(t, s.payee)) == 2 })
}

func TestInstanceNeedsSharedStorage(t *testing.T) {
	s := openShop(t, 1)
	config := strings.Replace(s.config(payoffertest.FreePort(t), t.TempDir()), "{ADMIN}", payoffertest.FreePort(t), 1)
	log := server.Refused(t, config, s.env...)
	require.Contains(t, log, "this ledger was used with other signing keys of did:web:"+strings.Replace(strings.TrimPrefix(s.base, "http://"), ":", "%3A", 1)+
		" than Caddy's storage has")
	require.Contains(t, log, "If the storage was moved, set the option 'storage'")
	require.Contains(t, log, "caddy pay-offer ledger forget-keys")
	for range 2 {
		require.Equal(t, http.StatusOK, s.do(s.base, request{path: "/v1/received"}).Status, "the other goes on")
	}
}

// The client leaves as soon as it has read an answer. All instances know that a purchase was acknowledged before the next
// one is looked at.
func TestInstancesAllowRepeatPurchase(t *testing.T) {
	t.Parallel()
	s := openShop(t, 2)
	charged := make(map[string]bool)
	for n := range 8 {
		purchase := s.payment()
		purchase.header["Connection"] = []string{"close"}
		got := s.do(s.instances[n/2%2].url, purchase)
		require.Equal(t, http.StatusOK, got.Status, got.Body)
		require.NotEmpty(t, got.Header.Get("Payment-Response"))
		charged[got.Header.Get("Payment-Response")] = true
		require.Len(t, s.facilitator.Calls(payoffertest.CallSettle), n+1, "an earlier charge answered purchase %d", n+1)
	}
	require.Len(t, charged, 8)
}

// delivery is an event of the card processor, which is the same each time it is sent.
func delivery(id string) request {
	body, header := server.CardPaid(id, 4200, cardSecret)
	return request{http.MethodPost, "/v1/hook/card", body, header}
}

// notice is the storefront's of a sale.
func notice(id string) request {
	body, header := server.StorefrontSale(id, 4200)
	return request{http.MethodPost, "/v1/hook/tip-jar/" + storeSecret, body, header}
}

// requests are uses of every operation of the description that the offer publishes, with every media type and in every
// other method, then of what agents send and of what is refused. Sent are what was sent before and comes again.
func (s *shop) requests(sent ...request) []request {
	s.Helper()
	var api struct{ Paths map[string]map[string]any }
	require.NoError(s, json.Unmarshal([]byte(s.do(s.instances[0].url, request{path: "/openapi.json"}).Body), &api))
	all := append(slices.Clone(sent),
		request{path: "/offer/"}, request{path: "/offer/style.css"}, request{path: "/nothing"}, request{path: "/v1/hook/nothing"},
		request{method: http.MethodPost, path: "/v1/hook/nothing"},
	)
	for _, path := range slices.Sorted(maps.Keys(api.Paths)) {
		for _, target := range s.targets(path) {
			for _, accept := range []string{"", "text/html", "application/json", "text/uri-list", "image/png"} {
				header := http.Header{}
				if accept != "" {
					header.Set("Accept", accept)
				}
				all = append(all, request{path: target, header: header})
			}
			for _, method := range []string{http.MethodHead, http.MethodPost, http.MethodDelete, http.MethodPut} {
				all = append(all, request{method: method, path: target})
			}
			all = append(all, request{method: http.MethodOptions, path: target, header: http.Header{
				"Origin": {"https://app.example"}, "Access-Control-Request-Method": {http.MethodPost}, "Access-Control-Request-Headers": {"payment-signature"},
			}})
		}
	}
	for _, path := range []string{"/v1/offer", "/v1/quote", "/v1/sponsor", "/mcp"} {
		all = append(all, request{method: http.MethodPost, path: path, body: strings.Repeat("x", 65<<10)})
	}
	for _, name := range []string{"Payment-Signature", "X-Payment"} {
		for _, path := range []string{"/v1/sponsor", "/v1/quote"} {
			all = append(all, request{method: http.MethodPost, path: path, header: http.Header{name: {"no payment"}}})
		}
	}
	return append(all, agentRequests()...)
}

// targets are the addresses of a path of the description.
func (s *shop) targets(path string) (all []string) {
	s.Helper()
	switch path {
	case "/.well-known/webfinger":
		account := "acct:pay@" + strings.TrimPrefix(s.base, "http://")
		return []string{path, path + "?resource=" + url.QueryEscape(account), path + "?resource=acct%3Anobody%40example.org"}
	case "/v1/received":
		return []string{path, path + "?limit=1", path + "?limit=101", path + "?before=2", path + "?before=0", path + "?after=0", path + "?after=0&limit=1",
			path + "?after=0&before=1", path + "?after=7.0000000000000000"}
	case "/v1/hook/{storefront}/{secret}":
		return []string{"/v1/hook/tip-jar/" + storeSecret, "/v1/hook/tip-jar/other"}
	case "/v1/receipt/{id}", "/v1/receipt/{id}/receipt.jws":
		out, err := s.run("", "received", "--receipts", "--json", "--address", s.instances[0].admin)
		require.NoError(s, err, out)
		var listed struct{ Receipts []struct{ Page string } }
		require.NoError(s, json.Unmarshal([]byte(out), &listed))
		all = []string{strings.Replace(path, "{id}", "forged", 1)}
		for _, r := range listed.Receipts {
			all = append(all, strings.Replace(path, "/v1/receipt/{id}", strings.TrimPrefix(r.Page, s.base), 1))
		}
		return all
	case "/v1/qr/{rail}/{image}":
		all = []string{"/v1/qr/card/forged.png"}
		for _, i := range s.instances { // each serves what another gave out
			for _, rail := range rails {
				all = append(all, strings.TrimPrefix(s.do(i.url, request{path: "/v1/pay/" + rail + ".png"}).Header.Get("Location"), s.base))
			}
		}
		return slices.Compact(slices.Sorted(slices.Values(all)))
	default:
		require.NotContains(s, path, "{", "a new kind of path: say here what to ask for")
		return []string{path}
	}
}

// agentRequests are what MCP and A2A clients send.
func agentRequests() (all []request) {
	const message = `"params":{"message":{"messageId":"m","role":"%s","contextId":"c","parts":[{%s"text":"pay"}]}}`
	add := func(body string, headers ...string) {
		header := http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
		for n := 0; n < len(headers); n += 2 {
			header.Set(headers[n], headers[n+1])
		}
		all = append(all, request{http.MethodPost, "/mcp", body, header})
	}
	for _, call := range []string{
		`"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"1"}}`, `"ping"`, `"tools/list"`,
		`"tools/call","params":{"name":"first_42_sponsor"}`, `"tools/call","params":{"name":"no_such"}`, `"resources/list"`, `"prompts/list"`, `"no/such"`,
		`"message/send",` + fmt.Sprintf(message, "user", `"kind":"text",`), `"message/stream","params":{}`, `"tasks/get","params":{"id":"t"}`,
	} {
		add(`{"jsonrpc":"2.0","id":1,"method":` + call + `}`)
	}
	add(`{`)
	add(`[]`)
	add(`{"jsonrpc":"2.0","id":2,"method":"SendMessage",`+fmt.Sprintf(message, "ROLE_USER", "")+`}`, "A2A-Version", "1.0")
	add(`{"jsonrpc":"2.0","id":3,"method":"message/send",`+fmt.Sprintf(message, "user", `"kind":"text",`)+`}`,
		"X-A2A-Extensions", "https://github.com/google-agentic-commerce/a2a-x402/blob/main/spec/v0.2")
	return all
}
