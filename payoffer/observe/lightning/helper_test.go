package lightning

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

const testOffer = "shop"

// clock is a clock that the test sets.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// shop is an observer at a fake wallet.
type shop struct {
	*Observer
	t      testing.TB
	wallet *payoffertest.Wallet
	db     *ledger.Ledger
	clock  *clock
	log    *bytes.Buffer
}

func openShop(t *testing.T, kind payoffertest.WalletKind) *shop {
	t.Helper()
	c := &clock{now: time.Unix(1_795_250_000, 0)}
	s := &shop{t: t, clock: c, wallet: payoffertest.NewWallet(t, kind, c.Now), db: ledger.NewSQLite(payoffertest.LedgerFile(t), c.Now), log: new(bytes.Buffer)}
	require.NoError(t, s.db.Open(t.Context()))
	t.Cleanup(func() { require.NoError(t, s.db.Close()) })
	rail, err := offer.NewLightning(s.wallet.Address(), 4200)
	require.NoError(t, err)
	require.NoError(t, s.db.Register(t.Context(), ledger.Account{Offer: testOffer, ID: rail.Account(), Rail: rail.Name()}))
	s.Observer = New(s.config(rail, s.wallet.Transport()))
	return s
}

func (s *shop) config(rail *offer.Lightning, transport http.RoundTripper) Config {
	pace := NewPace()
	pace.SetLimit(1e9) // a test of its own has the real one
	return Config{
		OfferID: testOffer, Rail: rail, Price: func() (int64, int64) { return 46_667, 4200 }, Pace: pace, Ledger: s.db,
		Transport: transport, Now: s.clock.Now, Random: func() float64 { return 0 }, Logger: slog.New(slog.NewTextHandler(s.log, nil)),
	}
}

// restart is a new process on the same ledger.
func (s *shop) restart() { s.Observer = New(s.config(s.Rail, s.wallet.Transport())) }

// reload is a new configuration in the same process.
func (s *shop) reload() {
	config := s.config(s.Rail, s.wallet.Transport())
	config.Known = s.Known
	s.Observer = New(config)
}

func (s *shop) invoice() ledger.Invoice {
	s.t.Helper()
	i, err := s.NewInvoice(s.t.Context())
	require.NoError(s.t, err)
	return i
}

// look polls after a time, and returns the pause until the next poll.
func (s *shop) look(after time.Duration) time.Duration {
	s.t.Helper()
	s.clock.pass(after)
	pause, _ := s.loop.Once(s.t.Context())
	return pause
}

// receipts are the receipts of the offer.
func (s *shop) receipts() []ledger.Receipt {
	s.t.Helper()
	rows, err := s.db.Receipts(s.t.Context(), testOffer, 0, 100)
	require.NoError(s.t, err)
	return rows
}

func (s *shop) stored(hash string) ledger.Invoice {
	s.t.Helper()
	i, found, err := s.db.Invoice(context.WithoutCancel(s.t.Context()), testOffer, s.Rail.Account(), hash)
	require.NoError(s.t, err)
	require.True(s.t, found)
	return i
}
