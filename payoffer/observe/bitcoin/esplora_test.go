package bitcoin

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

type object = map[string]any

// fakeIndex is an Esplora API over a chain that a test writes block by block. It
// lists as Esplora does: 25 confirmed transactions a page, the newest 50
// unconfirmed ones.
type fakeIndex struct {
	*httptest.Server
	mu      sync.Mutex
	blocks  []fakeBlock
	pool    []fakeTx // oldest first
	calls   []string
	fault   func(w http.ResponseWriter, r *http.Request) bool // true when it has answered
	genesis string
	start   int64
}

type fakeBlock struct {
	hash string
	txs  []fakeTx
	late int64 // seconds that its miner's clock is ahead
}

// fakeTx pays amounts to scripts; it spends one output and, when from is
// set, one with that script; also are the scripts of further inputs.
type fakeTx struct {
	name, spends, from string
	pays               []output
	also               []string
}

func hashOf(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:])
}

// mainGenesis is the hash of Bitcoin's first block.
const mainGenesis = "000000000019d6689c085ae165831e934ff763ae46a2a6c172b3f1b60a8ce26f"

func newFakeIndex(t testing.TB, blocks int) *fakeIndex {
	s := &fakeIndex{genesis: mainGenesis, start: start.Unix() - int64(blocks-1)*600}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	for range blocks {
		s.mine()
	}
	return s
}

// mine adds a block with transactions, which leave the mempool.
func (fi *fakeIndex) mine(txs ...fakeTx) {
	fi.mu.Lock()
	defer fi.mu.Unlock()
	for _, tx := range txs {
		fi.pool = slices.DeleteFunc(fi.pool, func(p fakeTx) bool { return p.name == tx.name })
	}
	hash := fi.genesis
	if n := len(fi.blocks); n > 0 {
		var names []string
		for _, tx := range txs {
			names = append(names, tx.name)
		}
		hash = hashOf(fi.blocks[n-1].hash + strings.Join(names, ","))
	}
	fi.blocks = append(fi.blocks, fakeBlock{hash: hash, txs: txs})
}

func (fi *fakeIndex) mineEmpty(n int) {
	for range n {
		fi.mine()
	}
}

// bury mines transactions, and empty blocks above them.
func (fi *fakeIndex) bury(empty int, txs ...fakeTx) {
	fi.mine(txs...)
	fi.mineEmpty(empty)
}

// rewind takes the newest blocks off the chain, and their transactions too.
func (fi *fakeIndex) rewind(n int) {
	fi.mu.Lock()
	defer fi.mu.Unlock()
	fi.blocks = fi.blocks[:len(fi.blocks)-n]
}

func (fi *fakeIndex) setPool(txs ...fakeTx) {
	fi.mu.Lock()
	defer fi.mu.Unlock()
	fi.pool = txs
}

func (fi *fakeIndex) setFault(f func(w http.ResponseWriter, r *http.Request) bool) {
	fi.mu.Lock()
	defer fi.mu.Unlock()
	fi.fault = f
}

// called lists the paths that were asked for since the last time.
func (fi *fakeIndex) called() []string {
	fi.mu.Lock()
	defer fi.mu.Unlock()
	calls := fi.calls
	fi.calls = nil
	return calls
}

func (fi *fakeIndex) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	fi.mu.Lock()
	defer fi.mu.Unlock()
	fi.calls = append(fi.calls, r.URL.Path)
	if fi.fault != nil && fi.fault(w, r) {
		return
	}
	answer := fi.answer(strings.Split(strings.Trim(r.URL.Path, "/"), "/"))
	switch answer := answer.(type) {
	case nil:
		http.Error(w, "not found", http.StatusNotFound)
	case string:
		_, _ = w.Write([]byte(answer))
	default:
		_ = json.NewEncoder(w).Encode(answer)
	}
}

func (fi *fakeIndex) answer(path []string) any {
	tip := len(fi.blocks) - 1
	switch {
	case path[0] == "blocks" && len(path) == 3:
		return fi.blocks[tip].hash
	case path[0] == "block-height":
		if n, _ := strconv.Atoi(path[1]); n <= tip {
			return fi.blocks[n].hash
		}
	case path[0] == "block":
		for n, b := range fi.blocks {
			if b.hash == path[1] {
				return object{"id": b.hash, "height": n, "timestamp": fi.timeOf(n)}
			}
		}
	case path[0] == "address":
		return fi.address(path[1], path[2:])
	default:
		for tx, height := range fi.all() {
			if hashOf(tx.name) == path[1] {
				return fi.wire(*tx, height)
			}
		}
	}
	return nil
}

// timeOf is the time of a block, by its miner's clock.
func (fi *fakeIndex) timeOf(n int) int64 { return fi.start + int64(n)*600 + fi.blocks[n].late }

// all are the transactions, newest first, with their height; -1 in the mempool.
func (fi *fakeIndex) all() func(func(*fakeTx, int) bool) {
	return func(yield func(*fakeTx, int) bool) {
		for i := range slices.Backward(fi.pool) {
			if !yield(&fi.pool[i], -1) {
				return
			}
		}
		for n := range slices.Backward(fi.blocks) {
			for i := range slices.Backward(fi.blocks[n].txs) {
				if !yield(&fi.blocks[n].txs[i], n) {
					return
				}
			}
		}
	}
}

func (fi *fakeIndex) address(address string, path []string) any {
	script := scriptOf(address)
	pool, chain := []any{}, []any{}
	for tx, height := range fi.all() {
		if tx.from != script && !slices.ContainsFunc(tx.pays, func(o output) bool { return o.Script == script }) {
			continue
		}
		if height < 0 {
			pool = append(pool, fi.wire(*tx, height))
		} else {
			chain = append(chain, fi.wire(*tx, height))
		}
	}
	switch {
	case len(path) == 0:
		count := func(n int) object { return object{"tx_count": n, "funded_txo_count": n, "spent_txo_count": 0} }
		return object{"address": address, "chain_stats": count(len(chain)), "mempool_stats": count(len(pool))}
	case path[1] == "mempool":
		return pool[:min(len(pool), 50)]
	case len(path) == 3:
		i := slices.IndexFunc(chain, func(tx any) bool { return tx.(object)["txid"] == path[2] })
		chain = chain[i+1:]
		if i < 0 {
			chain = chain[:0]
		}
	}
	return chain[:min(len(chain), 25)]
}

func (fi *fakeIndex) status(height int) object {
	if height < 0 {
		return object{"confirmed": false}
	}
	return object{
		"confirmed": true, "block_height": height,
		"block_hash": fi.blocks[height].hash, "block_time": fi.timeOf(height),
	}
}

// wire is a transaction in the shape of the Esplora API, with fields that
// nobody here reads.
func (fi *fakeIndex) wire(tx fakeTx, height int) object {
	txid, vout, _ := strings.Cut(tx.spends, ":")
	n, _ := strconv.Atoi(vout)
	outputs := []any{}
	for _, o := range tx.pays {
		outputs = append(outputs, object{"scriptpubkey": o.Script, "scriptpubkey_address": "of somebody", "scriptpubkey_type": "?", "value": o.Value})
	}
	inputs := []any{}
	for i, script := range append([]string{tx.from}, tx.also...) {
		in := object{"txid": txid, "vout": n + i, "prevout": object{"scriptpubkey": script, "value": 1}, "sequence": uint32(4294967293)}
		if txid == coinbaseID {
			in["prevout"] = nil
		}
		inputs = append(inputs, in)
	}
	return object{
		"txid": hashOf(tx.name), "version": 2, "locktime": 0, "size": 110, "weight": 437, "fee": 110, "status": fi.status(height),
		"vin":  inputs,
		"vout": outputs,
	}
}
