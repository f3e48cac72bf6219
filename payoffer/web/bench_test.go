package web

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

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

// bare writes an answer as a handler does that has it in memory.
func bare(w http.ResponseWriter, rec *httptest.ResponseRecorder) {
	h := w.Header()
	for name, values := range rec.Header() {
		h[name] = values
	}
	w.WriteHeader(rec.Code)
	_, _ = w.Write(rec.Body.Bytes())
}
