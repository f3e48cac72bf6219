package settlement

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// startLiar starts a JSON-RPC endpoint that passes everything on to another one but the chain id.
func startLiar(t *testing.T, target, chainID string) (url string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		var call struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		w.Header().Set("Content-Type", "application/json")
		if json.Unmarshal(body, &call) == nil && call.Method == "eth_chainId" {
			_ = json.NewEncoder(w).Encode(map[string]any{"jsonrpc": "2.0", "id": call.ID, "result": chainID})
			return
		}
		answer, err := http.Post(target, "application/json", bytes.NewReader(body))
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		defer answer.Body.Close()
		_, _ = io.Copy(w, answer.Body)
	}))
	t.Cleanup(server.Close)
	return server.URL
}
