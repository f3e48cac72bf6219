package agent

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

func TestOlderMCPClientsAreServed(t *testing.T) {
	e := newEndpoint(t, config(t, public))
	for _, version := range []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"} {
		t.Run(version, func(t *testing.T) {
			a := decode(t, post(t, e, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"`+version+
				`","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`))
			require.Nil(t, a.Error)
			var handshake mcp.InitializeResult
			require.NoError(t, json.Unmarshal(a.Result, &handshake))
			require.Equal(t, version, handshake.ProtocolVersion)
			require.NotNil(t, handshake.Capabilities.Tools)
			require.Nil(t, handshake.Capabilities.Completions, "what is not there is not announced")

			for _, body := range []string{
				`{"jsonrpc":"2.0","id":2,"method":"ping"}`,
				`{"jsonrpc":"2.0","id":3,"method":"tools/list","params":{}}`,
				`{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"first_42_sponsor","arguments":{}}}`,
			} {
				response := post(t, e, body, "Mcp-Protocol-Version", version)
				require.Equal(t, http.StatusOK, response.StatusCode)
				require.Nil(t, decode(t, response).Error, body)
			}
		})
	}
}

// stateless is a request of MCP revision 2026-07-28.
func stateless(method, members string) string {
	return `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + members + `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientInfo":{"name":"x","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`
}

func TestNewestMCPRevisionNeedsNoHandshake(t *testing.T) {
	e := newEndpoint(t, config(t, public))

	response := post(t, e, stateless("server/discover", ""), "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "server/discover")
	require.Equal(t, http.StatusOK, response.StatusCode)
	var discovered mcp.DiscoverResult
	require.NoError(t, json.Unmarshal(decode(t, response).Result, &discovered))
	require.Contains(t, discovered.SupportedVersions, "2026-07-28")

	response = post(t, e, stateless("tools/call", `"name":"first_42_sponsor",`),
		"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "first_42_sponsor")
	require.Equal(t, http.StatusOK, response.StatusCode)
	require.Nil(t, decode(t, response).Error)

	response = post(t, e, stateless("tools/call", `"name":"first_42_sponsor",`),
		"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "another")
	require.Equal(t, http.StatusBadRequest, response.StatusCode)
	require.Equal(t, -32020, decode(t, response).Error.Code, "headers must match the body")

	response = post(t, e, `{"jsonrpc":"2.0","id":1,"method":"ping"}`, "Mcp-Protocol-Version", "1999-01-01")
	require.Equal(t, http.StatusBadRequest, response.StatusCode)
	require.Contains(t, decode(t, response).Error.Message, "Mcp-Protocol-Version", "not the SDK's plain text")
	response = post(t, e, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"other"}}`, "Last-Event-ID", "1")
	require.Equal(t, `unknown tool "other"; the only tool is first_42_sponsor`, decode(t, response).Error.Message)

	response = post(t, e, stateless("no/such", ""), "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "no/such")
	require.Equal(t, http.StatusNotFound, response.StatusCode)
	require.Equal(t, -32601, decode(t, response).Error.Code)
}

func TestSubscriptionEndsAtOnce(t *testing.T) {
	response := post(t, newEndpoint(t, config(t, public)), stateless("subscriptions/listen", `"notifications":{"toolsListChanged":true},`),
		"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "subscriptions/listen")
	require.Equal(t, http.StatusOK, response.StatusCode)
	require.Equal(t, "text/event-stream", response.Header.Get("Content-Type"))
}

// The SDK would refuse a public name on a loopback connection, which is what
// every proxy on the same machine makes.
func TestProxyOnTheSameMachineIsServed(t *testing.T) {
	server := httptest.NewServer(newEndpoint(t, config(t, public)))
	t.Cleanup(server.Close)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+offer.PathMCP, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
	require.NoError(t, err)
	r.Host = "pay.example.org"
	response, err := server.Client().Do(r)
	require.NoError(t, err)
	t.Cleanup(func() { _ = response.Body.Close() })
	require.Equal(t, http.StatusOK, response.StatusCode)
	require.Nil(t, decode(t, response).Error)
}

// broken is a payment service with a bug.
type broken struct{ *payments }

func (broken) Pay(context.Context, x402.Attempt) x402.Outcome { panic("bug") }

func TestPanicInAHandlerBecomesAnError(t *testing.T) {
	c := config(t, public)
	c.Payments = broken{takesUSDC()}
	a := decode(t, post(t, newEndpoint(t, c), `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"first_42_sponsor","_meta":{"x402/payment":{}}}}`))
	require.Equal(t, codeInternal, a.Error.Code)
	require.NotContains(t, a.Error.Message, "bug")
}
