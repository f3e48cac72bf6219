package bitcoin

import (
	"fmt"
	"testing"
	"time"

	"github.com/btcsuite/btcd/wire/v2"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
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
	first, err := s.rail.Address(0)
	require.NoError(t, err)
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
