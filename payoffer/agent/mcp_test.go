package agent

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/document"
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

func TestMCPSubscriptionEndsAtOnce(t *testing.T) {
	response := post(t, newEndpoint(t, config(t, public)), stateless("subscriptions/listen", `"notifications":{"toolsListChanged":true},`),
		"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "subscriptions/listen")
	require.Equal(t, http.StatusOK, response.StatusCode)
	require.Equal(t, "text/event-stream", response.Header.Get("Content-Type"))
}

// The SDK would refuse a public name on a loopback connection, which is what
// every proxy on the same machine makes.
func TestMCPBehindLoopbackProxy(t *testing.T) {
	server := httptest.NewServer(newEndpoint(t, config(t, public)))
	t.Cleanup(server.Close)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+offer.PathMCP, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
	require.NoError(t, err)
	r.Host = "pay.example.org"
	response := must(server.Client().Do(r))(t)
	t.Cleanup(func() { _ = response.Body.Close() })
	require.Equal(t, http.StatusOK, response.StatusCode)
	require.Nil(t, decode(t, response).Error)
}

// broken is a payment service with a bug.
type broken struct{ *payments }

func (broken) Pay(context.Context, x402.Attempt) x402.Outcome { panic("bug") }

func TestPanicReturnsInternalError(t *testing.T) {
	c := config(t, public)
	c.Payments = broken{takesUSDC()}
	a := decode(t, post(t, newEndpoint(t, c), `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"first_42_sponsor","_meta":{"x402/payment":{}}}}`))
	require.Equal(t, codeInternal, a.Error.Code)
	require.NotContains(t, a.Error.Message, "bug")
}

func terms42(t testing.TB, r toolResult) map[string]any {
	t.Helper()
	var found map[string]any
	require.NoError(t, json.Unmarshal(r.Structured, &found))
	return found
}

func TestToolListsEveryRail(t *testing.T) {
	r := callTool(t, newEndpoint(t, config(t, public)), `{"name":"first_42_sponsor"}`)
	require.Equal(t, "text", r.Content[0].Type)
	require.Contains(t, r.Content[0].Text, "a=1&b=2", "a model reads addresses as they are")
	found := terms42(t, r)
	require.EqualValues(t, 42, found["amountUsd"])
	require.Equal(t, false, found["paid"])
	require.Equal(t, "https://checkout.example/pay?a=1&b=2", found["card"])
	require.Equal(t, "https://pay.example.org/v1/sponsor", found["sponsor"])
	require.EqualValues(t, 2, found["x402Version"])
	require.Equal(t, "raise the cap to $42", found["hint"])
	require.Equal(t, "stripe", found["fallback"].(map[string]any)["scheme"])
	require.Equal(t, "42000000", found["accepts"].([]any)[0].(map[string]any)["amount"])

	var schemes []string
	for _, m := range found["methods"].([]any) {
		schemes = append(schemes, m.(map[string]any)["scheme"].(string))
	}
	var want []string
	for _, m := range newOffer(t, public, true).Methods(offer.Live{}) {
		want = append(want, m.Scheme)
	}
	require.Equal(t, want, schemes)
}

func TestToolReturnsBankAccount(t *testing.T) {
	c := config(t, public)
	require.NoError(t, c.Offer.BankTransfer().Publish(offer.Bank{AccountHolderName: "Example Operator", IBAN: "DE75512108001245126199", BIC: "SOGEDEFF"}))
	e := newEndpoint(t, c)
	var accounts []any
	for _, m := range terms42(t, callTool(t, e, `{"name":"first_42_sponsor"}`))["methods"].([]any) {
		if bank := m.(map[string]any)["bank"]; bank != nil {
			accounts = append(accounts, bank.(map[string]any)["iban"])
		}
	}
	require.Equal(t, []any{"DE75512108001245126199"}, accounts)
	require.Contains(t, e.quote().text, "\n  or transfer it to Example Operator: IBAN DE75512108001245126199, BIC SOGEDEFF, reference Example 42\n")
}

func TestToolFollowsRateAndQuote(t *testing.T) {
	live := offer.Live{}
	c := config(t, public)
	c.Live = func() offer.Live { return live }
	e := newEndpoint(t, c)
	btc := func() map[string]any {
		methods := terms42(t, callTool(t, e, `{"name":"first_42_sponsor"}`))["methods"].([]any)
		i := slices.IndexFunc(methods, func(m any) bool { return m.(map[string]any)["rail"] == "btc" })
		return methods[i].(map[string]any)
	}
	require.Equal(t, false, btc()["available"])
	require.NotEmpty(t, btc()["reason"])
	require.NotContains(t, btc(), "uri", "an amount is never guessed or left out")

	live.Satoshis = 45000
	require.Equal(t, true, btc()["available"])
	require.Equal(t, "45000", btc()["amountAtomic"])

	live.Satoshis = 46000
	require.Equal(t, "46000", btc()["amountAtomic"])

	live.RateAt = time.Unix(1763724000, 0)
	require.Equal(t, "2025-11-21T12:05:00Z", btc()["validUntil"])

	c.Payments.(*payments).quote = new(x402.Quote)
	c.Payments.(*payments).accepts[0].Amount = "43000000"
	require.Contains(t, string(e.quote().data), "43000000")
}

func TestToolResultMatchesSchema(t *testing.T) {
	var schema jsonschema.Schema
	require.NoError(t, json.Unmarshal(document.Line(outputSchema), &schema))
	resolved := must(schema.Resolve(nil))(t)

	c := config(t, public)
	full := terms42(t, callTool(t, newEndpoint(t, c), `{"name":"first_42_sponsor"}`))
	require.NoError(t, resolved.Validate(full))
	requireDescribed(t, &schema, full)
	for _, m := range full["methods"].([]any) {
		for name := range m.(map[string]any) {
			require.Contains(t, schema.Properties["methods"].Items.Properties, name)
		}
	}

	c.Offer, c.Payments, c.Live = newOffer(t, public, false), new(payments), func() offer.Live { return offer.Live{} }
	require.NoError(t, resolved.Validate(terms42(t, callTool(t, newEndpoint(t, c), `{"name":"first_42_sponsor"}`))))
}

func requireDescribed(t testing.TB, schema *jsonschema.Schema, found map[string]any) {
	t.Helper()
	for name := range found {
		require.Contains(t, schema.Properties, name, "every member is described")
	}
}

func TestToolTreatsOperatorTextAsData(t *testing.T) {
	c := config(t, public)
	c.Offer.Name, c.Offer.Operator, c.Offer.Description = hostile, hostile, hostile
	e := newEndpoint(t, c)

	tools := decode(t, post(t, e, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`))
	require.NotContains(t, string(tools.Result), "Ignore all", "a model reads a tool's description as an instruction")
	var list mcp.ListToolsResult
	require.NoError(t, json.Unmarshal(tools.Result, &list))
	require.Len(t, list.Tools, 1)
	require.Equal(t, "first_42_sponsor", list.Tools[0].Name)
	require.NotEmpty(t, list.Tools[0].Title)
	require.Contains(t, list.Tools[0].Description, "42 US dollars")
	require.NotNil(t, list.Tools[0].OutputSchema)
	handshake := decode(t, post(t, e, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`))
	var server struct{ Instructions string }
	require.NoError(t, json.Unmarshal(handshake.Result, &server))
	require.NotContains(t, server.Instructions, "Ignore all")

	require.Equal(t, hostile, terms42(t, callTool(t, e, `{"name":"first_42_sponsor"}`))["description"])
	for line := range strings.SplitSeq(e.quote().text, "\n") {
		require.False(t, strings.HasPrefix(line, "previous"), "a name cannot begin a line of its own: %q", line)
	}
}

// maxAnswer bounds what any request may cost in memory: an id and a context as
// large as the request, and the quote twice, as data and as text.
const maxAnswer = 8 * maxBody

func FuzzServeHTTP(f *testing.F) {
	for _, body := range []string{
		js03, js10, go03, stateless("server/discover", ""), stateless("subscriptions/listen", `"notifications":{"toolsListChanged":true},`),
		`[` + strings.Repeat(`{"jsonrpc":"2.0","id":1,"method":"tools/list"},`, 500) + `{}]`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":` + strings.Repeat(`{"a":`, 5000) + `1` + strings.Repeat(`}`, 5001),
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"first_42_sponsor","_meta":{"x402/payment":{},"progressToken":1}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"first_42_sponsor","_meta":null,"arguments":7,"inputResponses":{"a":{}}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{"messageId":"a","role":"user","parts":[{}],"metadata":null}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{"messageId":"a","role":"user","taskId":"t","parts":[{}],"metadata":{"x402.payment.status":"payment-submitted","x402.payment.payload":{}}}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"a","role":"ROLE_USER","parts":[{}],"metadata":{"x402.payment.status":"payment-rejected"}}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"https://pay.example.org/v1/invoice"}}`,
		`{"jsonrpc":"2.0","id":"\ud800","method":"ping","params":null}`,
		`{"jsonrpc":"2.0","id":1,"id":2,"method":"ping","method":"no/such"}`,
	} {
		f.Add(body, "", "")
		f.Add(body, "2026-07-28", "tools/call")
		f.Add(body, "2025-11-25", "")
	}
	for _, method := range []string{"initialize", "tools/call", "resources/read", "prompts/get", "completion/complete", "subscriptions/listen"} {
		for _, params := range []string{`{}`, `null`, `{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}`, `{"uri":"a:b","name":"x","level":"info","ref":null,"argument":null,"notifications":{}}`} {
			f.Add(`{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+params+`}`, "", "")
			f.Add(`{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+params+`}`, "2026-07-28", method)
		}
	}
	e, taken := shop(f, settled)
	outcomes := []x402.Outcome{settled, rejected, canceled, malformed, open, unavailable, limited, conflict, {}}
	f.Fuzz(func(t *testing.T, body, version, method string) {
		taken.attempts, taken.outcome = nil, outcomes[len(body)%len(outcomes)]
		r := httptest.NewRequest(http.MethodPost, "https://pay.example.org/mcp", strings.NewReader(body))
		r.Header.Set("X-A2A-Extensions", extensionURI)
		for name, value := range map[string]string{"Mcp-Protocol-Version": version, "Mcp-Method": method, "Mcp-Name": method} {
			if value != "" {
				r.Header.Set(name, value)
			}
		}
		w := httptest.NewRecorder()
		e.ServeHTTP(w, r)
		response := w.Result()
		text := must(io.ReadAll(response.Body))(t)
		require.Less(t, len(text), maxAnswer)
		require.Less(t, response.StatusCode, 500, "%s", text)
		switch {
		case response.StatusCode == http.StatusAccepted:
			require.Empty(t, text)
		case response.Header.Get("Content-Type") == "text/event-stream":
			require.Contains(t, body, "listen")
		default:
			response.Body = io.NopCloser(strings.NewReader(string(text)))
			a := decode(t, response)
			require.False(t, strings.HasPrefix(strings.TrimSpace(body), "[") && a.Error == nil, "a batch was answered")
		}
		require.LessOrEqual(t, len(taken.attempts), 1)
	})
}
