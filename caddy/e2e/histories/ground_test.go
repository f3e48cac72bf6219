package histories

import (
	"crypto/ecdsa"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/postgres"
)

// books makes the ledgers of a test: each call opens the same database once more.
type books func(now func() time.Time) (*ledger.Ledger, error)

// database begins an empty database, which many histories share.
type database func(t *testing.T) books

func sqlite(t *testing.T) books {
	path := payoffertest.LedgerFile(t)
	return func(now func() time.Time) (*ledger.Ledger, error) { return ledger.NewSQLite(path, now), nil }
}

func postgreSQL(t *testing.T) books {
	dsn := postgres.Shared(t).DSN(t)
	return func(now func() time.Time) (*ledger.Ledger, error) { return ledger.NewPostgres(dsn, now) }
}

// ground is what histories share that follow each other: a chain whose time only grows, accounts with money on it, and a
// database. Each history has an offer and a payee of its own.
type ground struct {
	*beside
	t      *testing.T
	chain  *chain.Chain
	payers []*ecdsa.PrivateKey
	books  books

	// acting guards the chain, which takes one transaction at a time.
	acting sync.Mutex
}

// mostPayers is how many payers a history may have.
const mostPayers = 4

func openGround(t *testing.T, database database) *ground {
	t.Helper()
	g := &ground{beside: newBeside(t), t: t, chain: chain.Start(t), books: database(t)}
	g.chain.Pause()
	g.payers = append(g.payers, g.chain.Buyers[:]...)
	for len(g.payers) < mostPayers {
		g.payers = append(g.payers, g.chain.NewBuyer(t))
	}
	// From here on blocks follow the time of the histories, which passes faster than that of the day.
	g.chain.Elapse(t, time.Hour)
	return g
}

// act runs f on the chain while nothing else does.
func (g *ground) act(f func()) {
	g.acting.Lock()
	defer g.acting.Unlock()
	g.do(f)
}

// reach brings the chain to a time: a block takes what is pending, if it may be mined, and an empty one follows when the
// newest is older than most.
func (g *ground) reach(now int64, mine bool, most time.Duration) {
	g.act(func() {
		pending := g.chain.Pending(g.t)
		if pending > 0 && mine {
			g.chain.Mine(g.t, 1)
			pending = 0
		}
		if late := time.Duration(now-g.chain.Time()) * time.Second; pending == 0 && late > most {
			g.chain.Elapse(g.t, late)
		}
	})
}

// broadcast is what a facilitator does: it tries a call, as the reference one does, and does not wait for the block.
func (g *ground) broadcast(now int64, s payoffertest.Settlement) (hash common.Hash, err error) {
	g.act(func() {
		call, packed := transferCall(g.t, s)
		if err = packed; err != nil {
			return
		}
		if late := time.Duration(now-g.chain.Time()) * time.Second; g.chain.Pending(g.t) == 0 && late > 0 {
			g.chain.Elapse(g.t, late)
		}
		if err = g.chain.Try(g.chain.USDC, call); err == nil {
			hash, err = g.chain.Send(g.chain.USDC, call)
		}
	})
	return hash, err
}

// reorganize replaces the newest blocks, unless one of them is final or transactions wait. What stood in them stands in
// the blocks that follow: at once, or later.
func (g *ground) reorganize(blocks int, atOnce bool) {
	g.act(func() {
		switch {
		case g.chain.Pending(g.t) > 0 || g.chain.Head()%chain.Epoch < uint64(blocks):
		case atOnce:
			g.chain.Move(g.t, blocks)
		default:
			g.chain.Rewind(g.t, blocks)
		}
	})
}

// transfers are the charges on the chain.
func (g *ground) transfers(payee common.Address) (transfers []chain.Transfer) {
	g.act(func() { transfers = g.chain.TransfersTo(g.t, payee) })
	return transfers
}

// transferCall encodes what a facilitator was asked to broadcast.
func transferCall(t *testing.T, s payoffertest.Settlement) ([]byte, error) {
	a := chain.Authorization{From: common.HexToAddress(s.From), To: common.HexToAddress(s.To), Nonce: common.HexToHash(s.Nonce)}
	if _, err := fmt.Sscan(s.Value+" "+s.ValidAfter+" "+s.ValidBefore, &a.Value, &a.ValidAfter, &a.ValidBefore); err != nil {
		return nil, err
	}
	signature, err := hexutil.Decode(s.Signature)
	if err != nil {
		return nil, err
	}
	return a.Call(t, signature), nil
}
