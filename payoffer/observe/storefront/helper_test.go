package storefront

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

const (
	testOffer   = "pay.example"
	testAccount = "gumroad/bfi_30HLgGWL8H2wo_Gzlg=="
	testProduct = "bfi_30HLgGWL8H2wo_Gzlg=="
	testShort   = "QMGY"
	testSeller  = "kL0paVL2SdmJSYsNs-OCMg=="
	testSecret  = "0123456789abcdef0123456789abcdef"
	testToken   = "token-of-the-seller"
)

// fixture is an observer of a shop, with a real ledger, at a time of its own.
type fixture struct {
	*Observer
	t    testing.TB
	shop *payoffertest.Storefront
	db   *flakyLedger
	log  *bytes.Buffer

	clock sync.Mutex
	time  time.Time
}

// flakyLedger fails while broken.
type flakyLedger struct {
	*ledger.Ledger
	broken bool
	file   string
}

var errDisk = errors.New("database or disk is full")

func (f *flakyLedger) Record(ctx context.Context, c *ledger.Cursor, s ...ledger.Observation) ([]ledger.Receipt, error) {
	if f.broken {
		return nil, errDisk
	}
	return f.Ledger.Record(ctx, c, s...)
}

func (f *flakyLedger) Account(ctx context.Context, offer, account string) (ledger.Account, error) {
	if f.broken {
		return ledger.Account{}, errDisk
	}
	return f.Ledger.Account(ctx, offer, account)
}

// newFixture observes since noon. The options change the configuration.
func newFixture(t testing.TB, options ...func(*Config)) *fixture {
	t.Helper()
	f := &fixture{
		t: t, shop: payoffertest.NewStorefront(t, testToken), log: new(bytes.Buffer),
		time: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC),
	}
	f.openLedger(f.time.Unix())
	f.start(options...)
	require.NoError(t, f.loadOrigin(t.Context()))
	return f
}

// fixtureBeside is newFixture for a test that runs beside others.
func fixtureBeside(t *testing.T) *fixture {
	t.Helper()
	t.Parallel()
	return newFixture(t)
}

// openLedger begins a new ledger, whose account is first watched then.
func (f *fixture) openLedger(since int64) {
	f.t.Helper()
	f.useLedger(payoffertest.LedgerFile(f.t))
	require.NoError(f.t, f.db.Register(f.t.Context(), ledger.Account{Offer: testOffer, ID: testAccount, Rail: "tip-jar", Since: since}))
}

// useLedger goes on with a file.
func (f *fixture) useLedger(file string) {
	f.t.Helper()
	db := ledger.NewSQLite(file, f.now)
	require.NoError(f.t, db.Open(f.t.Context()))
	f.t.Cleanup(func() { require.NoError(f.t, db.Close()) })
	f.db = &flakyLedger{Ledger: db, file: file}
}

// copyLedger is a copy of the ledger as it is now, which the observer then goes
// on with as after a restart.
func (f *fixture) copyLedger(options ...func(*Config)) []byte {
	f.t.Helper()
	require.NoError(f.t, f.db.Close())
	copied, err := os.ReadFile(f.db.file)
	require.NoError(f.t, err)
	f.useLedger(f.db.file)
	f.start(options...)
	return copied
}

// start makes a new observer, as a restart does.
func (f *fixture) start(options ...func(*Config)) {
	f.t.Helper()
	cfg := Config{
		OfferID: testOffer, Account: testAccount, Rail: "tip-jar", Seller: testSeller, Product: testProduct,
		Secret: testSecret, Token: testToken, API: f.shop.URL(), Ledger: f.db, Transport: f.shop.Transport(),
		Now: f.now, Logger: slog.New(slog.NewTextHandler(f.log, nil)),
	}
	for _, option := range options {
		option(&cfg)
	}
	var err error
	f.Observer, err = New(cfg)
	require.NoError(f.t, err)
}

func withoutToken(cfg *Config) { cfg.Token = "" }

func (f *fixture) now() time.Time {
	f.clock.Lock()
	defer f.clock.Unlock()
	return f.time
}

func (f *fixture) pass(d time.Duration) {
	f.clock.Lock()
	defer f.clock.Unlock()
	f.time = f.time.Add(d)
}

// sell makes a sale of 42 USD now.
func (f *fixture) sell(options ...func(*payoffertest.StorefrontSale)) payoffertest.StorefrontSale {
	sale := payoffertest.StorefrontSale{
		Seller: testSeller, Product: testProduct, ShortProduct: testShort, Price: 4200, CreatedAt: f.now(),
	}
	for _, option := range options {
		option(&sale)
	}
	return f.shop.Sell(sale)
}

// tell delivers a ping of the sale.
func (f *fixture) tell(sale payoffertest.StorefrontSale, resource string) observe.Verdict {
	contentType, body := sale.Form(resource)
	return f.deliver(testSecret, contentType, body)
}

func (f *fixture) deliver(secret, contentType string, body []byte) observe.Verdict {
	f.t.Helper()
	verdict, detail := f.Receive(f.t.Context(), observe.Delivery{
		Header: http.Header{"Content-Type": {contentType}}, Secret: secret, Body: body,
	})
	require.NotEmpty(f.t, detail)
	require.NotContains(f.t, detail, "buyer@example.com")
	require.NotContains(f.t, detail, testSecret)
	return verdict
}

// read reads the shop once, whatever is due.
func (f *fixture) read() error {
	f.due = time.Time{}
	_, err := f.loop.Once(f.t.Context())
	return err
}

// mustOnce reads the shop if that is due.
func (f *fixture) mustOnce() {
	f.t.Helper()
	_, err := f.loop.Once(f.t.Context())
	require.NoError(f.t, err)
}

func (f *fixture) mustRead() {
	f.t.Helper()
	require.NoError(f.t, f.read())
}

func (f *fixture) receipt(id string) (ledger.Receipt, bool) {
	f.t.Helper()
	r, found, err := f.db.Ledger.Receipt(f.t.Context(), testOffer, testAccount, id)
	require.NoError(f.t, err)
	return r, found
}

// requireReadHeld reads the shop and requires the money that counts then, in US cents.
func (f *fixture) requireReadHeld(cents int64, about ...any) {
	f.t.Helper()
	f.mustRead()
	require.Equal(f.t, cents, f.held(), about...)
}

// held is the money that counts, in US cents: confirmed by evidence that counts.
func (f *fixture) held() (cents int64) {
	f.t.Helper()
	totals, err := f.db.Totals(f.t.Context(), testOffer)
	require.NoError(f.t, err)
	for _, total := range totals {
		if total.Held() {
			cents += total.USDCents - total.RefundedCents
		}
	}
	return cents
}
