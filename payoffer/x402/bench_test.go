package x402

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite" // the driver of the bare commits

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/postgres"
)

// sayYes is a facilitator in the process. It adds up its own time.
type sayYes struct {
	spent   time.Duration
	settled int
}

func (f *sayYes) RoundTrip(r *http.Request) (*http.Response, error) {
	start := time.Now()
	defer func() { f.spent += time.Since(start) }()
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return nil, err
	}
	body := `{"isValid":true}`
	if strings.HasSuffix(r.URL.Path, settleCall) {
		f.settled++
		body = fmt.Sprintf(`{"success":true,"network":"eip155:84532","transaction":"0x%064x"}`, f.settled)
	}
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(bytes.NewReader([]byte(body)))}, nil
}

// timedBook adds up the time of the ledger's part of a payment.
type timedBook struct {
	book
	spent time.Duration
}

func (b *timedBook) timed(f func() error) error {
	start := time.Now()
	defer func() { b.spent += time.Since(start) }()
	return f()
}

func (b *timedBook) LookUp(ctx context.Context, i ledger.Intent) (look ledger.Lookup, err error) {
	err = b.timed(func() error { look, err = b.book.LookUp(ctx, i); return err })
	return look, err
}

func (b *timedBook) InsertIntent(ctx context.Context, i ledger.Intent) error {
	return b.timed(func() error { return b.book.InsertIntent(ctx, i) })
}

func (b *timedBook) SettleIntent(ctx context.Context, key ledger.IntentKey, transaction string, answer []byte, evidence string) error {
	return b.timed(func() error { return b.book.SettleIntent(ctx, key, transaction, answer, evidence) })
}

// bareCommits is two durable commits of one small row each, with the settings
// of the ledger.
func bareCommits(b *testing.B, driver, dsn string) func(n int) {
	db, err := sql.Open(driver, dsn)
	require.NoError(b, err)
	db.SetMaxOpenConns(1)
	b.Cleanup(func() { require.NoError(b, db.Close()) })
	_, err = db.Exec(`CREATE TABLE bare (id INTEGER PRIMARY KEY, payload TEXT)`)
	require.NoError(b, err)
	return func(n int) {
		for half := range 2 {
			tx, err := db.Begin()
			require.NoError(b, err)
			_, err = tx.Exec(`INSERT INTO bare (id, payload) VALUES ($1, $2)`, 2*n+half, fmt.Sprint("payload ", n))
			require.NoError(b, err)
			require.NoError(b, tx.Commit())
		}
	}
}

// BenchmarkPaid is a paid request without its facilitator's time. The metric
// "x-two-commits" compares its median with that of two bare durable commits in
// the same run, and "own-µs" is its median without the ledger's time.
func BenchmarkPaid(b *testing.B) {
	b.Run("sqlite", func(b *testing.B) {
		benchmarkPaid(b, openLedger(b), bareCommits(b, "sqlite", "file:"+filepath.Join(b.TempDir(), "bare.db")+
			"?_txlock=immediate&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=foreign_keys(1)"))
	})
	b.Run("postgres", func(b *testing.B) {
		server := postgres.Shared(b)
		l, err := ledger.NewPostgres(server.DSN(b), time.Now)
		require.NoError(b, err)
		require.NoError(b, l.Open(b.Context()))
		b.Cleanup(func() { require.NoError(b, l.Close()) })
		benchmarkPaid(b, l, bareCommits(b, "pgx", server.DSN(b)))
	})
}

func benchmarkPaid(b *testing.B, stored book, commit func(n int)) {
	facilitator := new(sayYes)
	f, err := NewFacilitator(FacilitatorConfig{URL: "https://facilitator.example", Transport: facilitator})
	require.NoError(b, err)
	l := &timedBook{book: stored}
	s := newShop(b, setup{made: []*Facilitator{f}, ledger: l, signer: newTestSigner(1), limiter: limited(math.MaxInt, time.Hour)})
	var paid, own, bare []time.Duration
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		b.StopTimer()
		payload := stranger(n).v2(b)
		start := time.Now()
		commit(n)
		bare = append(bare, time.Since(start))
		facilitator.spent, l.spent = 0, 0
		b.StartTimer()
		start = time.Now()
		outcome := s.pay(payload)
		took := time.Since(start) - facilitator.spent
		paid, own = append(paid, took), append(own, took-l.spent)
		if outcome.Status != Settled {
			b.Fatal(outcome.Detail)
		}
	}
	b.ReportMetric(float64(median(paid).Microseconds()), "median-µs")
	b.ReportMetric(float64(median(own).Microseconds()), "own-µs")
	b.ReportMetric(float64(median(paid))/float64(median(bare)), "x-two-commits")
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

// BenchmarkClaimsAtRest is what looking for due intents costs where a
// facilitator's word is all there is of very many payments. It looks every 2 s,
// so that a millisecond of it is a two-thousandth of a core. "of-none" compares
// it with an empty ledger in the same run.
func BenchmarkClaimsAtRest(b *testing.B) {
	claims := 5_000
	if os.Getenv("FULL") == "1" {
		claims = 50_000
	}
	full, none := newShop(b, setup{made: []*Facilitator{unreachable(b)}}), newShop(b, setup{made: []*Facilitator{unreachable(b)}})
	for n := range claims {
		p, err := decodePayment(stranger(n).v2(b))
		require.NoError(b, err)
		i := full.newIntent(p, &full.Service.Rails[0])
		require.NoError(b, full.book.InsertIntent(b.Context(), i))
		require.NoError(b, full.book.SettleIntent(b.Context(), i.IntentKey, fmt.Sprintf("0x%064x", n+1), nil, ledger.EvidenceFacilitator))
	}
	timed := func(s *shop) (took time.Duration) {
		start := time.Now()
		s.Resolve(b.Context())
		return time.Since(start)
	}
	var with, without []time.Duration
	b.ReportAllocs()
	for b.Loop() {
		with = append(with, timed(full))
		b.StopTimer()
		without = append(without, timed(none))
		b.StartTimer()
	}
	b.ReportMetric(float64(median(with))/float64(median(without)), "of-none")
}

func unreachable(b *testing.B) *Facilitator {
	f, err := NewFacilitator(FacilitatorConfig{URL: "https://facilitator.example"})
	require.NoError(b, err)
	return f
}
