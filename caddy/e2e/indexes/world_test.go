package indexes

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/btcsuite/btcd/btcutil/v2"
	"github.com/btcsuite/btcd/chaincfg/v2"
	"github.com/btcsuite/btcd/wire/v2"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/bitcoin"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/bitcoin/esplora"
)

const (
	// atOnce is how many histories share a node: its miner has the coins for their payments.
	atOnce, maxPayments = 50, 4
	// steps are those of a random history, half a minute each. After them the chain is extended until all is final, and
	// rounds are made, lastPause apart: by then an endpoint that failed is asked again.
	steps, lastRounds, lastPause = 30, 8, 11 * time.Minute
	// untilFinal is more blocks than a payment needs to be final.
	untilFinal = 16
)

// world is a node, its miner, and histories that share its chain. It moves while no history makes a round.
type world struct {
	testing.TB
	node      *bitcoin.Node
	source    *source
	honest    map[bool]*honestIndex // by whether the account is an extended key
	random    *rand.Rand
	now       time.Time
	start     int // the height at which the histories begin
	pending   []*payment
	histories []*history
	// depths are the most confirmations that a transaction has ever had.
	depths map[string]int
}

// payment is a transaction that pays a history's account, or takes back one that did.
type payment struct {
	tx *wire.MsgTx
	of *history
}

// newWorld has histories of some seeds, which begin now. To some accounts somebody has paid before.
func newWorld(t testing.TB, first, count int) *world {
	t.Helper()
	seed := uint64(first)
	w := &world{TB: t, node: bitcoin.Start(t), random: rand.New(rand.NewPCG(seed, 12)), depths: make(map[string]int)}
	chain := w.node.Chain()
	w.source = &source{node: w.node, coin: chain[len(chain)-1].Transactions()[1].Hash().String()}
	w.source.always = make(map[string]json.RawMessage)
	w.honest = map[bool]*honestIndex{
		false: {next: esplora.Handler(w.source, bitcoin.Params, bitcoin.Params)},
		true:  {next: esplora.Handler(w.source, bitcoin.Params, &chaincfg.TestNet3Params)},
	}
	for i := range count {
		w.histories = append(w.histories, newHistory(w, seed+uint64(i)))
	}
	var early []*wire.MsgTx
	for _, h := range w.histories {
		if h.random.IntN(4) == 0 {
			at, _ := h.rail.Address(0)
			tx := h.node.Payment(h, at, 50_000)
			early, h.early, h.paid = append(early, tx), tx.TxHash().String(), 0
		}
	}
	w.node.Mine(w, early...)
	for range untilFinal {
		w.node.Wait(time.Minute)
		w.node.Mine(w)
	}
	w.now, w.start = w.node.Time(), w.node.Height()
	for _, h := range w.histories {
		h.open()
	}
	return w
}

// run makes the histories from their beginning to their end.
func (w *world) run() {
	w.Helper()
	for range steps {
		w.wait(30 * time.Second)
		for _, h := range w.histories {
			h.step()
		}
		switch w.random.IntN(20) {
		case 0:
			w.reorganize(1 + w.random.IntN(4))
		case 1, 2, 3, 4, 5, 6, 7, 8, 9, 10:
			w.mine()
		}
		w.rounds()
	}
	w.mineAll()
	for range untilFinal {
		w.mine()
	}
	for _, h := range w.histories {
		h.end()
	}
	for range lastRounds {
		w.wait(lastPause)
		w.mine()
		w.rounds()
	}
}

func (w *world) wait(d time.Duration) {
	w.now = w.now.Add(d)
	w.node.Wait(d)
}

// mine makes a block of some of the payments that wait.
func (w *world) mine() {
	w.Helper()
	var waits []*payment
	var mined []*wire.MsgTx
	for _, p := range w.pending {
		if w.random.IntN(2) == 0 {
			mined = append(mined, p.tx)
		} else {
			waits = append(waits, p)
		}
	}
	w.pending = waits
	w.node.Mine(w, mined...)
	w.mined()
}

func (w *world) mineAll() {
	w.Helper()
	var mined []*wire.MsgTx
	for _, p := range w.pending {
		mined = append(mined, p.tx)
	}
	w.pending = nil
	w.node.Mine(w, mined...)
	w.mined()
}

// reorganize takes blocks off the chain, none from before the histories, and puts more in their place. Some of the payments
// that stood there stand in these, and some are replaced.
func (w *world) reorganize(depth int) {
	w.Helper()
	chain := w.node.Chain()
	if depth = min(depth, len(chain)-w.start); depth == 0 {
		return
	}
	returned := make(map[string]bool)
	for _, b := range chain[len(chain)-depth:] {
		for _, tx := range b.Transactions()[1:] {
			returned[tx.Hash().String()] = true
		}
	}
	w.node.Rewind(w, depth)
	for _, h := range w.histories {
		for _, p := range h.payments {
			if returned[p.tx.TxHash().String()] {
				w.pending = append(w.pending, p)
			}
		}
	}
	for _, h := range w.histories {
		h.note("a reorganization of %d blocks", depth)
		if h.random.IntN(4) == 0 {
			h.replace()
		}
	}
	for range depth + 1 {
		w.mine()
	}
}

// mined notes how deep the transactions of the best chain lie.
func (w *world) mined() {
	chain := w.node.Chain()
	for i := max(0, len(chain)-2*untilFinal); i < len(chain); i++ {
		for _, tx := range chain[i].Transactions()[1:] {
			id := tx.Hash().String()
			w.depths[id] = max(w.depths[id], len(chain)-i)
		}
	}
}

// rounds are one of each history.
func (w *world) rounds() {
	w.source.forget()
	for _, index := range w.honest {
		index.forget()
	}
	var work sync.WaitGroup
	turns := make(chan struct{}, runtime.GOMAXPROCS(0))
	for _, h := range w.histories {
		turns <- struct{}{}
		work.Go(func() {
			h.round()
			<-turns
		})
	}
	work.Wait()
}

// holds is what the best chain holds for the scripts of an account: satoshis by "txid:vout".
func holds(chain []*btcutil.Block, ours func(script []byte) bool) map[string]int64 {
	held := make(map[string]int64)
	for _, b := range chain {
		for _, tx := range b.Transactions() {
			for i, out := range tx.MsgTx().TxOut {
				if ours(out.PkScript) {
					held[fmt.Sprintf("%s:%d", tx.Hash(), i)] = out.Value
				}
			}
		}
	}
	return held
}

// memory remembers what a node or an index has told. Of the node a block, and the transaction that all coins come from,
// stay as they are; everything else may be another thing after each step.
type memory[T any] struct {
	mu            sync.Mutex
	always, until map[string]T
}

func (m *memory[T]) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.until = make(map[string]T)
}

func (m *memory[T]) get(key string, always bool, ask func() (T, error)) (T, error) {
	m.mu.Lock()
	told, known := m.until[key]
	if !known {
		told, known = m.always[key]
	}
	m.mu.Unlock()
	if known {
		return told, nil
	}
	told, err := ask()
	if err != nil {
		return told, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if always {
		m.always[key] = told
	} else {
		m.until[key] = told
	}
	return told, nil
}

// source is the node, which makes a connection for each call.
type source struct {
	node *bitcoin.Node
	coin string
	memory[json.RawMessage]
}

func (s *source) Call(ctx context.Context, result any, method string, params ...any) error {
	always := method == "getblock" || method == "getrawtransaction" && params[0] == s.coin
	raw, err := s.get(fmt.Sprint(method, params), always, func() (raw json.RawMessage, err error) {
		if method != "getrawtransaction" {
			return raw, s.node.Call(ctx, &raw, method, params...)
		}
		var needed struct { // of all that the node tells of hundreds of outputs
			Hex       string `json:"hex"`
			BlockHash string `json:"blockhash"`
		}
		if err := s.node.Call(ctx, &needed, method, params...); err != nil {
			return nil, err
		}
		return json.Marshal(needed)
	})
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, result)
}

// honestIndex is an index over the node.
type honestIndex struct {
	next http.Handler
	memory[*httptest.ResponseRecorder]
}

func (i *honestIndex) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	told, _ := i.get(r.URL.Path, false, func() (*httptest.ResponseRecorder, error) {
		told := httptest.NewRecorder()
		i.next.ServeHTTP(told, r.WithContext(context.Background()))
		return told, nil
	})
	w.WriteHeader(told.Code)
	_, _ = w.Write(bytes.TrimSpace(told.Body.Bytes()))
}
