package bitcoin

import (
	"log/slog"
	"testing"
	"time"

	"github.com/btcsuite/btcd/chaincfg/v2"
	"github.com/btcsuite/btcd/wire/v2"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/bitcoin/esplora"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/bitcoin"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/rate"
)

const (
	// single is the P2WPKH example of BIP-173 for a regression-test network.
	single = "bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080"
	// vpub is the account of BIP-84's test mnemonic on a test network.
	vpub = "vpub5Y6cjg78GGuNLsaPhmYsiw4gYX3HoQiRBiSwDaBXKUafCt9bNwWQiitDk5VZ5BVxYnQdwoTyXSs2JHRPAgjAvtbBrf8ZhDYe2jWAqvZVnsc"
	// price is the amount of most payments, in satoshis.
	price = 46_667
)

// shop is a node, and an observer of one account with a ledger of its own. Rounds are made by the test.
type shop struct {
	testing.TB
	node *Node
	rail *offer.Bitcoin
	// endpoints are two indexes of the node, on hosts of their own.
	endpoints []string
	book      *ledger.Ledger
	observer  *bitcoin.Observer
	now       time.Time
	since     int64 // the observer's Since
}

// openShop starts a node and an observer, whose first round sets the origin.
func openShop(t testing.TB, account string) *shop {
	t.Helper()
	s := &shop{TB: t, node: Start(t), now: time.Now()}
	rail, err := offer.NewBitcoin(account, "Shop", 4200)
	require.NoError(t, err)
	s.rail = rail
	network := Params
	if rail.Extended() {
		network = &chaincfg.TestNet3Params
	}
	s.endpoints = esplora.StartTwo(t, s.node, Params, network)
	s.newBook()
	s.restart()
	return s
}

// newBook takes a ledger that knows nothing.
func (s *shop) newBook() {
	s.Helper()
	s.book = ledger.NewSQLite(payoffertest.LedgerFile(s), func() time.Time { return s.now })
	require.NoError(s, s.book.Open(s.Context()))
	book := s.book
	s.Cleanup(func() { require.NoError(s, book.Close()) })
	require.NoError(s, s.book.Register(s.Context(), ledger.Account{Offer: "shop", ID: s.rail.Account(), Rail: "btc", Testnet: true, Since: s.now.Unix()}))
}

// restart is the next process on the same ledger.
func (s *shop) restart() {
	s.Helper()
	observer, err := bitcoin.New(bitcoin.Config{
		OfferID: "shop", Rail: s.rail, Endpoints: s.endpoints, Confirmations: 2, Since: s.since, Ledger: s.book,
		Rate: func() (rate.Rate, bool) { return rate.Rate{MicroUSD: 90_000_000_000, At: s.now}, true },
		Now:  func() time.Time { return s.now }, Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(s, err)
	cursors, err := s.book.Cursors(s.Context(), s.rail.Account())
	require.NoError(s, err)
	require.NoError(s, observer.Load(cursors))
	s.observer = observer
}

// round is half a minute later.
func (s *shop) round() {
	s.Helper()
	s.now = s.now.Add(30 * time.Second)
	require.NoError(s, s.observer.Poll(s.Context()))
	require.False(s, s.observer.Health().Blind)
	require.NotEqual(s, observe.ErrDisagree, s.observer.Health().LastError)
}

// receipts are all rows, by the id of their transaction.
func (s *shop) receipts() map[string]ledger.Receipt {
	s.Helper()
	all, err := s.book.Receipts(s.Context(), "shop", 0, 1000)
	require.NoError(s, err)
	rows := make(map[string]ledger.Receipt)
	for _, r := range all {
		require.NotContains(s, rows, r.Transaction, "one row a payment")
		require.True(s, r.Testnet)
		rows[r.Transaction] = r
	}
	return rows
}

// require checks the status of a payment's receipt.
func (s *shop) require(tx *wire.MsgTx, want ledger.Status) {
	s.Helper()
	row, found := s.receipts()[tx.TxHash().String()]
	require.True(s, found, "the payment was not seen")
	require.Equal(s, want, row.Status)
	require.Equal(s, tx.TxHash().String()+":0", row.ExternalID)
	require.Equal(s, tx.TxOut[0].Value, row.Amount)
}

// confirmed is the sum of what counts, in satoshis.
func (s *shop) confirmed() (satoshis int64) {
	s.Helper()
	totals, err := s.book.Totals(s.Context(), "shop")
	require.NoError(s, err)
	for _, total := range totals {
		if total.Status == ledger.StatusConfirmed {
			satoshis += total.Amount
		}
	}
	return satoshis
}
