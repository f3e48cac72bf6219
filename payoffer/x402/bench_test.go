package x402

import (
	"bytes"
	"database/sql"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/crypto"
	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite" // the driver of the bare commits
)

// sayYes is a facilitator in the process. It adds up its own time.
type sayYes struct{ spent time.Duration }

func (f *sayYes) RoundTrip(r *http.Request) (*http.Response, error) {
	start := time.Now()
	defer func() { f.spent += time.Since(start) }()
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return nil, err
	}
	body := `{"isValid":true}`
	if strings.HasSuffix(r.URL.Path, settleCall) {
		body = `{"success":true,"network":"eip155:84532","transaction":"` + someTransaction + `"}`
	}
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(bytes.NewReader([]byte(body)))}, nil
}

// bareCommits is two durable commits of one small row each, with the settings
// of the ledger.
func bareCommits(b *testing.B) func(n int) {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(b.TempDir(), "bare.db")+
		"?_txlock=immediate&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=foreign_keys(1)")
	require.NoError(b, err)
	db.SetMaxOpenConns(1)
	b.Cleanup(func() { require.NoError(b, db.Close()) })
	_, err = db.Exec(`CREATE TABLE bare (id INTEGER PRIMARY KEY, payload TEXT)`)
	require.NoError(b, err)
	return func(n int) {
		for range 2 {
			tx, err := db.Begin()
			require.NoError(b, err)
			_, err = tx.Exec(`INSERT INTO bare (payload) VALUES ($1)`, fmt.Sprint("payload ", n))
			require.NoError(b, err)
			require.NoError(b, tx.Commit())
		}
	}
}

// BenchmarkPaid is a paid request without its facilitator's time. The metric
// "x-two-commits" compares its median with that of two bare durable commits in
// the same run.
func BenchmarkPaid(b *testing.B) {
	facilitator, commit := new(sayYes), bareCommits(b)
	f, err := NewFacilitator(FacilitatorConfig{URL: "https://facilitator.example", Transport: facilitator})
	require.NoError(b, err)
	s := newShop(b, setup{made: []*Facilitator{f}, limit: Limit{Attempts: 1 << 40, Period: time.Hour}})
	var paid, bare []time.Duration
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		b.StopTimer()
		buyer := newBuyer(n)
		buyer.signer = crypto.ToECDSAUnsafe(crypto.Keccak256([]byte(buyer.auth.Nonce)))
		buyer.auth.From = crypto.PubkeyToAddress(buyer.signer.PublicKey).Hex()
		payload := buyer.v2(b)
		start := time.Now()
		commit(n)
		bare = append(bare, time.Since(start))
		facilitator.spent = 0
		b.StartTimer()
		start = time.Now()
		outcome := s.pay(payload)
		paid = append(paid, time.Since(start)-facilitator.spent)
		if outcome.Status != Settled {
			b.Fatal(outcome.Detail)
		}
	}
	b.ReportMetric(float64(median(paid).Microseconds()), "median-µs")
	b.ReportMetric(float64(median(paid))/float64(median(bare)), "x-two-commits")
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}
