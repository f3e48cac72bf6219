package web

import (
	"bytes"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"
)

// worthPacking is how many bytes an answer has that is compressed.
const worthPacking = 1 << 10

// varyEncoding is on both forms of a response that is sent compressed to clients that accept it.
var varyEncoding = header{"Vary", "Accept-Encoding"}

// zipped is the gzip form of a response, which the first client that takes it has made.
type zipped struct {
	once sync.Once
	*response
}

// kept is a response with status 200 that many clients are given, and which is therefore
// kept compressed, too. It must not contain what one client alone may know: a secret must
// not be compressed beside what others choose.
func (re responder) kept(contentType, cache string, body []byte, headers ...header) *response {
	if len(body) < worthPacking {
		return re.render(http.StatusOK, contentType, cache, body, headers...)
	}
	res := re.render(http.StatusOK, contentType, cache, body, append(headers, varyEncoding)...)
	res.zipped = new(zipped)
	return res
}

// suited is the form of the response that a client is given: the one that it prefers, or
// the other one if it takes that and has it already.
func (res *response) suited(h http.Header) *response {
	zip, plain := qualities(h["Accept-Encoding"])
	wanted := zip > 0 && zip >= plain
	if held := h["If-None-Match"]; res.etag != "" && len(held) > 0 && zip > 0 && plain > 0 {
		if has := matches(held, zippedTag(res.etag)); has != matches(held, res.etag) {
			wanted = has
		}
	}
	if !wanted {
		return res
	}
	res.zipped.once.Do(func() { res.zipped.response = res.zip() })
	return res.zipped.response
}

// zip is the response compressed, or as it is if that makes it no smaller.
func (res *response) zip() *response {
	var out bytes.Buffer
	w, _ := gzip.NewWriterLevel(&out, gzip.BestCompression) // there is such a level
	_, _ = w.Write(res.body)                                // memory is written
	_ = w.Close()
	if out.Len() >= len(res.body) {
		return res
	}
	variant := *res
	variant.zipped, variant.body = nil, bytes.Clone(out.Bytes())
	variant.single = append([]string{"Content-Encoding"}, res.single...)
	variant.values = append([]string{"gzip"}, res.values...)
	if res.etag != "" {
		variant.etag = zippedTag(res.etag)
	}
	for i, name := range variant.single {
		switch {
		case name == "Content-Length":
			variant.values[i] = strconv.Itoa(len(variant.body))
		case name == "Etag" && res.etag != "": // a weak one is of both forms
			variant.values[i] = variant.etag
		}
	}
	return &variant
}

// zippedTag is the entity tag of the gzip form, as Caddy's encode writes it.
func zippedTag(etag string) string { return strings.TrimSuffix(etag, `"`) + `-gzip"` }

// qualities are those that a client gives to gzip and to the plain form, in thousandths,
// 0 for one that it does not take (RFC 9110 section 12.5.3). A client that sends no header
// takes both, and is given the plain form. The wildcard counts for gzip. The plain form is
// the least preferred one unless the client names it.
func qualities(lines []string) (zip, plain int) {
	if len(lines) == 0 {
		return 1, 1000
	}
	zip, plain, others := -1, -1, -1
	for _, line := range lines {
		for item := range strings.SplitSeq(line, ",") {
			name, parameters, _ := strings.Cut(item, ";")
			q, ok := weight(parameters)
			if !ok {
				continue
			}
			switch name = strings.Trim(name, " \t"); {
			case name == "*":
				others = q
			case strings.EqualFold(name, "gzip") || strings.EqualFold(name, "x-gzip"):
				zip = q
			case strings.EqualFold(name, "identity"):
				plain = q
			}
		}
	}
	if zip < 0 {
		zip = max(others, 0)
	}
	if plain < 0 {
		if plain = others; others < 0 {
			plain = 1
		}
	}
	return zip, plain
}

// weight reads the parameters of an item of Accept-Encoding, of which there is but the
// quality; false where it is not well-formed.
func weight(parameters string) (q int, ok bool) {
	parameters = strings.Trim(parameters, " \t")
	if parameters == "" {
		return 1000, true
	}
	name, value, _ := strings.Cut(parameters, "=")
	if !strings.EqualFold(name, "q") {
		return 0, false
	}
	return thousandths(value)
}
