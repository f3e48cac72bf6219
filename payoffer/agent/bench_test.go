package agent

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// BenchmarkToolsCall compares the endpoint with a bare SDK server whose tool has the
// same result.
func BenchmarkToolsCall(b *testing.B) {
	e := newEndpoint(b, config(b, public))
	bare := mcp.NewServer(&mcp.Implementation{Name: "bare", Version: "1"}, nil)
	data := e.quote().data
	bare.AddTool(e.tool(), func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return result(data, false), nil
	})
	sdk := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return bare },
		&mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true})

	call := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"first_42_sponsor"}}`
	for _, c := range []struct {
		name    string
		handler http.Handler
		body    string
	}{{"endpoint", e, call}, {"bare SDK", sdk, call}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r := httptest.NewRequest(http.MethodPost, "https://pay.example.org/mcp", strings.NewReader(c.body))
				r.Header.Set("Content-Type", "application/json")
				r.Header.Set("Accept", "application/json, text/event-stream")
				w := httptest.NewRecorder()
				c.handler.ServeHTTP(w, r)
				if w.Code != http.StatusOK {
					b.Fatal(w.Code, w.Body)
				}
			}
		})
	}
}
