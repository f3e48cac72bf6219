package web

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// slow is a ledger whose readings take a while, and end with their context.
type slow struct {
	*world
	mu    sync.Mutex // guards all that a test changes while it is read
	takes time.Duration
	// under counts the readings under way, and most is how many there were at once.
	under, most atomic.Int64
}

func (s *slow) TotalsAndReceipts(ctx context.Context, offerID string, before int64, limit int) ([]ledger.Total, []ledger.Receipt, error) {
	s.most.Store(max(s.most.Load(), s.under.Add(1)))
	defer s.under.Add(-1)
	s.mu.Lock()
	takes := s.takes
	s.mu.Unlock()
	select {
	case <-time.After(takes):
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.world.TotalsAndReceipts(ctx, offerID, before, limit)
}

// set changes what is read next.
func (s *slow) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// openPages is a server on such a ledger, with the time of the bubble.
func openPages(t *testing.T, takes time.Duration) (*slow, *Server) {
	w := newWorld(t)
	var changes atomic.Uint64
	w.changed = changes.Load
	book := &slow{world: w, takes: takes}
	c := w.config()
	c.Receipts, c.Now = book, time.Now
	s := must(New(c))(t)
	return book, s
}

func ask(s *Server, ctx context.Context, target, accept string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(ctx, "GET", target, nil)
	r.Header.Set("Accept", accept)
	w := httptest.NewRecorder()
	s.Serve(w, r)
	return w
}

func TestSnapshotReadsLedgerOncePerSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		book, s := openPages(t, 300*time.Millisecond)
		const pages, lasts = 500, 20 * time.Second
		var asking sync.WaitGroup
		for page := range pages {
			asking.Go(func() {
				time.Sleep(time.Duration(page) * 8 * time.Millisecond)
				for end := time.Now().Add(lasts); time.Now().Before(end); time.Sleep(4 * time.Second) {
					ask(s, t.Context(), "/v1/received", browser)
				}
			})
		}
		asking.Wait()
		require.LessOrEqual(t, book.reads.Load(), int64((lasts+4*time.Second)/time.Second))
		require.EqualValues(t, 1, book.most.Load(), "never two at once")
		before := book.reads.Load()
		time.Sleep(time.Hour)
		require.Equal(t, before, book.reads.Load(), "nobody asks")
	})
}

func TestSnapshotContainsEarlierPayment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		book, s := openPages(t, time.Second/2)
		var changes atomic.Uint64
		book.changed = changes.Load
		early := make(chan string)
		go func() { early <- ask(s, t.Context(), "/v1/received", "application/json").Body.String() }()
		time.Sleep(time.Second / 4) // a reading is under way that may not hold what is committed now
		book.set(func() { book.totals = []ledger.Total{confirmed("card", ledger.LevelSigned, 42_00)} })
		changes.Add(1)
		require.Contains(t, ask(s, t.Context(), "/v1/received", "application/json").Body.String(), `"payments":1`)
		<-early
		require.EqualValues(t, 2, book.reads.Load())
		summary := must(s.Summary(t.Context()))(t)
		require.EqualValues(t, 1, summary.Payments)
		require.EqualValues(t, 2, book.reads.Load(), "agents share what pages see")

		// What another process committed is seen a second later.
		book.totals[0].Count = 2
		require.Contains(t, ask(s, t.Context(), "/v1/received", "application/json").Body.String(), `"payments":1`)
		time.Sleep(time.Second)
		require.Contains(t, ask(s, t.Context(), "/v1/received", "application/json").Body.String(), `"payments":2`)
	})
}

func TestSnapshotIsSharedForOneSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		book, s := openPages(t, 0)
		for _, accept := range []string{"application/json", browser} {
			get := func() *response {
				return s.received(&http.Request{URL: &url.URL{Path: offer.PathReceived}, Header: http.Header{"Accept": {accept}}})
			}
			first := get()
			require.Equal(t, 200, first.status)
			require.Same(t, first, get())
			time.Sleep(snapshotAge)
			require.NotSame(t, first, get(), "the time of the report went on")
		}
		require.EqualValues(t, 3, book.reads.Load(), "page and report share a reading")
	})
}

func TestSnapshotSurvivesCanceledReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		book, s := openPages(t, time.Second)
		ctx, leave := context.WithCancel(t.Context())
		gone := make(chan int)
		go func() { gone <- ask(s, ctx, "/v1/received", "").Code }()
		synctest.Wait()
		stays := make(chan int)
		go func() { stays <- ask(s, t.Context(), "/v1/received", "").Code }()
		synctest.Wait()
		leave()
		require.Equal(t, 503, <-gone)
		require.Equal(t, 200, <-stays)
		require.EqualValues(t, 1, book.reads.Load())
	})
}

func TestSnapshotRetriesAfterOneSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		book, s := openPages(t, 0)
		book.set(func() { book.err = errors.New("broken") })
		for range 3 {
			require.Equal(t, 503, ask(s, t.Context(), "/v1/received", "").Code)
			require.Equal(t, 503, ask(s, t.Context(), "/v1/received", browser).Code)
		}
		require.EqualValues(t, 1, book.reads.Load())
		book.set(func() { book.err = nil })
		time.Sleep(time.Second)
		require.Equal(t, 200, ask(s, t.Context(), "/v1/received", "").Code)

		book.set(func() { book.takes = time.Hour })
		time.Sleep(time.Second)
		began := time.Now()
		require.Equal(t, 503, ask(s, t.Context(), "/v1/received", "").Code)
		require.Equal(t, ledgerTimeout, time.Since(began), "nobody waits longer")
		book.set(func() { book.takes = 0 })
		synctest.Wait()
		time.Sleep(time.Second)
		require.Equal(t, 200, ask(s, t.Context(), "/v1/received", "").Code)
	})
}
