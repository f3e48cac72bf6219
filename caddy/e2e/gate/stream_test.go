package gate

import (
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
)

// A stream starts with its charge, and is not kept in memory.
func TestPaidStreamUsesLittleMemory(t *testing.T) {
	t.Parallel()
	size := int64(32 << 20)
	if os.Getenv("FULL") == "1" {
		size = 1 << 30
	}
	s := openShop(t, `
http://site.localhost:{PORT} {
	pay_offer_gate
	reverse_proxy {APP}
}
`)
	part := strings.Repeat("x", 1<<20)
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		url := s.url("site", "/"+method)
		s.app.on("/"+method, func(w http.ResponseWriter, _ *http.Request) {
			for range size / int64(len(part)) {
				if _, err := io.WriteString(w, part); err != nil {
					return
				}
			}
		})
		p := s.sign(url)
		request := lab.Must(http.NewRequestWithContext(t.Context(), method, url, nil))(t)
		request.Header = s.v2(p)
		before := lab.Resident(t, s.process.Pid())
		response := lab.Must(clients["HTTP/1.1"].Do(request))(t)
		require.Equal(t, http.StatusOK, response.StatusCode)
		require.Equal(t, 1, s.facilitator.settles(p), "charged before the first byte")
		for range 16 {
			n := lab.Must(io.CopyN(io.Discard, response.Body, size/16))(t)
			require.Equal(t, size/16, n)
			require.Less(t, lab.Resident(t, s.process.Pid())-before, 128<<20)
		}
		require.Zero(t, lab.Must(io.Copy(io.Discard, response.Body))(t))
		require.NoError(t, response.Body.Close())
		require.Equal(t, 1, s.app.runs("/"+method))
		require.Equal(t, 1, s.facilitator.settles(p))
	}
}
