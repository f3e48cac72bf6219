package ledger

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// BenchmarkSettlement is the ledger's part of a paid request, two durable
// commits, as a ratio to two commits of one bare row each.
func BenchmarkSettlement(b *testing.B) {
	for _, d := range []testDialect{sqliteTests, postgresTests} {
		b.Run(d.name, func(b *testing.B) { benchmarkSettlement(b, d) })
	}
}

func benchmarkSettlement(b *testing.B, d testDialect) {
	l, _ := d.ledger(b)
	_, err := l.db.write.Exec("CREATE TABLE bare (id INTEGER PRIMARY KEY, payload TEXT)")
	require.NoError(b, err)
	b.ReportAllocs()
	var bare, settlement time.Duration
	for n := 0; b.Loop(); n++ {
		intent := testIntent(fmt.Sprintf("0x%d", n), "0x01")
		start := time.Now()
		for i := range 2 {
			_, err := l.db.write.Exec("INSERT INTO bare (id, payload) VALUES ($1, $2)", 2*n+i, string(intent.Payload))
			require.NoError(b, err)
		}
		bare += time.Since(start)

		start = time.Now()
		require.NoError(b, l.InsertIntent(b.Context(), intent))
		require.NoError(b, l.SettleIntent(b.Context(), intent.IntentKey, fmt.Sprintf("0x%d", n), []byte(`{"success":true}`), EvidenceFacilitator))
		settlement += time.Since(start)
	}
	b.ReportMetric(float64(settlement)/float64(bare), "×bare")
	b.ReportMetric(float64(settlement.Microseconds())/float64(b.N), "µs/settlement")
}

// BenchmarkTotals reads the sums over 100,000 receipts, as a ratio to 10.
func BenchmarkTotals(b *testing.B) {
	for _, d := range []testDialect{sqliteTests, postgresTests} {
		b.Run(d.name, func(b *testing.B) { benchmarkTotals(b, d) })
	}
}

func benchmarkTotals(b *testing.B, d testDialect) {
	small, _ := d.ledger(b)
	large, _ := d.ledger(b)
	fill(b, small, 10)
	fill(b, large, 100_000)
	var few, many time.Duration
	for b.Loop() {
		for _, side := range []struct {
			l    *Ledger
			time *time.Duration
		}{{small, &few}, {large, &many}} {
			start := time.Now()
			_, err := side.l.Totals(b.Context(), testOffer)
			require.NoError(b, err)
			*side.time += time.Since(start)
		}
	}
	b.ReportMetric(float64(many)/float64(few), "×10rows")
}

func fill(b *testing.B, l *Ledger, n int) {
	b.Helper()
	for done := 0; done < n; {
		var batch []Sighting
		for ; len(batch) < 1000 && done < n; done++ {
			batch = append(batch, chainSighting(fmt.Sprint(done), []Status{StatusSeen, StatusConfirmed}[done%2]))
		}
		_, err := l.Record(b.Context(), nil, batch...)
		require.NoError(b, err)
	}
}
