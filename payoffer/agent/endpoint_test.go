package agent

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

func TestGarbageIsAnsweredByAnError(t *testing.T) {
	e := newEndpoint(t, config(t, public))
	for _, test := range []struct {
		name, body   string
		status, code int
		id           string
	}{
		{"nothing", ``, 400, -32700, "null"},
		{"cut short", `{"jsonrpc":"2.0","id":1`, 400, -32700, "null"},
		{"two values", `{}{}`, 400, -32700, "null"},
		{"no UTF-8", "{\"jsonrpc\":\"2.0\",\"id\":\"\xff\",\"method\":\"ping\"}", 400, -32700, "null"},
		{"two payments of which another reader takes the other", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"first_42_sponsor","_meta":{},"_meta":{"x402/payment":{}}}}`, 400, -32700, "null"},
		{"nested without end", strings.Repeat("[", 60000), 400, -32600, "null"},
		{"empty object", `{}`, 400, -32600, "null"},
		{"other version", `{"jsonrpc":"1.0","id":7,"method":"ping"}`, 400, -32600, "7"},
		{"method is a number", `{"jsonrpc":"2.0","id":7,"method":1}`, 400, -32600, "7"},
		{"method is empty", `{"jsonrpc":"2.0","id":7,"method":""}`, 400, -32600, "7"},
		{"id is an object", `{"jsonrpc":"2.0","id":{},"method":"ping"}`, 400, -32600, "null"},
		{"id is not exact", `{"jsonrpc":"2.0","id":9007199254740993,"method":"ping"}`, 400, -32600, "null"},
		{"MCP without an id to answer", `{"jsonrpc":"2.0","id":null,"method":"ping"}`, 400, -32600, "null"},
		{"MCP params in order", `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":[]}`, 200, -32602, "7"},
		{"MCP without params", `{"jsonrpc":"2.0","id":7,"method":"tools/call"}`, 200, -32602, "7"},
		{"MCP resource that is not there", `{"jsonrpc":"2.0","id":7,"method":"resources/read","params":{"uri":"x:y"}}`, 200, -32602, "7"},
		{"unknown method", `{"jsonrpc":"2.0","id":7,"method":"eth_call","params":{}}`, 200, -32601, "7"},
		{"method of the SDK's clients", `{"jsonrpc":"2.0","id":7,"method":"sampling/createMessage","params":{}}`, 200, -32601, "7"},
		{"notification with an id", `{"jsonrpc":"2.0","id":7,"method":"notifications/initialized"}`, 200, -32601, "7"},
		{"batch", `[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"ping"}]`, 400, -32600, "null"},
	} {
		t.Run(test.name, func(t *testing.T) {
			response := post(t, e, test.body)
			require.Equal(t, test.status, response.StatusCode)
			a := decode(t, response)
			require.NotNil(t, a.Error)
			require.Equal(t, test.code, a.Error.Code, a.Error.Message)
			require.Equal(t, test.id, string(a.ID))
		})
	}
}

func TestIDIsEchoedWithItsType(t *testing.T) {
	e := newEndpoint(t, config(t, public))
	for _, id := range []string{`1`, `0`, `-5`, `9007199254740991`, `"1"`, `""`, `"a\"b"`} {
		for _, call := range []string{`"method":"ping"`, `"method":"tasks/get","params":{"id":"t"}`, `"method":"no/such"`} {
			a := decode(t, post(t, e, `{"jsonrpc":"2.0","id":`+id+`,`+call+`}`))
			require.Equal(t, id, string(a.ID), call)
		}
	}
	a := decode(t, post(t, e, `{"jsonrpc":"2.0","id":null,"method":"tasks/get","params":{"id":"t"}}`))
	require.Equal(t, "null", string(a.ID))
	require.Equal(t, -32001, a.Error.Code)
}

func TestMessageThatWantsNoAnswerGetsNone(t *testing.T) {
	e := newEndpoint(t, config(t, public))
	for _, body := range []string{
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		`{"jsonrpc":"2.0","method":"notifications/no/such","params":[1]}`,
		`{"jsonrpc":"2.0","method":"message/send","params":{}}`,
		`{"jsonrpc":"2.0","method":"no/such"}`,
		`{"jsonrpc":"2.0","id":1,"result":{}}`,
		`{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"x"}}`,
	} {
		response := post(t, e, body)
		require.Equal(t, http.StatusAccepted, response.StatusCode, body)
		text, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.Empty(t, text, body)
	}
}

func TestLargeBodyIsRefused(t *testing.T) {
	e := newEndpoint(t, config(t, public))
	body := `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"`
	fits := body + strings.Repeat("x", maxBody-len(body)-3) + `"}}`
	require.Len(t, fits, maxBody)
	require.Nil(t, decode(t, post(t, e, fits)).Error)

	response := post(t, e, fits+" ")
	require.Equal(t, http.StatusRequestEntityTooLarge, response.StatusCode)
	require.Equal(t, codeInvalidRequest, decode(t, response).Error.Code)
}

func TestBodyThatEndsEarlyIsRefused(t *testing.T) {
	r := httptest.NewRequest(http.MethodPost, "https://pay.example.org/mcp", iotest.ErrReader(errors.New("secret of the connection")))
	w := httptest.NewRecorder()
	newEndpoint(t, config(t, public)).ServeHTTP(w, r)
	require.Equal(t, http.StatusBadRequest, w.Code)
	require.NotContains(t, w.Body.String(), "secret")
	require.Equal(t, codeParse, decode(t, w.Result()).Error.Code)
}

func TestHostAndOrigin(t *testing.T) {
	local := newEndpoint(t, config(t, func(terms *offer.Terms) {
		terms.BaseURL, terms.SiteURL = "http://localhost:8402", "https://example.org"
	}))
	remote := newEndpoint(t, config(t, public))
	for _, test := range []struct {
		name         string
		endpoint     *Endpoint
		host, origin string
		status       int
	}{
		{"loopback, no browser", local, "localhost:8402", "", 200},
		{"loopback by IPv6 address", local, "[::1]:8402", "http://[::1]:8402", 200},
		{"loopback without a Host", local, "", "", 200},
		{"loopback, a page on another port", local, "localhost:8402", "http://localhost:6274", 200},
		{"loopback, the configured site", local, "localhost:8402", "https://example.org", 200},
		{"loopback, rebound name", local, "evil.example.com", "", 403},
		{"loopback, name that begins like it", local, "localhost.evil.example.com", "", 403},
		{"loopback, foreign page", local, "localhost:8402", "http://evil.example.com", 403},
		{"loopback, page without an origin", local, "localhost:8402", "null", 403},
		{"public", remote, "pay.example.org", "", 200},
		{"public, agent in a page of anyone", remote, "pay.example.org", "https://agent.example.com", 200},
		{"public, sandboxed page", remote, "pay.example.org", "null", 200},
		{"public, behind a proxy that names its upstream", remote, "127.0.0.1:8402", "", 200},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
			r.Host = test.host
			if test.origin != "" {
				r.Header.Set("Origin", test.origin)
			}
			w := httptest.NewRecorder()
			test.endpoint.ServeHTTP(w, r)
			require.Equal(t, test.status, w.Code, w.Body)
			require.Equal(t, test.status != 200, decode(t, w.Result()).Error != nil)
		})
	}
}
