package e2e

import (
	"encoding/json"
	"errors"
	"html"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// maxHops is how many links an agent may have to follow, from what it knows to read, to something that it can pay.
const maxHops = 2

// TestPublishedLinksLeadToEveryRail follows published links alone, from each document that an agent without further
// knowledge may ask for first, and finds every rail.
func TestPublishedLinksLeadToEveryRail(t *testing.T) {
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
	at := lab.Must(url.Parse(page))(t)
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
	answer := lab.Must(http.Post(address, "application/json", strings.NewReader(body)))(t)
	defer answer.Body.Close()
	data := lab.Must(io.ReadAll(answer.Body))(t)
	return answer, string(data)
}

var (
	absoluteLink = regexp.MustCompile(`http://localhost:[0-9]+[^\s"'<>()\\` + "`" + `\]]*`)
	markupLink   = regexp.MustCompile(`(?:href|src)="(/[^"]*)"`)
)

// headerLinks are the addresses in the Link headers of an answer, which may be relative to its own.
func headerLinks(t *testing.T, at *url.URL, answer *http.Response) string {
	t.Helper()
	var found []string
	for _, link := range answer.Header.Values("Link") {
		target, _, whole := strings.Cut(strings.TrimPrefix(link, "<"), ">")
		require.True(t, whole, link)
		resolved := lab.Must(at.Parse(target))(t)
		found = append(found, resolved.String())
	}
	return strings.Join(found, "\n")
}

// markupLinks finds the addresses in HTML that are relative to its page.
func markupLinks(t *testing.T, at *url.URL, body string) []string {
	t.Helper()
	var found []string
	for _, match := range markupLink.FindAllStringSubmatch(body, -1) {
		link := lab.Must(at.Parse(html.UnescapeString(match[1])))(t)
		found = append(found, link.String())
	}
	return found
}

// The access log is what a body stands behind first in production.
const slowCaddyfile = `{
	admin off
	persist_config off
	servers {
		protocols h1 h2c
	}
	default_bind 127.0.0.1
	pay_offer {
		ledger sqlite {DIR}/ledger.db
	}
}
http://localhost:{PORT} {
	log
	encode
	pay_offer {
		base_url http://localhost:{PORT}
		card https://checkout.example/pay {
			payment_link plink_1
			webhook_secret whsec_0123456789abcdef
		}
		storefront tip-jar https://tip-jar.example/42 {
			product p
			hook_secret {SECRET}
		}
		usdc base-sepolia 0x52908400098527886E0F7030069857D2E4169EE7 {
			facilitator http://127.0.0.1:9
			rpc off
		}
	}
}
`

// A body of which one byte arrives holds no connection for longer than the server waits: at every address that takes one,
// over both protocols, through all that Caddy puts around requests and answers.
func TestSlowBodyTimeout(t *testing.T) {
	port := payoffertest.FreePort(t)
	base := "http://localhost:" + port
	server.Start(t, base, strings.NewReplacer("{DIR}", t.TempDir(), "{PORT}", port, "{SECRET}", shopSecret).Replace(slowCaddyfile))
	var all sync.WaitGroup
	for _, protocol := range []string{"HTTP/1.1", "HTTP/2.0"} {
		transport := &http.Transport{Protocols: new(http.Protocols)}
		transport.Protocols.SetHTTP1(protocol == "HTTP/1.1")
		transport.Protocols.SetUnencryptedHTTP2(protocol == "HTTP/2.0")
		t.Cleanup(transport.CloseIdleConnections)
		client := &http.Client{Transport: transport}
		targets := posts(t, client, base)
		require.Subset(t, targets, []string{"/v1/offer", "/v1/quote", "/v1/sponsor", "/mcp", "/v1/hook/card", "/v1/hook/tip-jar/" + shopSecret})
		for _, target := range targets {
			all.Go(func() {
				body, arriving := io.Pipe()
				go func() { _, _ = arriving.Write([]byte("{")) }()
				defer arriving.CloseWithError(errors.New("given up"))
				request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+target, body)
				assert.NoError(t, err)
				request.ContentLength = 1000
				request.Header.Set("Stripe-Signature", "t=1,v1="+strings.Repeat("0", 64)) // or no delivery is read
				answer, err := client.Do(request)
				if !assert.NoError(t, err, target) {
					return
				}
				defer answer.Body.Close()
				said, err := io.ReadAll(answer.Body)
				assert.NoError(t, err)
				assert.Equal(t, protocol, answer.Proto)
				assert.Equal(t, http.StatusRequestTimeout, answer.StatusCode, "%s %s: %s", protocol, target, said)
				assert.Regexp(t, "no payment was sent|nothing was recorded", string(said))
			})
		}
	}
	all.Wait()
}

// posts are the addresses that take a body, as the server describes itself.
func posts(t *testing.T, client *http.Client, base string) (targets []string) {
	t.Helper()
	answer := lab.Must(client.Get(base + "/openapi.json"))(t)
	defer answer.Body.Close()
	var description struct {
		Paths map[string]map[string]any `json:"paths"`
	}
	require.NoError(t, json.NewDecoder(answer.Body).Decode(&description))
	for path, methods := range description.Paths {
		if methods["post"] != nil {
			targets = append(targets, strings.NewReplacer("{storefront}", "tip-jar", "{secret}", shopSecret).Replace(path))
		}
	}
	return targets
}
