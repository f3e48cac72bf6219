package web

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// unpacked is the content of an answer, whatever its coding.
func unpacked(t testing.TB, w *httptest.ResponseRecorder) string {
	t.Helper()
	var from io.Reader = w.Body
	switch coding := w.Header().Get("Content-Encoding"); coding {
	case "gzip":
		r := must(gzip.NewReader(w.Body))(t)
		from = r
	default:
		require.Empty(t, coding)
	}
	content := must(io.ReadAll(from))(t)
	return string(content)
}

// fetch is a request with headers given as name and value in turn; empty ones are not
// sent.
func fetch(s *Server, method, target string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, nil)
	for i := 0; i < len(headers); i += 2 {
		if headers[i+1] != "" {
			r.Header.Set(headers[i], headers[i+1])
		}
	}
	w := httptest.NewRecorder()
	s.Serve(w, r)
	return w
}

// Every path in every representation is the same in each coding, and who has it in one
// that it takes is not sent it again.
func TestWhatIsCompressedIsTheSame(t *testing.T) {
	s := newWorld(t).server(t)
	compressed := map[string]bool{}
	for _, target := range targets(s) {
		if target == offer.PathReceived { // changes with each request
			continue
		}
		for _, accept := range accepts {
			plain := fetch(s, "GET", target, "Accept", accept)
			got := fetch(s, "GET", target, "Accept", accept, "Accept-Encoding", "gzip")
			dropToken(plain.Header(), got.Header())
			what := target + " " + accept
			require.Equal(t, plain.Code, got.Code, what)
			require.Equal(t, got.Body.Len(), int(got.Result().ContentLength), what)
			size, tag := got.Body.Len(), got.Header().Get("Etag")
			require.Equal(t, plain.Body.String(), unpacked(t, got), what)

			head := fetch(s, "HEAD", target, "Accept", accept, "Accept-Encoding", "gzip")
			dropToken(head.Header())
			require.Equal(t, got.Header(), head.Header(), what)
			require.Zero(t, head.Body.Len(), what)
			require.Equal(t, plain.Header()["Vary"], got.Header()["Vary"], what)

			if got.Header().Get("Content-Encoding") == "" {
				require.Equal(t, plain.Header(), got.Header(), what)
				continue
			}
			compressed[target] = true
			require.Less(t, size, plain.Body.Len(), what)
			require.GreaterOrEqual(t, plain.Body.Len(), minCompressed, what)
			require.Contains(t, got.Header().Get("Vary"), "Accept-Encoding", what)
			require.Equal(t, "gzip", got.Header().Get("Content-Encoding"), what)
			require.Equal(t, strings.TrimSuffix(plain.Header().Get("Etag"), `"`)+`-gzip"`, tag, what)
			same := fetch(s, "GET", target, "Accept", accept, "Accept-Encoding", "gzip", "If-None-Match", `"other", `+tag)
			require.Equal(t, 304, same.Code, what)
			require.Equal(t, tag, same.Header().Get("Etag"), what)
			require.Zero(t, same.Body.Len(), what)
			require.Equal(t, got.Header()["Vary"], same.Header()["Vary"], what)
			require.Empty(t, same.Header().Get("Content-Length"), what)
		}
	}
	for _, target := range []string{"/openapi.json", "/.well-known/agent-card.json", "/llms.txt", "/v1/invoice", "/v1/pay", "/v1/pay/transfer", "/v1/sponsor"} {
		require.True(t, compressed[target], target)
	}
}

func TestGzipIsForClientsThatNameIt(t *testing.T) {
	s := newWorld(t).server(t)
	for accept, want := range map[string]string{
		"": "", "gzip": "gzip", "zstd": "", "GZIP": "gzip", "gzip, deflate, br, zstd": "gzip", "br, gzip;q=0.5": "gzip", "gzip;q=0": "", "gzip ; q=0.000": "",
		"identity": "", "*": "", "br": "", "gzip;q=2": "", "gzip;level=9": "", ",,,gzip,,": "gzip", "\x00gzip": "", ";q=1": "", "gzip gzip": "",
		strings.Repeat("x,", 100_000) + "gzip": "gzip", strings.Repeat("gzip;", 100_000): "",
	} {
		name := accept[:min(len(accept), 40)]
		got := fetch(s, "GET", "/openapi.json", "Accept-Encoding", accept)
		require.Equal(t, 200, got.Code, name)
		require.Equal(t, want, got.Header().Get("Content-Encoding"), name)
		require.NotEmpty(t, unpacked(t, got), name)
	}
}

// What one client alone may know, or has sent itself, tells nothing by its size.
func TestWhatIsOfOneClientIsNotCompressed(t *testing.T) {
	w := newWorld(t)
	w.outcome = x402.Outcome{Status: x402.Settled, Version: 2, Intent: "0x1", Response: &x402.SettleResponse{Success: true}}
	s := w.server(t)
	accept := []string{"Accept-Encoding", "gzip", "Accept", browser}
	for _, c := range []struct{ method, target string }{
		{"GET", "/v1/offer"}, {"POST", "/v1/offer"}, {"GET", "/v1/quote"}, {"POST", "/v1/sponsor"}, {"POST", "/mcp"},
		{"GET", "/v1/receipt/" + strings.Repeat("a", 2_000)}, {"GET", "/v1/thanks?session_id=cs_1"}, {"GET", "/v1/thanks"},
		{"GET", "/v1/received?limit=7"}, {"GET", "/v1/received?after=0"}, {"GET", "/v1/pay/none"},
		{"GET", "/.well-known/webfinger?resource=acct:pay@pay.example.org"},
	} {
		got := fetch(s, c.method, c.target, accept...)
		require.Empty(t, got.Header().Get("Content-Encoding"), c)
		require.NotContains(t, got.Header().Get("Vary"), "Accept-Encoding", c)
	}
	paid := fetch(s, "POST", "/v1/sponsor", "Accept-Encoding", "gzip", "PAYMENT-SIGNATURE", "e30=")
	require.Equal(t, http.StatusOK, paid.Code)
	require.Empty(t, paid.Header().Get("Content-Encoding"))
}
