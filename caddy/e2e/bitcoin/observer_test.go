package bitcoin

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/btcsuite/btcd/chaincfg/v2"
	"github.com/btcsuite/btcd/wire/v2"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/bitcoin/esplora"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/bitcoin"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/rate"
)

func TestAPaymentIsCountedWhenItIsConfirmed(t *testing.T) {
	s := openShop(t, single)
	before := s.node.Payment(t, single, price)
	s.node.Mine(t, before)
	s.round()
	require.Empty(t, s.receipts(), "older than the first start")

	tx := s.node.Payment(t, single, price)
	s.node.Send(t, tx)
	s.round()
	s.require(tx, ledger.StatusSeen)
	require.Zero(t, s.confirmed())
	s.node.Mine(t, tx)
	s.round()
	s.require(tx, ledger.StatusSeen)
	s.node.MineEmpty(t, 1)
	s.round()
	s.require(tx, ledger.StatusConfirmed)
	require.Equal(t, int64(price), s.confirmed())
	require.Equal(t, int64(4200), *s.receipts()[tx.TxHash().String()].USDCents)
	s.node.MineEmpty(t, 10)
	s.round()
	require.True(t, s.receipts()[tx.TxHash().String()].Final)
	require.Equal(t, fmt.Sprint("block ", s.node.Height()), s.observer.Health().ObservedThrough)

	s.node.MineEmpty(t, 100)
	s.now = s.now.Add(400 * 24 * time.Hour)
	s.round()
	late := s.node.Payment(t, single, price)
	s.node.Mine(t, late)
	s.node.MineEmpty(t, 1)
	s.round()
	s.require(late, ledger.StatusConfirmed)
}

// Blocks leave the chain with a payment in the deepest of them: it is mined anew, waits in the mempool, or its coin is
// spent elsewhere. Whichever it is, the sums are right within one round, and right again when the chain is.
func TestReorganizations(t *testing.T) {
	s := openShop(t, single)
	s.round()
	for depth := 1; depth <= 6; depth++ {
		for name, happens := range map[string]func(tx *wire.MsgTx) ledger.Status{
			"moves to another block": func(tx *wire.MsgTx) ledger.Status {
				s.node.MineEmpty(t, 1)
				s.node.Mine(t, tx)
				s.node.MineEmpty(t, depth)
				return ledger.StatusConfirmed
			},
			"waits again": func(*wire.MsgTx) ledger.Status {
				s.node.MineEmpty(t, depth+1)
				return ledger.StatusSeen
			},
			"is spent elsewhere": func(tx *wire.MsgTx) ledger.Status {
				s.node.Mine(t, s.node.Replacement(t, tx, s.node.Miner(), price))
				s.node.MineEmpty(t, depth)
				return ledger.StatusDropped
			},
		} {
			t.Run(fmt.Sprintf("%s after %d", name, depth), func(t *testing.T) {
				s := *s
				s.TB = t
				earlier := s.confirmed()
				tx := s.node.Payment(t, single, price)
				s.node.Mine(t, tx)
				s.node.MineEmpty(t, depth-1)
				s.round()
				s.node.Rewind(t, depth)
				want := happens(tx)
				s.round()
				s.require(tx, want)
				if want != ledger.StatusConfirmed {
					require.Equal(t, earlier, s.confirmed())
				}

				// The chain makes up its mind for the payment.
				s.node.Rewind(t, depth+1)
				s.node.Mine(t, tx)
				s.node.MineEmpty(t, depth+2)
				s.round()
				s.require(tx, ledger.StatusConfirmed)
				require.Equal(t, earlier+price, s.confirmed())
			})
		}
	}
}

func TestManyPayments(t *testing.T) {
	s := openShop(t, single)
	s.round()
	var confirmed, waiting []*wire.MsgTx
	for i := range int64(60) {
		confirmed = append(confirmed, s.node.Payment(t, single, price+i))
	}
	s.node.Mine(t, confirmed[:30]...)
	for _, tx := range confirmed[30:] {
		s.node.Mine(t, tx)
	}
	s.node.MineEmpty(t, 1)
	for i := range int64(60) {
		waiting = append(waiting, s.node.Payment(t, single, 2*price+i))
	}
	s.node.Send(t, waiting...)
	s.restart() // after a downtime of all these blocks
	s.round()
	for _, tx := range confirmed {
		s.require(tx, ledger.StatusConfirmed)
	}
	require.Equal(t, int64(60*price+59*60/2), s.confirmed(), "nothing of the mempool")
	rows := s.receipts()
	require.Len(t, rows, 60+50, "as many unconfirmed ones as an endpoint lists")

	s.node.Mine(t, waiting...)
	s.node.MineEmpty(t, 1)
	s.round()
	for _, tx := range waiting {
		s.require(tx, ledger.StatusConfirmed)
	}
}

func TestReplacedPayments(t *testing.T) {
	s := openShop(t, single)
	s.round()
	away := s.node.Payment(t, single, price)
	s.node.Send(t, away)
	s.round()
	s.require(away, ledger.StatusSeen)
	elsewhere := s.node.Replacement(t, away, s.node.Miner(), price)
	s.node.Send(t, elsewhere)
	s.round()
	s.require(away, ledger.StatusDropped)

	first := s.node.Payment(t, single, price)
	s.node.Send(t, first)
	s.round()
	second := s.node.Replacement(t, first, single, price+1)
	s.node.Send(t, second)
	s.round()
	s.require(first, ledger.StatusDropped)
	s.require(second, ledger.StatusSeen)
	s.node.Mine(t, elsewhere, second)
	s.node.MineEmpty(t, 11)
	s.round()
	s.require(second, ledger.StatusConfirmed)
	require.True(t, s.receipts()[first.TxHash().String()].Final)
	require.True(t, s.receipts()[away.TxHash().String()].Final)
	require.Equal(t, int64(price+1), s.confirmed())

	toUs := s.node.Payment(t, s.node.Miner(), price)
	s.node.Send(t, toUs)
	s.round()
	replacement := s.node.Replacement(t, toUs, single, price)
	s.node.Send(t, replacement)
	s.round()
	s.require(replacement, ledger.StatusSeen)
}

func TestAnExtendedKeyAdvancesAndIsRestored(t *testing.T) {
	s := openShop(t, vpub)
	require.Empty(t, s.observer.Address())
	s.round()
	// The first address of the mnemonic on a test network, from other code.
	require.Equal(t, "tb1q6rz28mcfaxtmd6v789l9rrlrusdprr9pqcpvkl", s.observer.Address())
	used := make(map[string]bool)
	var sum int64
	for i := range int64(23) {
		current := s.observer.Address()
		require.NotContains(t, used, current)
		used[current] = true
		tx := s.node.Payment(t, current, price+i)
		s.node.Send(t, tx)
		s.round()
		s.require(tx, ledger.StatusSeen)
		require.NotEqual(t, current, s.observer.Address())
		s.node.Mine(t, tx)
		s.round()
		sum += price + i
	}
	s.node.MineEmpty(t, 1)
	s.round()
	require.Equal(t, sum, s.confirmed())
	next := s.observer.Address()
	s.restart()
	require.Equal(t, next, s.observer.Address())

	// The oldest address is paid a second time, while nobody looks.
	first := lab.Must(s.rail.Address(0))(t)
	late := s.node.Payment(t, first, 7*price)
	s.node.Mine(t, late)
	s.node.MineEmpty(t, 1)
	s.round()
	s.require(late, ledger.StatusConfirmed)
	require.Equal(t, next, s.observer.Address())

	s.newBook()
	s.restart()
	require.Empty(t, s.observer.Address())
	s.round()
	require.Equal(t, next, s.observer.Address(), "no address is used twice")
	require.Empty(t, s.receipts(), "all of it is older than the new ledger")
	s.since = s.now.Add(-2 * time.Hour).Unix()
	s.restart()
	s.round()
	require.Equal(t, next, s.observer.Address())
	require.Equal(t, sum+7*price, s.confirmed(), "what the chain holds")
	require.Len(t, s.receipts(), 24)
}

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
	rail := lab.Must(offer.NewBitcoin(account, "Shop", 4200))(t)
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
	cursors := lab.Must(s.book.Cursors(s.Context(), s.rail.Account()))(s)
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
	all := lab.Must(s.book.Receipts(s.Context(), "shop", 0, 1000))(s)
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
	totals := lab.Must(s.book.Totals(s.Context(), "shop"))(s)
	for _, total := range totals {
		if total.Status == ledger.StatusConfirmed {
			satoshis += total.Amount
		}
	}
	return satoshis
}
