package web

import (
	"net/http/httptest"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// Who crawls the descriptions of a thousand offers once does not have the server hold
// them, and who comes back is given the same.
func TestALargeDocumentIsNotHeldAndStaysTheSame(t *testing.T) {
	s := newWorld(t).server(t)
	for _, accept := range []string{"", "gzip", "zstd"} {
		first := fetch(s, "GET", "/openapi.json", "Accept-Encoding", accept)
		document := s.find(httptest.NewRequest("GET", "/openapi.json", nil).URL).(*resource).get.(answer)(nil)
		require.Nil(t, document.body)
		require.Equal(t, string(OpenAPI(s.Offer).Body), string(document.whole()))
		runtime.GC()
		require.Nil(t, document.fading.whole.Value())
		again := fetch(s, "GET", "/openapi.json", "Accept-Encoding", accept)
		require.Equal(t, first.Header(), again.Header())
		require.Equal(t, first.Body.Bytes(), again.Body.Bytes())
	}
}
