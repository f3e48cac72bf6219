package lightning

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// openOnly is a ledger with open invoices.
type openOnly struct {
	observe.Ledger
	open []ledger.Invoice
}

func (o openOnly) OpenInvoices(context.Context, string, string) ([]ledger.Invoice, error) {
	return o.open, nil
}

func (openOnly) InsertInvoice(context.Context, ledger.Invoice) (bool, error) { return true, nil }
func (openOnly) CloseInvoice(context.Context, string) error                  { return nil }

// host is a wallet's host that knows every invoice and none as paid.
type host struct {
	mu    sync.Mutex
	paths []string
	times []time.Time
}

func (h *host) RoundTrip(r *http.Request) (*http.Response, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.paths, h.times = append(h.paths, r.URL.Path), append(h.times, time.Now())
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(`{"status":"OK","settled":false}`)), Request: r}, nil
}

// numbered is an invoice that is made now.
func numbered(n int) ledger.Invoice {
	return ledger.Invoice{
		Hash: fmt.Sprint(n), Request: "lnbc1", Verify: fmt.Sprintf("https://wallet.example/verify/%d", n),
		CreatedAt: time.Now().Unix(), ExpireAt: time.Now().Add(time.Hour).Unix(),
	}
}

// observer is an observer of count open invoices at the host.
func (h *host) observer(t *testing.T, count int, pace *rate.Limiter) *Observer {
	rail, err := offer.NewLightning("alice@wallet.example", 4200)
	require.NoError(t, err)
	var open []ledger.Invoice
	for n := range count {
		open = append(open, numbered(n))
	}
	o := New(Config{Rail: rail, Pace: pace, Ledger: openOnly{open: open}, Transport: h, Now: time.Now})
	o.Known.asked.Store(true)
	return o
}

func TestThousandInvoicesMakeTwoRequestsASecondToOneHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, pace := new(host), NewPace()
		ctx, cancel := context.WithCancel(t.Context())
		var work sync.WaitGroup
		var observers []*Observer
		for range 2 { // offers
			o := h.observer(t, 500, pace)
			observers = append(observers, o)
			work.Go(func() { o.Run(ctx) })
		}
		for range 60 {
			time.Sleep(10 * time.Second)
			observers[0].Watch("499")
		}
		cancel()
		work.Wait()
		require.InDelta(t, 1200, len(h.times), 2, "and no fewer")
		watched := 0
		asked := map[string]bool{}
		for n, at := range h.times {
			if n >= 2 {
				require.GreaterOrEqual(t, at.Sub(h.times[n-2]), time.Second)
			}
			asked[h.paths[n]] = true
			if h.paths[n] == "/verify/499" {
				watched++
			}
		}
		require.Len(t, asked, 500, "every invoice had its turn")
		require.Greater(t, watched, 45, "that of the open page had it again and again")
		require.False(t, observers[0].Health().Blind)
	})
}

// A stranger makes nearly all invoices that an offer makes, and leaves their pages open.
func TestPayerAmongManyOpenPagesIsAskedForSoon(t *testing.T) {
	const payer, paidAfter = 300, 30 * time.Second
	for name, c := range map[string]struct {
		later int // invoices of the stranger after that of the payer
		seen  time.Duration
	}{
		"the stranger stops":   {0, 40 * time.Second},
		"the stranger goes on": {150, 90 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := new(host)
				o := h.observer(t, 0, NewPace())
				ctx, cancel := context.WithCancel(t.Context())
				var work sync.WaitGroup
				work.Go(func() { o.Run(ctx) })
				var made time.Time
				for n := range payer + 150 {
					if n <= payer+c.later {
						o.add(numbered(n))
					}
					if n == payer {
						made = time.Now()
					}
					for page := range n + 1 {
						o.Watch(fmt.Sprint(page))
					}
					time.Sleep(2 * time.Second)
				}
				cancel()
				work.Wait()
				var asked []time.Duration
				for n, path := range h.paths {
					if path == fmt.Sprintf("/verify/%d", payer) {
						asked = append(asked, h.times[n].Sub(made))
					}
				}
				require.NotEmpty(t, asked)
				require.Less(t, asked[0], 5*time.Second, "a new payer is asked for first")
				seen := slices.IndexFunc(asked, func(after time.Duration) bool { return after >= paidAfter })
				require.GreaterOrEqual(t, seen, 0, asked)
				require.Less(t, asked[seen], c.seen, asked)
			})
		})
	}
}
