package payoffer

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// Caddy's encode compresses nothing twice, wherever it stands, and a client that has
// an answer is not sent it again.
func TestEncodeLeavesWhatIsCompressedAsItIs(t *testing.T) {
	encode := map[string]any{"handler": "encode", "encodings": map[string]any{"gzip": map[string]any{}, "zstd": map[string]any{}}, "prefer": []string{"zstd", "gzip"}}
	sale := map[string]any{
		"handler": "pay_offer", "base_url": "http://localhost:8402", "card": map[string]any{"url": "https://checkout.example/pay"},
	}
	server := speedConfig(t,
		route("alone", sale), route("front", encode, sale), route("behind", sale, encode))
	get := func(host string, headers ...string) *httptest.ResponseRecorder {
		r, w := ask(http.MethodGet, host, offer.PathOpenAPI, ""), httptest.NewRecorder()
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		server.ServeHTTP(w, r)
		return w
	}
	plain := get("alone").Body.String()
	for _, host := range []string{"alone", "front", "behind"} {
		got := get(host, "Accept-Encoding", "gzip")
		require.Equal(t, "gzip", got.Header().Get("Content-Encoding"), host)
		tag := get("alone", "Accept-Encoding", "gzip").Header().Get("Etag")
		require.Equal(t, tag, got.Header().Get("Etag"), host)
		require.Len(t, got.Header()["Vary"], 1, host)
		require.Equal(t, 304, get(host, "Accept-Encoding", "gzip", "If-None-Match", tag).Code, host)
		r, err := gzip.NewReader(got.Body)
		require.NoError(t, err)
		read, err := io.ReadAll(r)
		require.NoError(t, err)
		require.Equal(t, plain, string(read), host)
	}
}
