package instances

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
)

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
