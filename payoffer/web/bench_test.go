package web

import (
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// discard is a ResponseWriter that keeps its headers only.
type discard struct{ header http.Header }

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }
func (d *discard) WriteHeader(int)             {}

// BenchmarkDocument compares a served document with a bare handler that writes
// the same status, headers and bytes, over HTTP on loopback in the same run.
func BenchmarkDocument(b *testing.B) { compare(b, "GET", "/.well-known/agent-card.json") }

// BenchmarkQuote402 compares a 402 likewise.
func BenchmarkQuote402(b *testing.B) { compare(b, "GET", "/v1/quote") }

// BenchmarkLargeDocument compares the largest document likewise.
func BenchmarkLargeDocument(b *testing.B) { compare(b, "GET", "/openapi.json") }

// BenchmarkChallenge402 compares one that challenges, which the bare handler
// repeats.
func BenchmarkChallenge402(b *testing.B) { compare(b, "POST", "/v1/sponsor") }

// compare reports the time of a request relative to the bare handler as
// "ratio": the two take turns, so that both meet the same machine.
func compare(b *testing.B, method, target string) {
	s := newWorld(b).server(b)
	rec := fetch(s, method, target, "Accept-Encoding", "gzip")
	ours := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.Serve(w, r) }))
	defer ours.Close()
	theirs := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { bare(w, rec) }))
	defer theirs.Close()

	const turn = 20
	request := func(server *httptest.Server) time.Duration {
		start := time.Now()
		for range turn {
			r, err := http.NewRequest(method, server.URL+target, nil)
			if err != nil {
				b.Fatal(err)
			}
			r.Header.Set("Accept-Encoding", "gzip") // so that nobody unpacks it
			res, err := server.Client().Do(r)
			if err != nil {
				b.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, res.Body) // so that the connection is used again
			res.Body.Close()
		}
		return time.Since(start)
	}
	var spentOurs, spentBare time.Duration
	for b.Loop() {
		spentOurs += request(ours)
		spentBare += request(theirs)
	}
	b.ReportMetric(spentOurs.Seconds()/spentBare.Seconds(), "ratio")
	b.ReportMetric(float64(spentOurs.Nanoseconds())/float64(b.N*turn), "ns/request")
}

// BenchmarkServe is the same without HTTP around it: what the server itself
// costs and allocates, beside the bare handler.
func BenchmarkServe(b *testing.B) {
	s := newWorld(b).server(b)
	for name, asked := range map[string][2]string{
		"document": {"GET", "/.well-known/agent-card.json"}, "quote": {"GET", "/v1/quote"}, "challenge": {"POST", "/v1/sponsor"},
	} {
		r := httptest.NewRequest(asked[0], asked[1], nil)
		r.Header.Set("Accept", "*/*")
		rec := httptest.NewRecorder()
		s.Serve(rec, r)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				s.Serve(&discard{make(http.Header)}, r)
			}
		})
		b.Run(name+"/bare", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				bare(&discard{make(http.Header)}, rec)
			}
		})
	}
}

// bare writes an answer as a handler does that has it in memory.
func bare(w http.ResponseWriter, rec *httptest.ResponseRecorder) {
	h := w.Header()
	for name, values := range rec.Header() {
		h[name] = values
	}
	w.WriteHeader(rec.Code)
	_, _ = w.Write(rec.Body.Bytes())
}

// BenchmarkIdle puts 200 offers to work that nobody asks for anything, and says what
// each takes to begin with and what it holds.
func BenchmarkIdle(b *testing.B) {
	const offers = 200
	c := newWorld(b).config()
	var held, after runtime.MemStats
	for b.Loop() {
		servers := make([]*Server, offers)
		runtime.GC()
		runtime.ReadMemStats(&held)
		for i := range servers {
			s, err := New(c)
			require.NoError(b, err)
			servers[i] = s
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		runtime.KeepAlive(servers)
	}
	b.ReportMetric(float64(int64(after.HeapAlloc)-int64(held.HeapAlloc))/offers, "bytes-held/offer")
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/offers, "µs/offer")
}
