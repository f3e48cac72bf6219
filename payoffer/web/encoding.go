package web

import (
	"bytes"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// worthPacking is how many bytes an answer has that is compressed.
const worthPacking = 1 << 10

// varyEncoding stands on every variant of what is compressed for who takes it.
var varyEncoding = header{"Vary", "Accept-Encoding"}

// Content codings, in the order in which clients are given them.
const (
	codingZstd = iota
	codingGzip
	codingNone
	codings
)

// codingNames are those of the codings that compress.
var codingNames = [...]string{codingZstd: "zstd", codingGzip: "gzip"}

// packed is what is compressed of a response, by coding: each when a client first
// takes it.
type packed [codingNone]struct {
	once sync.Once
	*response
}

// kept is a response with status 200 that many are given, and which therefore is kept
// compressed, too. It holds nothing that one client alone may know: what is secret must
// not be compressed beside what others choose.
func (re responder) kept(contentType, cache string, body []byte, headers ...header) *response {
	if len(body) < worthPacking {
		return re.render(http.StatusOK, contentType, cache, body, headers...)
	}
	res := re.render(http.StatusOK, contentType, cache, body, append(headers, varyEncoding)...)
	res.packed = new(packed)
	if len(body) >= worthFading {
		res.body, res.fading = nil, newFading(body)
	}
	return res
}

// suited is the variant of the response that a client is given: what it prefers of
// what it takes, or another of these that it has already.
func (res *response) suited(h http.Header) *response {
	takes := qualities(h["Accept-Encoding"])
	chosen := codingNone
	for coding := range codingNone {
		if q := takes[coding]; q > 0 && q >= takes[codingNone] && (chosen == codingNone || q > takes[chosen]) {
			chosen = coding
		}
	}
	variant, held := res.in(chosen), h["If-None-Match"]
	if res.etag == "" || len(held) == 0 || matches(held, variant.etag) {
		return variant
	}
	for coding := range codings {
		if takes[coding] > 0 && matches(held, res.tagIn(coding)) {
			return res.in(coding)
		}
	}
	return variant
}

// in is the response in a coding, or as it is where that makes it no smaller.
func (res *response) in(coding int) *response {
	if coding == codingNone {
		return res
	}
	variant := &res.packed[coding]
	variant.once.Do(func() { variant.response = res.pack(coding) })
	return variant.response
}

func (res *response) pack(coding int) *response {
	var body []byte
	if whole := res.whole(); coding == codingZstd && res.fading != nil {
		body = res.fading.packed
	} else if body = compress[coding](whole); len(body) >= len(whole) {
		return res
	}
	variant := *res
	variant.packed, variant.fading, variant.body = nil, nil, body
	variant.single = append([]string{"Content-Encoding"}, res.single...)
	variant.values = append([]string{codingNames[coding]}, res.values...)
	if res.etag != "" {
		variant.etag = res.tagIn(coding)
	}
	for i, name := range variant.single {
		switch {
		case name == "Content-Length":
			variant.values[i] = strconv.Itoa(len(body))
		case name == "Etag" && res.etag != "": // a weak one is of every variant
			variant.values[i] = variant.etag
		}
	}
	return &variant
}

// tagIn is the entity tag of the response in a coding, as Caddy's encode writes it.
func (res *response) tagIn(coding int) string {
	if coding == codingNone {
		return res.etag
	}
	return strings.TrimSuffix(res.etag, `"`) + "-" + codingNames[coding] + `"`
}

// compress are what the codings do.
var compress = [...]func([]byte) []byte{
	codingZstd: func(body []byte) []byte {
		// The window of clients is never too small for what has a single segment.
		w, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true), zstd.WithSingleSegment(true))
		if err != nil {
			panic("web: " + err.Error()) // the options are these alone
		}
		return bytes.Clone(w.EncodeAll(body, nil))
	},
	codingGzip: func(body []byte) []byte {
		var out bytes.Buffer
		w, _ := gzip.NewWriterLevel(&out, gzip.BestCompression) // there is such a level
		_, _ = w.Write(body)                                    // memory is written
		_ = w.Close()
		return bytes.Clone(out.Bytes())
	},
}

// qualities are those that a client gives to the codings, in thousandths, 0 for one
// that it does not take (RFC 9110 section 12.5.3). A client that says nothing takes
// all, and is given none. The wildcard counts for gzip, which everybody reads, but not
// for zstd, which has to be named. No coding is the least that a client takes who does
// not refuse it, and what one is given that takes nothing.
func qualities(lines []string) (takes [codings]int) {
	if len(lines) == 0 {
		return [codings]int{1, 1, 1000}
	}
	named, others := [codings]bool{}, -1
	for _, line := range lines {
		for item := range strings.SplitSeq(line, ",") {
			name, parameters, _ := strings.Cut(item, ";")
			q, ok := weight(parameters)
			if !ok {
				continue
			}
			coding := codingNone
			switch name = strings.Trim(name, " \t"); {
			case name == "*":
				others = q
				continue
			case strings.EqualFold(name, "zstd"):
				coding = codingZstd
			case strings.EqualFold(name, "gzip") || strings.EqualFold(name, "x-gzip"):
				coding = codingGzip
			case !strings.EqualFold(name, "identity"):
				continue
			}
			named[coding], takes[coding] = true, q
		}
	}
	if !named[codingGzip] {
		takes[codingGzip] = max(others, 0)
	}
	if !named[codingNone] {
		takes[codingNone] = 1
		if others >= 0 {
			takes[codingNone] = others
		}
	}
	return takes
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
