package service

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/lightning"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// lightningOffer is an offer whose rail is at an address, with a wallet's transport.
func lightningOffer(t *testing.T, address string, i *Instruments) *Service {
	t.Helper()
	card, err := offer.NewCard("https://checkout.example/pay", nil, 42_00)
	require.NoError(t, err)
	rail := must(offer.NewLightning(address, 42_00))(t)
	o, err := offer.New(offer.Terms{ID: "one", BaseURL: "http://localhost", Amount: 42_00}, card, rail)
	require.NoError(t, err)
	db := ledger.NewSQLite(payoffertest.LedgerFile(t), time.Now)
	require.NoError(t, db.Open(t.Context()))
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return &Service{
		Settings: &Settings{Offer: o, Rails: []Rail{Lightning{rail}}}, Runtime: NewRuntime(Config{Ledger: db, Instruments: i}),
		logger: slog.New(slog.DiscardHandler), observers: make(map[string]observer), removedAccounts: make(map[string]removedAccount),
	}
}

// A wallet names the addresses that are called. Only one on this machine may name private ones.
func TestLightningWalletIsCalledAtPublicAddresses(t *testing.T) {
	for address, want := range map[string]string{"alice@wallet.example": "public", "alice@localhost:3000": "any"} {
		var used string
		by := func(name string) func(string) http.RoundTripper {
			return func(kind string) http.RoundTripper {
				require.Equal(t, "wallet", kind)
				used = name
				return http.DefaultTransport
			}
		}
		svc := lightningOffer(t, address, &Instruments{Transport: by("any"), PublicTransport: by("public")})
		RailsOf[Lightning](svc.Settings)[0].observer(svc, lightning.NewPace(), svc.logger)
		require.Equal(t, want, used, address)
	}
}

// roundTrip is a transport.
type roundTrip func(*http.Request) (*http.Response, error)

func (r roundTrip) RoundTrip(request *http.Request) (*http.Response, error) { return r(request) }

// A page of an invoice has priority at the observer of its address, which the configuration may not have any more.
func TestOpenPageIsWatchedAtItsAddress(t *testing.T) {
	for name, address := range map[string]string{"configured": "bob@localhost:1", "removed": "alice@localhost:1"} {
		t.Run(name, func(t *testing.T) {
			asked := make(chan string, 10)
			svc := lightningOffer(t, "bob@localhost:1", &Instruments{Transport: func(string) http.RoundTripper {
				return roundTrip(func(r *http.Request) (*http.Response, error) {
					if strings.HasPrefix(r.URL.Path, "/verify/") {
						asked <- r.URL.Path
					}
					header := http.Header{"Retry-After": {"3600"}}
					return &http.Response{StatusCode: http.StatusTooManyRequests, Header: header, Body: http.NoBody, Request: r}, nil
				})
			}})
			configured := RailsOf[Lightning](svc.Settings)[0]
			o := lightning.New(configured.observer(svc, lightning.NewPace(), svc.logger))
			svc.observers["lightning"] = o
			rail := must(offer.NewLightning(address, 42_00))(t)
			require.NoError(t, svc.Ledger.Register(t.Context(), ledger.Account{Offer: "one", ID: rail.Account(), Rail: rail.Name()}))
			for _, hash := range []string{"1", "2"} {
				now := time.Now()
				must(svc.Ledger.InsertInvoice(t.Context(), ledger.Invoice{
					Hash: hash, Offer: "one", Account: rail.Account(), Rail: rail.Name(), Request: "lnbc1", Verify: "http://localhost:1/verify/" + hash,
					Satoshis: 1, USDCents: 1, CreatedAt: now.Unix(), ExpireAt: now.Add(time.Hour).Unix(),
				}))(t)
			}
			ctx, cancel := context.WithCancel(t.Context())
			var work sync.WaitGroup
			work.Go(func() { svc.watchRemoved(ctx) })
			work.Go(func() { o.Run(ctx) })
			first := <-asked // after that the wallet is left alone for an hour
			svc.watchInvoice(rail.Account(), "1")
			require.NotEqual(t, first, <-asked)
			cancel()
			work.Wait()
		})
	}
}

// Payers may still pay an invoice of an address that the configuration does not have any more.
func TestRemovedLightningAddressIsAskedForOpenInvoices(t *testing.T) {
	wallet := payoffertest.NewWallet(t, payoffertest.WalletAlby, time.Now)
	svc := lightningOffer(t, "bob@"+wallet.Host(), &Instruments{Transport: func(string) http.RoundTripper { return wallet.Transport() }})
	configured := RailsOf[Lightning](svc.Settings)[0]
	svc.observers["lightning"] = lightning.New(configured.observer(svc, lightning.NewPace(), svc.logger))

	rail := must(offer.NewLightning(wallet.Address(), 42_00))(t)
	require.NoError(t, svc.Ledger.Register(t.Context(), ledger.Account{Offer: "one", ID: rail.Account(), Rail: rail.Name()}))
	before := lightning.New(lightning.Config{
		OfferID: "one", Rail: rail, Pace: lightning.NewPace(), Ledger: svc.Ledger, Transport: wallet.Transport(), Now: time.Now,
		Price: func() (int64, int64) { return 46_667, 42_00 },
	})
	i := must(before.NewInvoice(t.Context()))(t)

	found := svc.removed(rail.Account())
	require.Same(t, svc.observers["lightning"].(*lightning.Observer).Pace, found.observer.(*lightning.Observer).Pace, "the host has one pace")
	wallet.Pay(t, i.Hash)
	ctx, cancel := context.WithCancel(t.Context())
	var work sync.WaitGroup
	work.Go(func() { svc.watchRemoved(ctx) })
	require.Eventually(t, func() bool {
		receipts, err := svc.Ledger.Receipts(ctx, "one", 0, 10)
		return err == nil && len(receipts) == 1 && receipts[0].ExternalID == i.Hash
	}, time.Minute, time.Millisecond)
	cancel()
	work.Wait()

	_, ok := removedLightning(svc, "stripe/plink_1")
	require.False(t, ok)
}
