package web

import (
	"bytes"
	"compress/gzip"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/payoffer/caddy-pay-offer/payoffer/text"
)

// minCompressed is the smallest body in bytes that has a gzip form.
const minCompressed = 1 << 10

var varyEncoding = header{"Vary", "Accept-Encoding"}

// compressible is a response with status 200 and a gzip form, which the first client that
// accepts it causes. Never use it for secrets: their size would reveal them (BREACH).
func (re responder) compressible(contentType, cache string, body []byte, headers ...header) *response {
	if len(body) < minCompressed {
		return re.render(http.StatusOK, contentType, cache, body, headers...)
	}
	res := re.render(http.StatusOK, contentType, cache, body, append(headers, varyEncoding)...)
	res.gzipped = sync.OnceValue(res.gzip)
	return res
}

// gzip is the compressed form. Its strong entity tag ends in -gzip, as that of Caddy's encode.
func (res *response) gzip() *response {
	var body bytes.Buffer
	w, _ := gzip.NewWriterLevel(&body, gzip.BestCompression) // the level is valid
	_, _ = w.Write(res.body)                                 // a buffer accepts all
	_ = w.Close()
	form := &response{status: res.status, body: bytes.Clone(body.Bytes()), header: maps.Clone(res.header)}
	form.header["Content-Encoding"] = []string{"gzip"}
	form.header["Content-Length"] = []string{strconv.Itoa(len(form.body))}
	if tag := res.header.Get("Etag"); strings.HasPrefix(tag, `"`) {
		form.header["Etag"] = []string{strings.TrimSuffix(tag, `"`) + `-gzip"`}
	}
	return form
}

// acceptsGzip reports whether a client names gzip in Accept-Encoding (RFC 9110 section 12.5.3).
func acceptsGzip(lines []string) bool {
	for _, line := range lines {
		for item := range strings.SplitSeq(line, ",") {
			coding, parameter, _ := strings.Cut(item, ";")
			if strings.EqualFold(strings.TrimSpace(coding), "gzip") {
				return text.Quality(parameter) > 0
			}
		}
	}
	return false
}
