package payoffer

import (
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// Caddy's encode compresses nothing twice, and keeps the ETag.
func TestEncodeLeavesCompressedDocumentsUnchanged(t *testing.T) {
	i := newInstance(t)
	in := strings.Replace(smallest, "\tpay_offer {", "\troute {\n encode zstd gzip\n pay_offer {", 1)
	in = strings.Replace(in, "\trespond", "}\nrespond", 1)
	config, _, err := adaptAny(i.caddyfile(in))
	require.NoError(t, err)
	require.NoError(t, caddy.Load([]byte(config), true))
	get := func(headers http.Header) *http.Response {
		request := must(http.NewRequestWithContext(t.Context(), http.MethodGet, i.service+offer.PathOpenAPI, nil))(t)
		request.Header = headers
		response := must(i.client.Do(request))(t)
		t.Cleanup(func() { _ = response.Body.Close() })
		return response
	}
	compressed := get(http.Header{"Accept-Encoding": {"gzip"}})
	require.Equal(t, "gzip", compressed.Header.Get("Content-Encoding"))
	reader := must(gzip.NewReader(compressed.Body))(t)
	read := must(io.ReadAll(reader))(t)
	require.Equal(t, i.get(i.service+offer.PathOpenAPI).body, string(read))
	again := get(http.Header{"Accept-Encoding": {"gzip"}, "If-None-Match": compressed.Header["Etag"]})
	require.Equal(t, http.StatusNotModified, again.StatusCode)
}
