package web

import (
	"fmt"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
)

// BenchmarkReceived answers from a ledger of 100,000 receipts (a million with
// FULL=1), as a ratio to one of ten: the report, a page of old receipts, and the
// end of the feed, ten entries each.
func BenchmarkReceived(b *testing.B) {
	many := 100_000
	if os.Getenv("FULL") == "1" {
		many = 1_000_000
	}
	small, large := filled(b, 10), filled(b, many)
	for _, bench := range []struct {
		name   string
		target func(receipts int) string
	}{
		{"report", func(int) string { return "/v1/received?limit=10" }},
		{"older", func(receipts int) string { return fmt.Sprintf("/v1/received?limit=10&before=%d", max(11, receipts/2)) }},
		{"feed", func(receipts int) string { return fmt.Sprintf("/v1/received?limit=10&after=%d", receipts-10) }},
	} {
		b.Run(bench.name, func(b *testing.B) {
			sides := []struct {
				server   *Server
				receipts int
				spent    time.Duration
			}{{server: small, receipts: 10}, {server: large, receipts: many}}
			for b.Loop() {
				for i := range sides { // in turn, so that both meet the same machine
					side := &sides[i]
					r := httptest.NewRequest("GET", bench.target(side.receipts), nil)
					w := httptest.NewRecorder()
					start := time.Now()
					side.server.Serve(w, r)
					side.spent += time.Since(start)
					require.Equal(b, 200, w.Code)
				}
			}
			b.ReportMetric(float64(sides[1].spent)/float64(sides[0].spent), "ratio")
			b.ReportMetric(float64(sides[0].spent.Nanoseconds())/float64(b.N), "ns/small")
			b.ReportMetric(float64(sides[1].spent.Nanoseconds())/float64(b.N), "ns/large")
		})
	}
}

// filled is a server on a ledger with n receipts, one transition each.
func filled(b *testing.B, n int) *Server {
	w := newWorld(b)
	book := openLedger(b, w.offer.ID)
	for done := 0; done < n; {
		var batch []ledger.Sighting
		for ; len(batch) < 2_000 && done < n; done++ {
			batch = append(batch, cardPayment(w.offer.ID, done, []ledger.Status{ledger.StatusSeen, ledger.StatusConfirmed}[done%2]))
		}
		_, err := book.Record(b.Context(), nil, batch...)
		require.NoError(b, err)
	}
	c := w.config()
	c.Receipts = book
	s, err := New(c)
	require.NoError(b, err)
	return s
}
