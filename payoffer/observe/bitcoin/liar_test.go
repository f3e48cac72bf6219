package bitcoin

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/cases"
)

// One index lies, hides, lags, cuts off, fails and reorganizes as it likes, beside one
// or two that are honest. What the honest chain never held never counts; and the end is
// what it holds, or the rail is partial. Once the liar has done, it is not.
func TestLyingIndexChangesNothing(t *testing.T) {
	t.Parallel()
	// The four histories of the default run all but 3 of the 712 statements that the first eight run.
	for n := range cases.Of(4, 20, 5000) {
		for _, account := range []string{single, zpub} {
			lie(t, account, 1+uint64(n))
		}
	}
}

// lies is one random history.
type lies struct {
	*bench
	*rand.Rand
	seed   uint64
	honest *fakeIndex // the truth, and the other indexes
	others network
	liar   *fakeIndex
	made   []fakeTx
	ever   map[string]int64 // what the chain ever held, by the id of the transaction
	used   uint32           // one more than the last index that was ever paid to
	mining int
	// counted are the blocks in which payments counted.
	counted map[string]evidence
}

func lie(t *testing.T, account string, seed uint64) {
	l := &lies{bench: newBench(t, account), Rand: rand.New(rand.NewPCG(seed, 12)), seed: seed, ever: make(map[string]int64), counted: make(map[string]evidence)}
	n := newNetwork(t, 2+l.IntN(2), 100)
	l.honest, l.others, l.liar = n[0], slices.Clone(n[1:len(n)-1]), n[len(n)-1]
	l.Shuffle(len(n), func(i, j int) { n[i], n[j] = n[j], n[i] })
	o := l.hosts(n...)
	if l.IntN(4) > 0 {
		l.look(o)
	}
	for range 12 + l.IntN(20) {
		l.happen(o)
		for _, other := range l.others {
			other.as(l.honest)
		}
		l.deceive()
		l.look(o)
		l.clock.Pass(time.Duration(l.IntN(3)) * 7 * time.Minute)
		if l.IntN(12) == 0 {
			o = l.hosts(n...)
		}
	}
	for range 4 { // and for a while everything stays as it is
		l.clock.Pass(maxPause)
		l.look(o)
	}
	l.truth(o)
	l.liar.as(l.honest)
	for range 10 { // either of two different responses of one host can be the false one
		l.clock.Pass(maxPause)
		l.look(o)
	}
	require.False(l, o.Health().Partial, "seed %d: %s", seed, o.Health().LastError)
	l.truth(o)
}

// as makes an index show what another one shows.
func (fi *fakeIndex) as(other *fakeIndex) {
	fi.mu.Lock()
	defer fi.mu.Unlock()
	fi.fault, fi.pool, fi.blocks, fi.start = nil, slices.Clone(other.pool), slices.Clone(other.blocks), other.start
}

// look makes a round. Nothing counts that was never true.
func (l *lies) look(o *Observer) {
	l.Helper()
	l.clock.Pass(pollEvery)
	_ = o.Poll(l.Context())
	for _, r := range l.receipts() {
		if at, counted := l.counted[r.ExternalID]; counted && at.Block < int64(len(l.honest.blocks)) && l.honest.blocks[at.Block].hash == at.BlockHash {
			require.Equal(l, ledger.StatusConfirmed, r.Status, "seed %d: what stands where it was is taken back", l.seed)
		}
		if delete(l.counted, r.ExternalID); r.Status == ledger.StatusConfirmed {
			l.counted[r.ExternalID] = evidenceOf(r)
		}
		if r.Status != ledger.StatusConfirmed && !r.Final {
			continue
		}
		amount, held := l.ever[r.ExternalID]
		require.True(l, held || r.Status == ledger.StatusDropped, "seed %d: a payment that nobody made counts", l.seed)
		require.True(l, !held || r.Amount == amount, "seed %d: an amount that nobody paid", l.seed)
	}
	if c, found, err := l.db.Cursor(l.Context(), testOffer, l.rail.Account()); found {
		require.NoError(l, err)
		p, err := parsePosition(c)
		require.NoError(l, err)
		require.Equal(l, l.honest.blocks[p.Height].hash, p.anchor, "seed %d: the anchor is a lie", l.seed)
		if p.Index != nil {
			require.LessOrEqual(l, *p.Index, l.used, "seed %d: the address moved too far", l.seed)
		}
	}
}

// truth is what must stand in the ledger, unless the rail is partial.
func (l *lies) truth(o *Observer) {
	l.Helper()
	if h := o.Health(); h.Partial || h.Blind {
		return
	}
	want, got, may := make(map[string]int64), make(map[string]int64), make(map[string]int64)
	var tip int // one that lags is waited for
	_, err := fmt.Sscanf(o.Health().ObservedThrough, "block %d", &tip)
	require.NoError(l, err)
	for height := 100; height < len(l.honest.blocks); height++ {
		for _, tx := range l.honest.blocks[height].txs {
			if pays := tx.pays[1]; pays.Script != "" { // to this rail
				if may[hashOf(tx.name)+":1"] = pays.Value; height < tip {
					want[hashOf(tx.name)+":1"] = pays.Value
				}
			}
		}
	}
	for _, r := range l.receipts() {
		if r.Status == ledger.StatusConfirmed {
			got[r.ExternalID] = r.Amount
		}
	}
	require.Subset(l, got, want, "seed %d", l.seed)
	require.Subset(l, may, got, "seed %d", l.seed)
}

func (l *lies) receipts() []ledger.Receipt {
	l.Helper()
	all, err := l.db.Receipts(l.Context(), testOffer, 0, 1000)
	require.NoError(l, err)
	return all
}

// happen lets the honest chain go on.
func (l *lies) happen(o *Observer) {
	h := l.honest
	for range l.IntN(3) {
		index := uint32(0)
		if l.rail.Extended() {
			index = l.Uint32N(l.published() + 1)
			l.used = max(l.used, index+1)
		}
		tx := pay(fmt.Sprint("p", len(l.made)), l.at(index), 1000+int64(len(l.made)))
		if l.IntN(8) == 0 && len(h.pool) > 0 { // it replaces another one
			i := l.IntN(len(h.pool))
			tx.spends = h.pool[i].spends
			h.pool = slices.Delete(h.pool, i, i+1)
		}
		l.made = append(l.made, tx)
		h.pool = append(h.pool, tx)
	}
	var back []fakeTx
	if tip := len(h.blocks); l.IntN(5) == 0 && tip > 110 {
		depth := 1 + l.IntN(6)
		for _, b := range h.blocks[tip-depth:] {
			back = append(back, slices.DeleteFunc(slices.Clone(b.txs), func(tx fakeTx) bool { return tx.pays[1].Script == "" })...)
		}
		h.rewind(depth)
		h.pool = append(h.pool, back...)
		l.mining = depth + 1
	}
	for range max(l.mining, l.IntN(4)) {
		l.mining--
		var txs []fakeTx
		for _, tx := range slices.Clone(h.pool) {
			if l.IntN(2) == 0 {
				txs = append(txs, tx)
			}
		}
		h.mine(append(txs, pay(fmt.Sprint("coinbase", l.Int64()), strangers, 1))...)
		for _, tx := range txs {
			l.ever[hashOf(tx.name)+":1"] = tx.pays[1].Value
		}
	}
	l.mining = 0
}

// published is the index of the address that the ledger says is current.
func (l *lies) published() uint32 {
	c, found, err := l.db.Cursor(l.Context(), testOffer, l.rail.Account())
	require.NoError(l, err)
	if !found {
		return 0
	}
	p, err := parsePosition(c)
	require.NoError(l, err)
	return *p.Index
}

// deceive lets the liar show what it likes.
func (l *lies) deceive() {
	s := l.liar
	if l.IntN(5) == 0 {
		return // it stands still, with its lie
	}
	s.as(l.honest)
	for range l.IntN(3) {
		tip := len(s.blocks) - 1
		height := max(100, tip-l.IntN(20))
		switch kind := l.IntN(11); {
		case kind == 0: // it fails
			s.fault = answer([]string{"", "/tx/", "/address/", "/txs/chain", "/block-height/"}[l.IntN(5)], []int{503, 404, 429}[l.IntN(3)], "")
		case kind == 1: // it knows nothing unconfirmed
			s.pool = nil
		case kind == 2 && height <= tip: // it hides
			s.blocks[height].txs = nil
		case kind == 3 && height <= tip: // it invents
			s.blocks[height].txs = append(slices.Clone(s.blocks[height].txs), pay(fmt.Sprint("invented", l.IntN(5)), l.at(l.reach()), 1_000_000))
		case kind == 4:
			s.pool = append(s.pool, pay(fmt.Sprint("invented", l.IntN(5)), l.at(l.reach()), 1_000_000))
		case kind == 5 && height <= tip && len(s.blocks[height].txs) > 0: // it tells of other amounts, or owners
			txs := slices.Clone(s.blocks[height].txs)
			i := l.IntN(len(txs))
			if txs[i].from = scriptOf(l.at(0)); l.IntN(2) == 0 {
				txs[i].pays = []output{txs[i].pays[0], {txs[i].pays[1].Script, 7_000_000}}
			}
			s.blocks[height].txs = txs
		case kind == 6: // it lags
			s.blocks = s.blocks[:max(100, tip+1-l.IntN(15))]
		case kind == 7: // its chain is too long
			for range 1 + l.IntN(30) {
				s.mine(pay(fmt.Sprint("never", l.Int64()), l.at(l.reach()), 1_000_000))
			}
		case kind == 8: // it has another history
			depth := min(1+l.IntN(25), tip-99)
			s.rewind(depth)
			for range depth + l.IntN(3) {
				s.mine(pay(fmt.Sprint("fork", l.Int64()), l.at(l.reach()), 1_000_000))
			}
		case kind == 9: // it cuts lists off
			s.fault = answer([]string{"/txs/chain", "/txs/chain/", "/txs/mempool"}[l.IntN(3)], 200, "[]")
		case kind == 10: // it counts what it likes
			count := object{"tx_count": l.IntN(40), "funded_txo_count": 1, "spent_txo_count": 0}
			s.fault = func(w http.ResponseWriter, r *http.Request) bool {
				return strings.Count(r.URL.Path, "/") == 2 && answer("/address/", 200, encode(object{"chain_stats": count, "mempool_stats": count}))(w, r)
			}
		}
	}
}

// reach is the index of an address that a liar may pay to.
func (l *lies) reach() uint32 {
	if !l.rail.Extended() {
		return 0
	}
	return l.Uint32N(l.used + 5)
}
