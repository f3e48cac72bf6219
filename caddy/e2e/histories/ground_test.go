package histories

import (
	"context"
	"crypto/ecdsa"
	"fmt"
	"math/rand/v2"
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

// script is what a history has in store.
type script struct {
	payers, purchases, facilitators int
	// verify and settle are the replies of each facilitator; the last one, which stays, is a yes.
	verify, settle []payoffertest.FacilitatorReply
	// cuts is how often a connection is cut, and strangers the longest time between two of them.
	cuts      float64
	strangers time.Duration
	// outages says that the chain cannot be read at times, crashes that the shop dies and reloads that it is configured
	// anew, and forks that blocks are replaced.
	outages, crashes, reloads, forks bool
	// gated says that the payments are made at a gate, and that its content is what they are made for.
	gated bool
	// first says that the gate charges first, and fails that its application fails at times.
	first, fails bool
	// drought is how long nothing at all is settled, or 0: authorizations run out.
	drought time.Duration
}

// mostReplies is how many replies of a facilitator are scripted.
const mostReplies = 12

func newScript(d *dice) script {
	s := script{
		payers: 1 + d.roll(mostPayers), purchases: 1 + d.roll(3), facilitators: 1 + d.roll(2),
		cuts: float64(d.roll(50)) / 100, strangers: []time.Duration{10 * time.Second, time.Minute, time.Hour}[d.roll(3)],
		outages: d.roll(3) == 0, crashes: d.roll(3) == 0, reloads: d.roll(3) == 0, forks: d.roll(3) == 0,
	}
	faults := []float64{0.3, 0.6, 1}[d.roll(3)]
	s.verify = replies(d, faults/2, s.verifyFaults())
	s.settle = replies(d, faults, s.settleFaults())
	if d.chance(0.2) {
		s.drought = d.between(time.Minute, 12*time.Minute)
		s.settle = []payoffertest.FacilitatorReply{{Reason: "invalid_exact_evm_transaction_failed"}}
	}
	return s
}

func replies(d *dice, faults float64, all []payoffertest.FacilitatorReply) (replies []payoffertest.FacilitatorReply) {
	for range d.roll(mostReplies) {
		r := payoffertest.FacilitatorReply{}
		if d.chance(faults) {
			r = all[d.roll(len(all))]
		}
		replies = append(replies, r)
	}
	return append(replies, payoffertest.FacilitatorReply{})
}

// verifyFaults are the ways in which a facilitator fails to verify.
func (script) verifyFaults() []payoffertest.FacilitatorReply {
	return append(silence(),
		payoffertest.FacilitatorReply{Reason: "invalid_exact_evm_payload_undeployed_smart_wallet"},
		payoffertest.FacilitatorReply{Reason: "insufficient_funds"},
		payoffertest.FacilitatorReply{Reason: "settlement_pending"},
	)
}

// settleFaults are the ways in which a facilitator fails to settle, or says what is not so.
func (s script) settleFaults() []payoffertest.FacilitatorReply {
	all := append(silence(),
		payoffertest.FacilitatorReply{Reason: "invalid_exact_evm_transaction_failed"},
		payoffertest.FacilitatorReply{Reason: "settlement_pending"},
		payoffertest.FacilitatorReply{Reason: "settlement_pending", Transaction: nowhere},
		payoffertest.FacilitatorReply{NoTransaction: true},
		payoffertest.FacilitatorReply{Network: "eip155:1"},
	)
	for _, status := range statuses {
		all = append(all, payoffertest.FacilitatorReply{Status: status, Body: `{"error":"it acted all the same"}`})
	}
	if s.outages {
		// Without a chain a facilitator's success is believed: what is wrong in it could not be noticed.
		return all
	}
	return append(all,
		payoffertest.FacilitatorReply{Transaction: nowhere},
		payoffertest.FacilitatorReply{Idle: true, Transaction: nowhere},
	)
}

// nowhere is the hash of no transaction.
const nowhere = "0xdead00000000000000000000000000000000000000000000000000000000dead"

// statuses are what a facilitator answers that is no 200.
var statuses = []int{400, 401, 403, 404, 409, 429, 500, 502, 503}

// silence is what neither says yes nor no, at any call.
func silence() (all []payoffertest.FacilitatorReply) {
	for fault := payoffertest.FaultCloseUnread; fault <= payoffertest.FaultLate; fault++ {
		all = append(all, payoffertest.FacilitatorReply{Fault: fault})
	}
	for _, status := range statuses {
		all = append(all, payoffertest.FacilitatorReply{Status: status, Body: "{}", Idle: true})
	}
	return append(all, payoffertest.FacilitatorReply{Body: `{"success":tru`, Idle: true}, payoffertest.FacilitatorReply{Body: `{"success":tru`})
}

// dice decide what somebody does. Each has their own, so that what one does changes nothing of what the others do.
type dice struct {
	mu sync.Mutex
	r  *rand.Rand
}

// dice are those of one, by number, in this history.
func (w *world) dice(of uint64) *dice { return &dice{r: rand.New(rand.NewPCG(w.seed, of))} }

// chance is true so often in one.
func (d *dice) chance(p float64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.r.Float64() < p
}

// roll is a number from 0 to n-1.
func (d *dice) roll(n int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.r.IntN(n)
}

// between is a time between two others.
func (d *dice) between(least, most time.Duration) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return least + time.Duration(d.r.Int64N(int64(most-least)))
}

const (
	// blockTime is how often a block may be made.
	blockTime = 2 * time.Second
	// idleBlock is how old the newest block may be.
	idleBlock = 12 * time.Second
)

// mine makes the blocks.
func (w *world) mine() {
	d := w.dice(3)
	for pause(w.over, blockTime) {
		w.reach(w.now().Unix(), d.chance(0.7), idleBlock)
	}
}

// operate restarts the shop now and then.
func (w *world) operate(ctx context.Context) {
	d := w.dice(4)
	for pause(ctx, d.between(20*time.Second, 4*time.Minute)) {
		if w.script.crashes && d.chance(0.5) {
			w.crash(d.between(time.Second, 10*time.Second))
		} else if w.script.reloads {
			w.reload()
		}
	}
}

// storm lets the chain be unreadable at times, and its newest block be replaced.
func (w *world) storm(ctx context.Context) {
	d := w.dice(5)
	for pause(ctx, d.between(10*time.Second, 2*time.Minute)) {
		switch {
		case w.script.outages && d.chance(0.5):
			w.model.note("the chain cannot be read")
			w.wire.cut.Store(true)
			pause(ctx, d.between(5*time.Second, time.Minute))
			w.wire.cut.Store(false)
			w.model.note("the chain can be read again")
		case w.script.forks:
			w.model.note("the newest block is replaced")
			w.reorganize(1, d.chance(0.7))
		}
	}
}

// release lets the facilitators go on that hang, at a random time.
func (w *world) release() {
	if pause(w.over, w.dice(6).between(time.Second, 10*time.Minute)) {
		for _, f := range w.facilitators {
			f.Release()
		}
	}
}

// rain ends a drought.
func (w *world) rain() {
	if w.script.drought > 0 && pause(w.over, w.script.drought) {
		w.model.note("the facilitators settle again")
		w.heal()
	}
}

// heal lets the facilitators do what they are asked.
func (w *world) heal() {
	for _, f := range w.facilitators {
		f.Script(payoffertest.CallVerify, payoffertest.FacilitatorReply{})
		f.Script(payoffertest.CallSettle, payoffertest.FacilitatorReply{})
		f.Release()
	}
}
