package gate

import (
	"compress/gzip"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
)

const files = `
http://site.localhost:{PORT} {
	root {ROOT}
	pay_offer_gate /members/* {
		start /members/
	}
	file_server {
		browse
		precompressed gzip
	}
	handle_errors {
		@missing expression {err.status_code} == 404
		respond @missing "the error page of the site" 404
		file_server
	}
}
`

func TestLargeFileUsesLittleMemory(t *testing.T) {
	const (
		size   = 1 << 30
		at     = 700_000_001
		marker = "in the middle"
	)
	t.Setenv("GOGC", "100") // as for an operator; the tests' own value trades memory for time
	s := openStore(t, files, map[string]string{"members/index.html": secret})
	name := filepath.Join(s.root, "members", "video.mp4")
	file, err := os.Create(name)
	require.NoError(t, err)
	require.NoError(t, file.Truncate(size))
	_, err = file.WriteAt([]byte(marker), at)
	require.NoError(t, err)
	_, err = file.WriteAt([]byte("the end"), size-7)
	require.NoError(t, err)
	require.NoError(t, file.Close())

	v := s.entered("large")
	part := v.get("/members/video.mp4", "Range", "bytes=700000001-700000013")
	require.Equal(t, http.StatusPartialContent, part.Status)
	require.Equal(t, marker, part.Body)
	require.Equal(t, "bytes 700000001-700000013/1073741824", part.Header.Get("Content-Range"))
	require.Equal(t, "the end", v.get("/members/video.mp4", "Range", "bytes=-7").Body)
	require.Equal(t, marker, v.get("/members/video.mp4", "Range", "bytes=700000001-700000013", "If-Range", part.Header.Get("ETag")).Body)
	require.Equal(t, http.StatusRequestedRangeNotSatisfiable, v.get("/members/video.mp4", "Range", "bytes=1073741824-").Status)
	requireTerms(t, s.visitor().get("/members/video.mp4", "Range", "bytes=700000001-700000013"), "a range")

	before := lab.Resident(t, s.process.Pid())
	answer := lab.Must(v.client.Get(s.site + "/members/video.mp4"))(t)
	defer answer.Body.Close()
	require.EqualValues(t, size, answer.ContentLength)
	for range 16 {
		n := lab.Must(io.CopyN(io.Discard, answer.Body, size/16))(t)
		require.EqualValues(t, size/16, n)
		require.Less(t, lab.Resident(t, s.process.Pid())-before, 64<<20, "the server does not hold the file in its memory")
	}
	n := lab.Must(io.Copy(io.Discard, answer.Body))(t)
	require.Zero(t, n)
}

func TestGatedFilesNeedPass(t *testing.T) {
	t.Parallel()
	var packed strings.Builder
	w := gzip.NewWriter(&packed)
	_, err := w.Write([]byte(secret + ", packed"))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	s := openStore(t, files, map[string]string{
		"open.txt": "free", "members/a.txt": secret, "members/listed": secret, "members/page.html": secret, "members/page.html.gz": packed.String(), "members/more/index.html": secret,
	})
	payer, stranger := s.entered("files"), s.visitor()
	full := payer.get("/members/a.txt")
	require.Equal(t, secret, full.Body)

	requests := 0
	for _, target := range []string{
		"/members/a.txt", "/members/", "/members/page.html", "/members/page.html.gz", "/members/more", "/members/more/", "/members/?sort=name&order=desc",
	} {
		for _, headers := range [][]string{
			nil, {"Accept", "text/html"}, {"Accept", "application/json"}, {"Accept-Encoding", "gzip"}, {"Range", "bytes=0-3"},
			{"If-None-Match", full.Header.Get("ETag")}, {"If-None-Match", "*"}, {"If-Match", full.Header.Get("ETag")}, {"If-Match", `"other"`},
			{"If-Modified-Since", full.Header.Get("Last-Modified")}, {"If-Unmodified-Since", "Mon, 01 Jan 2001 00:00:00 GMT"},
			{"If-Range", full.Header.Get("ETag"), "Range", "bytes=0-3"}, {"Expect", "100-continue"},
			{"X-Forwarded-Method", "OPTIONS"}, {"X-Http-Method-Override", "OPTIONS"}, {"X-Original-Url", "/open.txt"}, {"X-Rewrite-Url", "/open.txt"},
		} {
			for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, "PROPFIND"} {
				a := stranger.send(method, target, headers...)
				requireTerms(t, a, method+" "+target+" "+strings.Join(headers, " "))
				require.NotContains(t, a.Body, "listed", target)
				require.NotContains(t, a.Body, packed.String(), target)
				if method == http.MethodHead {
					require.Empty(t, a.Body)
				}
				requests++
			}
		}
	}
	t.Logf("%d requests without a pass", requests)
	require.Equal(t, "free", stranger.get("/open.txt").Body, "only the matcher's paths are gated")
	require.NotContains(t, stranger.get("/").Body, "listed", "the listing above the gate")

	require.Equal(t, http.StatusNotModified, payer.get("/members/a.txt", "If-None-Match", full.Header.Get("ETag")).Status)
	require.Equal(t, http.StatusNotModified, payer.get("/members/a.txt", "If-Modified-Since", full.Header.Get("Last-Modified")).Status)
	head := payer.send(http.MethodHead, "/members/a.txt")
	require.Equal(t, http.StatusOK, head.Status)
	require.Equal(t, full.Header.Get("Content-Length"), head.Header.Get("Content-Length"))
	require.Contains(t, payer.get("/members/").Body, "listed", "payers get the listing")
	require.Equal(t, packed.String(), payer.get("/members/page.html", "Accept-Encoding", "gzip").Body)
	require.Zero(t, s.charged())
}
