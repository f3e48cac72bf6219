package indexes

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
)

type object = map[string]any

// index is an Esplora API as an observer reaches it: an honest one, or one that lies in front of it.
type index struct {
	honest http.Handler
	mu     sync.Mutex
	lie    lie
}

// ask is a question to the honest index. The answer is JSON or text, and nil with a status other than 200.
type ask func(path ...string) (status int, answer any)

// lie answers for the honest index; a nil one does not.
type lie func(ask ask, path []string) (status int, answer any)

func (i *index) tell(l lie) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.lie = l
}

// RoundTrip makes the index a transport, so that no history needs a port.
func (i *index) RoundTrip(r *http.Request) (*http.Response, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	w := httptest.NewRecorder()
	if i.lie == nil {
		i.honest.ServeHTTP(w, r)
		return w.Result(), nil
	}
	status, answer := i.lie(i.ask, strings.Split(strings.Trim(r.URL.Path, "/"), "/"))
	w.WriteHeader(status)
	if text, ok := answer.(string); ok {
		_, _ = w.WriteString(text)
	} else {
		_ = json.NewEncoder(w).Encode(answer)
	}
	return w.Result(), nil
}

func (i *index) ask(path ...string) (int, any) {
	w := httptest.NewRecorder()
	i.honest.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/"+strings.Join(path, "/"), nil))
	if w.Code != http.StatusOK {
		return w.Code, nil
	}
	var answer any
	d := json.NewDecoder(strings.NewReader(w.Body.String()))
	d.UseNumber()
	if text := w.Body.String(); !strings.HasPrefix(text, "{") && !strings.HasPrefix(text, "[") || d.Decode(&answer) != nil {
		return w.Code, text
	}
	return w.Code, answer
}

// fake is the name of a block or transaction that does not exist.
func fake(of ...any) string {
	sum := sha256.Sum256([]byte(fmt.Sprint(of...)))
	return hex.EncodeToString(sum[:])
}

func number(v any) int64 {
	n, _ := strconv.ParseInt(fmt.Sprint(v), 10, 64)
	return n
}

func confirmed(tx object) bool { return tx["status"].(object)["confirmed"] == true }

func heightOf(tx object) int64 { return number(tx["status"].(object)["block_height"]) }

// view is a lie about transactions, the same wherever they are asked for: see changes one, or hides it, and more are those
// that an address has beside. spent says what spends an output, where the lie has a word on that.
type view struct {
	see   func(tx object) (object, bool)
	more  func(ask ask, address string) []object
	spent func(ask ask, txid string) object
}

func (v view) lie(ask ask, path []string) (int, any) {
	switch {
	case len(path) == 2 && path[0] == "address":
		chain, pool := v.history(ask, path[1])
		count := func(n int) object {
			return object{"tx_count": n, "funded_txo_count": n, "spent_txo_count": 0}
		}
		return 200, object{"address": path[1], "chain_stats": count(len(chain)), "mempool_stats": count(len(pool))}
	case len(path) >= 4 && path[0] == "address":
		chain, pool := v.history(ask, path[1])
		if path[3] == "mempool" {
			return 200, pool
		}
		if len(path) == 5 {
			i := slices.IndexFunc(chain, func(tx object) bool { return tx["txid"] == path[4] })
			if chain = chain[i+1:]; i < 0 {
				chain = []object{}
			}
		}
		return 200, chain[:min(len(chain), 25)]
	case len(path) == 2 && path[0] == "tx":
		status, answer := ask(path...)
		if tx, ok := answer.(object); ok {
			if tx, shown := v.see(tx); shown {
				return 200, tx
			}
			return 404, "Transaction not found"
		}
		return status, answer
	case len(path) == 4 && path[0] == "tx" && v.spent != nil:
		if answer := v.spent(ask, path[1]); answer != nil {
			return 200, answer
		}
	}
	return ask(path...)
}

// history is that of an address, newest first. No address here has more than a page of it.
func (v view) history(ask ask, address string) (chain, pool []object) {
	chain, pool = []object{}, []object{}
	all := v.more(ask, address)
	for _, list := range []string{"chain", "mempool"} {
		_, answer := ask("address", address, "txs", list)
		for _, tx := range answer.([]any) {
			if tx, shown := v.see(tx.(object)); shown {
				all = append(all, tx)
			}
		}
	}
	for _, tx := range all {
		if confirmed(tx) {
			chain = append(chain, tx)
		} else {
			pool = append(pool, tx)
		}
	}
	slices.SortStableFunc(chain, func(a, b object) int { return cmp.Compare(heightOf(b), heightOf(a)) })
	return chain, pool
}

func seeAll(tx object) (object, bool)  { return tx, true }
func nothingMore(ask, string) []object { return nil }
func tipOf(ask ask) int64              { _, answer := ask("blocks", "tip", "height"); return number(answer) }
func hashAt(ask ask, height int64) string {
	_, answer := ask("block-height", strconv.FormatInt(height, 10))
	return fmt.Sprint(answer)
}
func timeAt(ask ask, hash string) (at int64) {
	_, answer := ask("block", hash)
	if b, ok := answer.(object); ok {
		at = number(b["timestamp"])
	}
	return at
}

// stands is the status of a transaction in a real block.
func stands(ask ask, below int64) object {
	height := max(1, tipOf(ask)-below)
	hash := hashAt(ask, height)
	return object{"confirmed": true, "block_height": height, "block_hash": hash, "block_time": timeAt(ask, hash)}
}

// lies are all kinds, each of them about the account of a history, made anew with other particulars each time.
var lies = map[string]func(random *rand.Rand, h *history) lie{
	"invented payment": func(random *rand.Rand, h *history) lie {
		id, below, satoshis := fake("invented", random.Uint64()), random.Int64N(16), 10_000+random.Int64N(90_000)
		at, pooled := h.anyAddress(random), random.IntN(4) == 0
		tx := func(ask ask) object {
			status := object{"confirmed": false}
			if !pooled {
				status = stands(ask, below)
			}
			return object{
				"txid": id, "status": status,
				"vin":  []object{{"txid": fake(id), "vout": 0, "prevout": object{"scriptpubkey": "51", "value": satoshis}}},
				"vout": []object{{"scriptpubkey": h.script(at), "value": satoshis}},
			}
		}
		v := view{see: seeAll, more: func(ask ask, address string) []object {
			if address != at {
				return nil
			}
			return []object{tx(ask)}
		}}
		return func(ask ask, path []string) (int, any) {
			if len(path) == 2 && path[1] == id {
				return 200, tx(ask)
			}
			return v.lie(ask, path)
		}
	},
	"hidden payments": func(random *rand.Rand, _ *history) lie {
		hidden := func(id string) bool { return true }
		if salt := random.Uint64(); random.IntN(2) == 0 {
			hidden = func(id string) bool { return fake(salt, id)[0] < '8' }
		}
		return view{see: func(tx object) (object, bool) { return tx, !hidden(fmt.Sprint(tx["txid"])) }, more: nothingMore}.lie
	},
	"hidden in lists only": func(random *rand.Rand, _ *history) lie {
		salt := random.Uint64()
		v := view{see: func(tx object) (object, bool) { return tx, fake(salt, tx["txid"])[0] < '8' }, more: nothingMore}
		return func(ask ask, path []string) (int, any) {
			if len(path) == 2 {
				return ask(path...)
			}
			return v.lie(ask, path)
		}
	},
	"replaced payments": func(random *rand.Rand, _ *history) lie {
		below := random.Int64N(20)
		return view{
			see: func(tx object) (object, bool) { return tx, false }, more: nothingMore,
			spent: func(ask ask, txid string) object {
				return object{"spent": true, "txid": fake("replacement", txid), "vin": 0, "status": stands(ask, below)}
			},
		}.lie
	},
	"other amounts": func(random *rand.Rand, h *history) lie {
		by := 1 + random.Int64N(1_000_000)
		return view{more: nothingMore, see: func(tx object) (object, bool) {
			for _, out := range tx["vout"].([]any) {
				if out := out.(object); h.scripts[fmt.Sprint(out["scriptpubkey"])] {
					out["value"] = number(out["value"]) + by
				}
			}
			return tx, true
		}}.lie
	},
	"other states": func(random *rand.Rand, _ *history) lie {
		up, below := random.IntN(2) == 0, random.Int64N(16)
		return func(ask ask, path []string) (int, any) {
			return view{more: nothingMore, see: func(tx object) (object, bool) {
				switch {
				case up && !confirmed(tx):
					tx["status"] = stands(ask, below)
				case !up && confirmed(tx):
					tx["status"] = object{"confirmed": false}
				}
				return tx, true
			}}.lie(ask, path)
		}
	},
	"empty pages": func(*rand.Rand, *history) lie {
		return func(ask ask, path []string) (int, any) {
			if len(path) >= 4 && path[0] == "address" {
				return 200, []object{}
			}
			return ask(path...)
		}
	},
	"short pages": func(*rand.Rand, *history) lie {
		return func(ask ask, path []string) (int, any) {
			status, answer := ask(path...)
			if list, ok := answer.([]any); ok && path[0] == "address" {
				return 200, list[:len(list)/2]
			}
			return status, answer
		}
	},
	"false counts": func(random *rand.Rand, _ *history) lie {
		by := int64(random.IntN(5)) - 1
		return func(ask ask, path []string) (int, any) {
			status, answer := ask(path...)
			if len(path) == 2 && path[0] == "address" {
				for _, part := range []string{"chain_stats", "mempool_stats"} {
					counts := answer.(object)[part].(object)
					counts["tx_count"] = max(0, number(counts["tx_count"])+by)
				}
			}
			return status, answer
		}
	},
	"an older chain": func(random *rand.Rand, _ *history) lie {
		behind := 1 + random.Int64N(20)
		return func(ask ask, path []string) (int, any) {
			tip := max(0, tipOf(ask)-behind)
			switch {
			case path[0] == "blocks" && len(path) == 3:
				return 200, strconv.FormatInt(tip, 10)
			case (path[0] == "blocks" || path[0] == "block-height") && number(path[1]) > tip:
				return 404, "Block not found"
			}
			return view{more: nothingMore, see: func(tx object) (object, bool) {
				if confirmed(tx) && heightOf(tx) > tip {
					tx["status"] = object{"confirmed": false}
				}
				return tx, true
			}}.lie(ask, path)
		}
	},
	"a longer chain": func(random *rand.Rand, _ *history) lie {
		ahead, salt := 1+random.Int64N(20), random.Uint64()
		return invented(salt, func(ask ask) (from, tip int64) { return tipOf(ask) + 1, tipOf(ask) + ahead })
	},
	"another chain": func(random *rand.Rand, _ *history) lie {
		below, salt := random.Int64N(20), random.Uint64()
		return invented(salt, func(ask ask) (from, tip int64) { return tipOf(ask) - below, tipOf(ask) })
	},
	"a false height": func(random *rand.Rand, _ *history) lie {
		by := random.Int64N(40) - 20
		return func(ask ask, path []string) (int, any) {
			if path[0] == "blocks" && len(path) == 3 {
				return 200, strconv.FormatInt(max(0, tipOf(ask)+by), 10)
			}
			return ask(path...)
		}
	},
	"false times": func(random *rand.Rand, _ *history) lie {
		by := (random.Int64N(200_000) - 100_000)
		return func(ask ask, path []string) (int, any) {
			status, answer := ask(path...)
			shift := func(b object) {
				for _, name := range []string{"timestamp", "mediantime"} {
					if b[name] != nil {
						b[name] = number(b[name]) + by
					}
				}
			}
			switch answer := answer.(type) {
			case object:
				if path[0] == "block" {
					shift(answer)
				}
			case []any:
				for _, b := range answer {
					if path[0] == "blocks" {
						shift(b.(object))
					}
				}
			}
			return status, answer
		}
	},
	"failures": func(random *rand.Rand, _ *history) lie {
		status := []int{200, 404, 429, 500, 503}[random.IntN(5)]
		return func(ask, []string) (int, any) { return status, "busy" }
	},
}

// invented is a lie of blocks that do not exist, between two heights.
func invented(salt uint64, between func(ask ask) (from, tip int64)) lie {
	return func(ask ask, path []string) (int, any) {
		from, tip := between(ask)
		status := func(height int64) object {
			return object{"id": fake(salt, height), "height": height, "timestamp": timeAt(ask, hashAt(ask, tipOf(ask))), "mediantime": timeAt(ask, hashAt(ask, tipOf(ask)))}
		}
		switch {
		case path[0] == "blocks" && len(path) == 3:
			return 200, strconv.FormatInt(tip, 10)
		case path[0] == "blocks" && number(path[1]) >= from:
			list := []any{}
			for height := number(path[1]); height >= from && len(list) < 10; height-- {
				list = append(list, status(height))
			}
			if _, rest := ask("blocks", strconv.FormatInt(from-1, 10)); len(list) < 10 && rest != nil {
				list = append(list, rest.([]any)[:min(10-len(list), len(rest.([]any)))]...)
			}
			return 200, list
		case path[0] == "block-height" && number(path[1]) >= from:
			if number(path[1]) > tip {
				return 404, "Block not found"
			}
			return 200, fake(salt, number(path[1]))
		case path[0] == "block":
			for height := from; height <= tip; height++ {
				if fake(salt, height) == path[1] {
					return 200, status(height)
				}
			}
		}
		return view{more: nothingMore, see: func(tx object) (object, bool) {
			if s := tx["status"].(object); confirmed(tx) && heightOf(tx) >= from {
				s["block_hash"] = fake(salt, heightOf(tx))
			}
			return tx, true
		}}.lie(ask, path)
	}
}

// sometimes tells a lie at random calls only.
func sometimes(random *rand.Rand, l lie) lie {
	own := rand.New(rand.NewPCG(random.Uint64(), random.Uint64()))
	return func(ask ask, path []string) (int, any) {
		if own.IntN(3) > 0 {
			return ask(path...)
		}
		return l(ask, path)
	}
}
