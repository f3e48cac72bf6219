package web

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
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

func (s *slow) Last(ctx context.Context, offerID string) (ledger.Bookmark, error) {
	if n := s.under.Add(1); n > s.most.Load() {
		s.most.Store(n)
	}
	defer s.under.Add(-1)
	s.mu.Lock()
	takes := s.takes
	s.mu.Unlock()
	select {
	case <-time.After(takes):
	case <-ctx.Done():
		return ledger.Bookmark{}, ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.world.Last(ctx, offerID)
}

func (s *slow) Totals(ctx context.Context, offerID string) ([]ledger.Total, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.world.Totals(ctx, offerID)
}

func (s *slow) Books(ctx context.Context, offerID string, before int64, limit int) ([]ledger.Total, []ledger.Receipt, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.world.Books(ctx, offerID, before, limit)
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
	s, err := New(c)
	require.NoError(t, err)
	return book, s
}

// ask is one request, of which the tag is known.
func ask(s *Server, ctx context.Context, target, accept, tag string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(ctx, "GET", target, nil)
	r.Header.Set("Accept", accept)
	if tag != "" {
		r.Header.Set("If-None-Match", tag)
	}
	w := httptest.NewRecorder()
	s.Serve(w, r)
	return w
}

func TestAThousandOpenPagesReadTheLedgerOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		book, s := openPages(t, 300*time.Millisecond)
		const pages, lasts = 1_000, time.Minute
		var answered, unchanged atomic.Int64
		var asking sync.WaitGroup
		for page := range pages {
			asking.Go(func() {
				time.Sleep(time.Duration(page) * 4 * time.Millisecond)
				tag := ""
				for end := time.Now().Add(lasts); time.Now().Before(end); time.Sleep(4 * time.Second) {
					got := ask(s, t.Context(), "/v1/received", browser, tag)
					answered.Add(1)
					if got.Code == http.StatusNotModified {
						unchanged.Add(1)
					}
					tag = got.Header().Get("ETag")
				}
			})
		}
		asking.Wait()
		require.LessOrEqual(t, book.reads.Load(), int64((lasts+4*time.Second)/time.Second))
		require.EqualValues(t, 1, book.most.Load(), "never two at once")
		require.Equal(t, answered.Load()-pages, unchanged.Load(), "all but the first answer of each page")
		t.Logf("%d pages, %d answers, %d of them 304, %d readings of the ledger in %v", pages, answered.Load(), unchanged.Load(), book.reads.Load(), lasts)

		before := book.reads.Load()
		time.Sleep(time.Hour)
		require.Equal(t, before, book.reads.Load(), "nobody asks")
	})
}

func TestWhoPaysAndThenAsksIsShownThePayment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		book, s := openPages(t, time.Second/2)
		var changes atomic.Uint64
		book.changed = changes.Load
		early := make(chan string)
		go func() { early <- ask(s, t.Context(), "/v1/received", "application/json", "").Body.String() }()
		time.Sleep(time.Second / 4) // a reading is under way that may not hold what is committed now
		book.set(func() { book.totals = []ledger.Total{confirmed("card", ledger.LevelSigned, 42_00)} })
		changes.Add(1)
		require.Contains(t, ask(s, t.Context(), "/v1/received", "application/json", "").Body.String(), `"payments":1`)
		<-early
		require.EqualValues(t, 2, book.reads.Load())
		summed, err := s.Summary(t.Context())
		require.NoError(t, err)
		require.Contains(t, string(summed), `"payments":1`)
		require.EqualValues(t, 2, book.reads.Load(), "agents share what pages see")

		// What another process committed is seen a second later.
		book.totals[0].Count = 2
		require.Contains(t, ask(s, t.Context(), "/v1/received", "application/json", "").Body.String(), `"payments":1`)
		time.Sleep(time.Second)
		require.Contains(t, ask(s, t.Context(), "/v1/received", "application/json", "").Body.String(), `"payments":2`)
	})
}

func TestAllWhoAskWithinASecondAreGivenTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		book, s := openPages(t, 0)
		for _, accept := range []string{"application/json", browser} {
			get := func() *response {
				return s.received(&http.Request{URL: &url.URL{Path: offer.PathReceived}, Header: http.Header{"Accept": {accept}}})
			}
			first := get()
			require.Equal(t, 200, first.status)
			require.Same(t, first, get())
			time.Sleep(arrivalsAge)
			require.NotSame(t, first, get(), "the time of the report went on")
		}
		require.EqualValues(t, 3, book.reads.Load(), "page and report share a reading")
	})
}

func TestWhoLeavesTakesNobodysReadingAlong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		book, s := openPages(t, time.Second)
		ctx, leave := context.WithCancel(t.Context())
		gone := make(chan int)
		go func() { gone <- ask(s, ctx, "/v1/received", "", "").Code }()
		synctest.Wait()
		stays := make(chan int)
		go func() { stays <- ask(s, t.Context(), "/v1/received", "", "").Code }()
		synctest.Wait()
		leave()
		require.Equal(t, 503, <-gone)
		require.Equal(t, 200, <-stays)
		require.EqualValues(t, 1, book.reads.Load())
	})
}

func TestALedgerThatCannotBeReadIsAskedAgainASecondLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		book, s := openPages(t, 0)
		book.set(func() { book.err = errors.New("broken") })
		for range 3 {
			require.Equal(t, 503, ask(s, t.Context(), "/v1/received", "", "").Code)
			require.Equal(t, 503, ask(s, t.Context(), "/v1/thanks", browser, "").Code)
		}
		require.EqualValues(t, 1, book.reads.Load())
		book.set(func() { book.err = nil })
		time.Sleep(time.Second)
		require.Equal(t, 200, ask(s, t.Context(), "/v1/received", "", "").Code)

		book.set(func() { book.takes = time.Hour })
		time.Sleep(time.Second)
		began := time.Now()
		require.Equal(t, 503, ask(s, t.Context(), "/v1/received", "", "").Code)
		require.Equal(t, ledgerTimeout, time.Since(began), "nobody waits longer")
		book.set(func() { book.takes = 0 })
		synctest.Wait()
		time.Sleep(time.Second)
		require.Equal(t, 200, ask(s, t.Context(), "/v1/received", "", "").Code)
	})
}

func TestTheTagIsOfEverythingButTheClockAndTheProgressOfTheChains(t *testing.T) {
	w := newWorld(t)
	var offset time.Duration
	now := at
	c := w.config()
	c.ClockOffset, c.Now = func() time.Duration { return offset }, func() time.Time { return now }
	s, err := New(c)
	require.NoError(t, err)
	paid := ledger.Receipt{ID: 1, ExternalID: "pi_1", Rail: "card", Asset: "USD", Amount: 42_00, USDCents: cents(42_00), Status: ledger.StatusSeen, EvidenceLevel: ledger.LevelSigned}
	w.totals, w.receipts = []ledger.Total{confirmed("card", ledger.LevelSigned, 42_00)}, []ledger.Receipt{paid}
	for _, target := range []string{"/v1/received", "/v1/thanks", "/v1/thanks?session_id=cs_1"} {
		for _, accept := range []string{"application/json", browser} {
			get := func(tag string) *httptest.ResponseRecorder { return ask(s, t.Context(), target, accept, tag) }
			first := get("")
			tag := first.Header().Get("ETag")
			require.Regexp(t, `^W/"[A-Za-z0-9_-]{22}"$`, tag)
			require.Equal(t, "no-store", first.Header().Get("Cache-Control"))
			same := func(what string) {
				t.Helper()
				for _, held := range []string{tag, tag[2:], `"other", ` + tag} {
					got := get(held)
					require.Equal(t, 304, got.Code, what)
					require.Empty(t, got.Body.String())
					require.Empty(t, got.Header().Get("Content-Type"))
					require.Equal(t, "no-store", got.Header().Get("Cache-Control"))
					require.Equal(t, tag, got.Header().Get("ETag"))
					require.Equal(t, first.Header()["Vary"], got.Header()["Vary"])
				}
			}
			other := func(what string) {
				t.Helper()
				got := get(tag)
				require.Equal(t, 200, got.Code, what)
				require.NotEqual(t, tag, got.Header().Get("ETag"), what)
				tag = got.Header().Get("ETag")
				same(what)
			}
			same("nothing changed")
			now, offset = now.Add(time.Hour), offset+time.Hour
			w.health[1].ObservedThrough, w.health[1].At = "block "+now.String(), now.Unix()
			same("the clock went on, and the chain")
			paid.Status = ledger.StatusConfirmed
			w.receipts = []ledger.Receipt{paid}
			other("a receipt")
			w.receipts[0].USDCents = cents(*w.receipts[0].USDCents + 1)
			other("behind a pointer")
			w.receipts[0].USDCents = cents(*w.receipts[0].USDCents)
			same("an equal one behind another pointer")
			w.totals[0].Count++
			other("a sum")
			w.changes = append(w.changes, ledger.Transition{Seq: 1})
			other("any change of an older receipt")
			for _, change := range []func(*observe.Health){
				func(h *observe.Health) { h.Blind = !h.Blind }, func(h *observe.Health) { h.Partial = !h.Partial },
				func(h *observe.Health) { h.LastError += "x" }, func(h *observe.Health) { h.Source += "x" },
			} {
				change(&w.health[2])
				other("how well a rail is observed")
			}
			paid.Status = ledger.StatusSeen
			w.receipts = []ledger.Receipt{paid}
			w.health = newWorld(t).health
		}
	}
}

func TestTheTagIsOfTheOfferAsItIsConfigured(t *testing.T) {
	tag := func(change func(*world)) string {
		w := newWorld(t)
		change(w)
		return ask(w.server(t), t.Context(), "/v1/thanks?session_id=cs_1", browser, "").Header().Get("ETag")
	}
	with := func(change func(*offer.Terms)) func(*world) {
		return func(w *world) {
			changed := terms()
			change(&changed)
			w.offer = makeOffer(t, changed, "base")
		}
	}
	same := tag(func(*world) {})
	require.Equal(t, same, tag(with(func(*offer.Terms) {})), "on every instance")
	for what, change := range map[string]func(*world){
		"the goal": with(func(o *offer.Terms) { o.Goal = 1_00 }), "the thanks": with(func(o *offer.Terms) { o.Thanks = "Bye." }),
		"a rail":  func(w *world) { w.offer = makeOffer(t, terms(), "arbitrum") },
		"the key": func(w *world) { w.key = nil },
	} {
		require.NotEqual(t, same, tag(change), what)
	}
}

func TestNoVariantIsTakenForAnother(t *testing.T) {
	w := newWorld(t)
	s := w.server(t)
	tags := map[string]string{}
	for _, target := range []string{"/v1/received", "/v1/thanks", "/v1/thanks?session_id=cs_1", "/v1/thanks?session_id=cs_2"} {
		for _, accept := range []string{"application/json", browser} {
			for _, language := range []string{"", "lang=de", "lang=fr"} {
				address := target
				if language != "" {
					address += map[bool]string{true: "&", false: "?"}[bytes.ContainsRune([]byte(target), '?')] + language
				}
				if accept != browser && language != "" {
					continue
				}
				tag := ask(s, t.Context(), address, accept, "").Header().Get("ETag")
				require.NotContains(t, tags, tag, address)
				tags[tag] = address
			}
		}
	}
	german := httptest.NewRequest("GET", "/v1/received", nil)
	german.Header = http.Header{"Accept": {browser}, "Accept-Language": {"de"}, "If-None-Match": {ask(s, t.Context(), "/v1/received", browser, "").Header().Get("ETag")}}
	rec := httptest.NewRecorder()
	s.Serve(rec, german)
	require.Equal(t, 200, rec.Code)
	require.Contains(t, rec.Body.String(), "Eingegangene Zahlungen")
	for _, target := range []string{"/v1/received?limit=5", "/v1/received?before=9", "/v1/received?after=0"} {
		require.Empty(t, ask(s, t.Context(), target, browser, "").Header().Get("ETag"), "what is asked for once is read once")
	}
	require.True(t, slices.Contains(rec.Header()["Vary"], "Accept-Language"))
}
