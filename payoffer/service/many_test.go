package service

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"modernc.org/sqlite"

	"github.com/payoffer/caddy-pay-offer/payoffer/announce"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/postgres"
	"github.com/payoffer/caddy-pay-offer/payoffer/pool"
)

// commits counts what was committed to SQLite databases, by their folders.
var commits sync.Map

func init() {
	sqlite.RegisterConnectionHook(func(conn sqlite.ExecQuerierContext, dsn string) error {
		path, _, _ := strings.Cut(strings.TrimPrefix(dsn, "file://"), "?")
		count, _ := commits.LoadOrStore(filepath.Dir(path), new(atomic.Int64))
		conn.(sqlite.HookRegisterer).RegisterCommitHook(func() int32 {
			count.(*atomic.Int64).Add(1)
			return 0
		})
		return nil
	})
}

// place is where a house keeps its ledger.
type place struct {
	ledger func() (*ledger.Ledger, error)
	// spent counts what it cost: trips to a server and back, or commits to a disk.
	spent func() int64
}

// eachPlace runs a test on each kind of database.
func eachPlace(t *testing.T, test func(t *testing.T, make func(t *testing.T, h *house) place)) {
	t.Run("sqlite", func(t *testing.T) {
		test(t, func(_ *testing.T, h *house) place {
			return place{
				func() (*ledger.Ledger, error) {
					return ledger.NewSQLite(filepath.Join(h.folder, "ledger.db"), time.Now), nil
				},
				func() int64 {
					count, _ := commits.LoadOrStore(h.folder, new(atomic.Int64))
					return count.(*atomic.Int64).Load()
				},
			}
		})
	})
	t.Run("postgres", func(t *testing.T) {
		server := postgres.Shared(t)
		test(t, func(t *testing.T, _ *house) place {
			far := server.Far(t, 0)
			dsn := far.DSN(t, server.DSN(t))
			return place{func() (*ledger.Ledger, error) { return ledger.NewPostgres(dsn, time.Now) }, far.Trips}
		})
	})
}

// numbered is one of many offers, each with accounts and receivers of its own.
func (h *house) numbered(n int) *Settings {
	h.t.Helper()
	id := fmt.Sprintf("o%d.example", n)
	card, err := offer.NewCard("https://checkout.example/pay", nil, 42_00)
	require.NoError(h.t, err)
	card.PaymentLink = fmt.Sprintf("plink_%d", n)
	network, err := offer.LookupNetwork("base-sepolia")
	require.NoError(h.t, err)
	usdc, err := offer.NewUSDC("usdc", network, fmt.Sprintf("0x%040d", n+1), 42_00)
	require.NoError(h.t, err)
	o, err := offer.New(offer.Terms{
		ID: id, BaseURL: "https://" + id, SiteURL: "https://example", Name: "An offer", Operator: "An operator",
		Description: "one of many", Account: "pay", SourceURL: "https://example/source", Amount: 42_00, Updated: "2026-11-21",
	}, card, usdc)
	require.NoError(h.t, err)
	s := h.settings("one of many")
	s.Key, s.Offer, s.KeysPath = pool.KeyOf("numbered", n), o, "pay_offer/signing/"+id+".json"
	s.USDC, s.Bitcoin, s.Storefronts = []USDC{{Rail: usdc, Facilitators: s.USDC[0].Facilitators}}, Bitcoin{}, nil
	s.Announce = []announce.Endpoint{announce.Webhook{URL: fmt.Sprintf("%s/%d", h.down, n)}}
	return s
}

// many puts numbered offers to work.
func (h *house) many(share *Share, offers int) (all []*Service) {
	h.t.Helper()
	for n := range offers {
		svc, err := Acquire(share, h.numbered(n))
		require.NoError(h.t, err)
		all = append(all, svc)
	}
	return all
}

// What a start asks of the ledger costs the same for any number of offers, when they
// are new and when they are known.
func TestAStartAsksTheLedgerAsOftenForAnyNumberOfOffers(t *testing.T) {
	eachPlace(t, func(t *testing.T, make func(*testing.T, *house) place) {
		var first, again []int64
		for _, offers := range []int{1, 10, 200} {
			h := newHouse(t)
			at := make(t, h)
			start := func() int64 {
				share := h.shareOn(new(lockedBuffer), at.ledger)
				defer h.release(share)
				all := h.many(share, offers)
				share.Attach()
				require.NoError(t, share.Ledger.Open(t.Context()))
				before := at.spent() // how often a migration looks for others is a matter of time
				o := &opening{share: share, all: all, left: all, logger: all[0].logger}
				for _, svc := range all {
					require.NoError(t, svc.loadKeys(t.Context()))
				}
				_, err := o.open(t.Context(), all)
				require.NoError(t, err)
				o.warn(t.Context())
				ctx, stop := context.WithCancel(t.Context())
				var work sync.WaitGroup
				for _, svc := range all {
					work.Add(1)
					svc.Begin(ctx, work.Done)
				}
				for _, svc := range all {
					former := &svc.payments.former.loop
					require.Eventually(t, func() bool { _, well := former.Last(); return well }, time.Minute, time.Millisecond)
				}
				share.Pulse.Beat(ctx)
				spent := at.spent() - before
				stop()
				work.Wait()
				return spent
			}
			first, again = append(first, start()), append(again, start())
		}
		t.Log("new offers:", first, "known ones:", again)
		require.Positive(t, first[0])
		require.Equal(t, []int64{first[0], first[0], first[0]}, first)
		require.Equal(t, []int64{again[0], again[0], again[0]}, again)
	})
}

// A thousand offers on a server that is far away start as one does.
func TestManyOffersOnALedgerFarAwayArePayable(t *testing.T) {
	h := newHouse(t)
	server := postgres.Shared(t)
	far := server.Far(t, 15*time.Millisecond)
	dsn := far.DSN(t, server.DSN(t))
	share := h.shareOn(h.log, func() (*ledger.Ledger, error) { return ledger.NewPostgres(dsn, time.Now) })
	defer h.release(share)
	all := h.many(share, 100)
	require.NoError(t, h.start(share, false, all...))
	h.untilOpen(all...)
	for _, svc := range all {
		require.Equal(t, http.StatusBadRequest, h.pays(svc).Code)
	}
}
