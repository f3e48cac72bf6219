package agent

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

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
		text, err := io.ReadAll(response.Body)
		require.NoError(t, err)
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
