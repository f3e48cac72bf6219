package payoffer

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/document"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

func init() { caddy.RegisterModule(bare{}) }

// bare is the least that a handler of Caddy can do: it writes the bytes and
// headers that it was given.
type bare struct{ answer answer }

// bareAnswer is what the next bare handler writes.
var bareAnswer answer

func (bare) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.bare", New: func() caddy.Module { return &bare{bareAnswer} }}
}

func (b *bare) ServeHTTP(w http.ResponseWriter, _ *http.Request, _ caddyhttp.Handler) error {
	maps.Copy(w.Header(), b.answer.header)
	w.WriteHeader(b.answer.status)
	_, err := io.WriteString(w, b.answer.body)
	return err
}

// BenchmarkInCaddy compares a document and a quote of the offer with Caddy's
// own respond and with a bare handler that write the same answer, each through
// a whole Caddy server in the same run. The three take turns, so that what
// else the machine does falls on all alike.
func BenchmarkInCaddy(b *testing.B) {
	const call = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + document.ToolName + `","arguments":{}}}`
	for _, c := range []struct{ name, method, path, body string }{
		{"document", "GET", offer.PathNodeInfo21, ""}, {"agent card", "GET", offer.PathAgentCard, ""}, {"quote 402", "GET", offer.PathOffer, ""},
		{"challenge 402", "POST", offer.PathSponsor, ""}, {"tools/call", "POST", offer.PathMCP, call},
		{"received", "GET", offer.PathReceived, ""}, {"QR code", "GET", offer.PNGPath(offer.RailCard), ""},
	} {
		b.Run(c.name, func(b *testing.B) {
			server, path := speedServer(b, c.method, c.path, c.body)
			spent := map[string]time.Duration{}
			const turn = 200
			b.ReportAllocs()
			for b.Loop() {
				for _, host := range []string{"offer", "respond", "bare"} {
					start := time.Now()
					for range turn {
						server.ServeHTTP(&discard{header: make(http.Header)}, ask(c.method, host, path, c.body))
					}
					spent[host] += time.Since(start)
				}
			}
			b.ReportMetric(float64(spent["respond"])/float64(spent["offer"]), "times-respond")
			b.ReportMetric(float64(spent["offer"])/float64(spent["bare"]), "of-bare")
		})
	}
}

func ask(method, host, path, body string) *http.Request {
	var sent io.Reader
	if body != "" {
		sent = strings.NewReader(body)
	}
	r := httptest.NewRequest(method, "http://"+host+path, sent)
	r.RequestURI = path
	return r
}

// discard is a response that nobody reads.
type discard struct{ header http.Header }

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) WriteHeader(int)             {}
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }

// speedServer is a Caddy server with the three handlers, one for each host. Where the
// path leads elsewhere, it is the target that they answer.
func speedServer(b *testing.B, method, path, body string) (server *caddyhttp.Server, target string) {
	b.Helper()
	handler := map[string]any{
		"handler": "pay_offer", "base_url": "https://pay.example.org", "testnet": true,
		"card": map[string]any{"url": "https://checkout.example/pay"},
		"usdc": []any{map[string]any{
			"network": "base-sepolia", "address": "0x52908400098527886E0F7030069857D2E4169EE7", "rpc": []string{"off"},
			"facilitators": []any{map[string]any{"url": "http://127.0.0.1:9"}},
		}},
	}
	first := speedConfig(b, route("offer", handler))
	recorder := httptest.NewRecorder()
	first.ServeHTTP(recorder, ask(method, "offer", path, body))
	if to := recorder.Header().Get("Location"); to != "" {
		path, recorder = to, httptest.NewRecorder()
		first.ServeHTTP(recorder, ask(method, "offer", path, body))
	}
	bareAnswer = answer{recorder.Code, recorder.Header(), recorder.Body.String()}
	require.Less(b, recorder.Code, 403)
	require.NotEmpty(b, bareAnswer.body)
	require.Equal(b, path == offer.PathSponsor, bareAnswer.header["Www-Authenticate"] != nil)
	bareAnswer.header.Del("Server")
	return speedConfig(b, route("offer", handler),
		route("respond", map[string]any{
			"handler": "static_response", "status_code": bareAnswer.status, "body": bareAnswer.body, "headers": bareAnswer.header,
		}),
		route("bare", map[string]any{"handler": "bare"})), path
}

func route(host string, handlers ...any) map[string]any {
	return map[string]any{"match": []any{map[string]any{"host": []string{host}}}, "handle": handlers, "terminal": true}
}

func speedConfig(b testing.TB, routes ...any) *caddyhttp.Server {
	b.Helper()
	folder := b.TempDir()
	raw, err := json.Marshal(map[string]any{
		"admin":   map[string]any{"disabled": true},
		"storage": map[string]any{"module": "file_system", "root": folder},
		"logging": map[string]any{"logs": map[string]any{"default": map[string]any{"level": "ERROR"}}},
		"apps": map[string]any{
			"pay_offer": map[string]any{"ledger": map[string]any{"driver": "sqlite", "path": filepath.Join(folder, "ledger.db")}},
			"http": map[string]any{"servers": map[string]any{"speed": map[string]any{
				"listen": []string{"127.0.0.1:0"}, "routes": routes, "automatic_https": map[string]any{"disable": true},
			}}},
		},
	})
	require.NoError(b, err)
	config := new(caddy.Config)
	require.NoError(b, json.Unmarshal(raw, config))
	ctx, err := caddy.ProvisionContext(config)
	require.NoError(b, err)
	app, err := ctx.App("http")
	require.NoError(b, err)
	offers, err := ctx.App("pay_offer")
	require.NoError(b, err)
	require.NoError(b, offers.(*App).Start())
	b.Cleanup(func() {
		require.NoError(b, offers.(*App).Stop())
		require.NoError(b, offers.(*App).Cleanup())
		require.NoError(b, outliving.Wait(context.Background()))
	})
	return app.(*caddyhttp.App).Servers["speed"]
}
