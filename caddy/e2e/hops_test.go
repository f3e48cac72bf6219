package e2e

import (
	"encoding/json"
	"html"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
)

// maxHops is how many links an agent may have to follow, from what it knows to read, to something that it can pay.
const maxHops = 2

// TestEveryEntranceLeadsToAPayment follows published links alone, from each document that an agent without further
// knowledge may ask for first, and finds every rail.
func TestEveryEntranceLeadsToAPayment(t *testing.T) {
	service := server.StartShipped(t).Service
	rails := payable(t, service)
	for _, entrance := range []string{"/", "/.well-known/agent-card.json", "/openapi.json", "/llms.txt", "/.well-known/did.json"} {
		t.Run(entrance, func(t *testing.T) {
			missing := map[string]string{}
			for rail, target := range rails {
				missing[rail] = target
			}
			pages, asked := []string{service + entrance}, map[string]bool{}
			for hop := 0; hop <= maxHops && len(missing) > 0; hop++ {
				var next []string
				for _, page := range pages {
					if asked[page] {
						continue
					}
					asked[page] = true
					text, links := follow(t, page)
					for rail, target := range missing {
						if strings.Contains(text, target) {
							delete(missing, rail)
						}
					}
					next = append(next, links...)
				}
				pages = next
			}
			require.Empty(t, missing, "not found within %d links", maxHops)
		})
	}
}

// payable is what must be found to pay by each rail: its address, or the terms that a program signs.
func payable(t *testing.T, service string) map[string]string {
	t.Helper()
	_, body := get(t, service+"/v1/invoice")
	var invoice struct {
		Methods []struct{ Rail, Scheme, URL, URI string }
	}
	require.NoError(t, json.Unmarshal([]byte(body), &invoice))
	found := map[string]string{}
	for _, m := range invoice.Methods {
		switch {
		case m.Scheme == "x402":
			found["x402"] = `"maxAmountRequired":"42000000"`
		case m.Rail == "btc":
			found[m.Rail] = service + "/v1/pay/btc.uri" // which answers once there is a rate
		default:
			found[m.Rail] = m.URL + m.URI
		}
	}
	require.Len(t, found, 7)
	return found
}

// follow reads a published address as a program does, and returns what it says and the addresses that it publishes. The
// agent endpoint is asked as the agent card's protocol wants it, and what takes a payment without one.
func follow(t *testing.T, page string) (text string, links []string) {
	t.Helper()
	at, err := url.Parse(page)
	require.NoError(t, err)
	var answer *http.Response
	switch at.Path {
	case "/mcp":
		answer, text = send(t, page, `{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{"kind":"message","messageId":"1","role":"user",
			"parts":[{"kind":"text","text":"How can I pay?"}]}}}`)
	case "/v1/sponsor":
		answer, text = send(t, page, "")
	default:
		answer, text = get(t, page)
	}
	published := headerLinks(t, at, answer) + "\n" + answer.Header.Get("Location") + "\n" + html.UnescapeString(text)
	for _, link := range absoluteLink.FindAllString(published, -1) {
		if !strings.Contains(link, "{") {
			links = append(links, strings.TrimRight(link, ".,;:`*"))
		}
	}
	if location := answer.Header.Get("Location"); strings.HasPrefix(location, "/") {
		links = append(links, at.Scheme+"://"+at.Host+location)
	}
	return strings.ReplaceAll(published, `": "`, `":"`), append(append(links, markupLinks(t, at, text)...), describedPaths(at, text)...)
}

// describedPaths finds the addresses that an OpenAPI document describes. One that takes a query is among them without it.
func describedPaths(at *url.URL, text string) []string {
	var api struct {
		Paths map[string]json.RawMessage
	}
	if json.Unmarshal([]byte(text), &api) != nil {
		return nil
	}
	var found []string
	for path := range api.Paths {
		if !strings.Contains(path, "{") {
			found = append(found, at.Scheme+"://"+at.Host+path)
		}
	}
	return found
}

// send is a POST, as get is a GET.
func send(t *testing.T, address, body string) (*http.Response, string) {
	t.Helper()
	answer, err := http.Post(address, "application/json", strings.NewReader(body))
	require.NoError(t, err)
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return answer, string(data)
}
