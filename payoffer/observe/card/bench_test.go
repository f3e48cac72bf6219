package card

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// BenchmarkReceiveAt200PerSecond sends deliveries 5 ms apart, whether or not
// earlier ones were answered, to a ledger on disk. Each is timed from when it
// was due. It reports the median and the 99th percentile in milliseconds; run
// it with -benchtime 10s.
func BenchmarkReceiveAt200PerSecond(b *testing.B) {
	const pause = 5 * time.Millisecond
	r := newRig(b, withoutKey)
	deliveries := make([]observe.Delivery, b.N)
	for i := range deliveries {
		body := []byte(strings.Replace(paidEvent, "pi_1", fmt.Sprintf("pi_%d", i), 1))
		deliveries[i] = delivery(body, payoffertest.SignDelivery(body, r.clock.Now(), testSecret))
	}
	took := make([]time.Duration, b.N)
	verdicts := make([]observe.Verdict, b.N)
	var work sync.WaitGroup
	b.ResetTimer()
	start := time.Now()
	for i, d := range deliveries {
		due := start.Add(time.Duration(i) * pause)
		time.Sleep(time.Until(due))
		work.Go(func() {
			verdicts[i], _ = r.Receive(b.Context(), d)
			took[i] = time.Since(due)
		})
	}
	work.Wait()
	b.StopTimer()
	for _, verdict := range verdicts {
		require.Equal(b, observe.Recorded, verdict)
	}
	slices.Sort(took)
	b.ReportMetric(milliseconds(took[len(took)/2]), "p50-ms")
	b.ReportMetric(milliseconds(took[len(took)*99/100]), "p99-ms")
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// BenchmarkVerify checks one signature of a body of 4 KiB, the size of a usual
// event.
func BenchmarkVerify(b *testing.B) {
	body := []byte(strings.Repeat("0123456789abcdef", 256))
	header := payoffertest.SignDelivery(body, time.Unix(testStart, 0), testSecret)
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		if err := Verify(testSecret, header, body, time.Unix(testStart, 0)); err != nil {
			b.Fatal(err)
		}
	}
}
