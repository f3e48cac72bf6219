package esplora

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/btcsuite/btcd/wire/v2"
)

// noInformation is btcd's code for an address that was never used.
const noInformation = -5

// address answers for /address/:address and what lies below it.
func (s *server) address(ctx context.Context, text string, path []string) (any, error) {
	pool, chain, err := s.history(ctx, text)
	if err != nil {
		return nil, err
	}
	switch {
	case len(path) == 0:
		return s.stats(text, pool, chain), nil
	case len(path) == 2 && path[1] == "mempool":
		return s.list(ctx, pool[:min(len(pool), mempoolList)])
	case len(path) >= 2 && path[1] == "chain":
		if len(path) == 3 {
			// Of a transaction that it does not know, Esplora knows none that follow.
			i := slices.IndexFunc(chain, func(f found) bool { return f.id() == path[2] })
			if chain = chain[i+1:]; i < 0 {
				chain = nil
			}
		}
		return s.list(ctx, chain[:min(len(chain), chainPage)])
	default:
		return nil, errNotFound
	}
}

func (f found) id() string {
	tx, err := f.decode()
	if err != nil {
		return ""
	}
	return tx.TxHash().String()
}

func (s *server) stats(text string, pool, chain []found) object {
	count := func(list []found) object {
		return object{"tx_count": len(list), "funded_txo_count": len(list), "funded_txo_sum": 0, "spent_txo_count": 0, "spent_txo_sum": 0}
	}
	return object{"address": text, "chain_stats": count(chain), "mempool_stats": count(pool)}
}

func (s *server) list(ctx context.Context, list []found) ([]object, error) {
	txs := []object{}
	for _, f := range list {
		tx, err := s.wire(ctx, f)
		if err != nil {
			return nil, err
		}
		txs = append(txs, tx)
	}
	return txs, nil
}

// history are the transactions of an address: those of the mempool, and those of the chain, newest first. The node
// keeps no order of the mempool; one that never changes hides the same ones behind the limit each time.
func (s *server) history(ctx context.Context, text string) (pool, chain []found, err error) {
	translated, err := s.translate(text)
	if err != nil {
		return nil, nil, err
	}
	var all []found
	err = s.node.Call(ctx, &all, "searchrawtransactions", translated, 1, 0, searched, 0, true)
	var known *RPCError
	if errors.As(err, &known) && known.Code == noInformation {
		return nil, nil, nil
	}
	for _, f := range all {
		if f.BlockHash == "" {
			pool = append(pool, f)
		} else {
			chain = append(chain, f)
		}
	}
	slices.SortFunc(pool, func(a, b found) int { return cmp.Compare(a.id(), b.id()) })
	return pool, chain, err
}

// outspend answers for /tx/:txid/outspend/:vout.
func (s *server) outspend(ctx context.Context, txid, vout string) (any, error) {
	index, err := strconv.ParseUint(vout, 10, 32)
	if err != nil {
		return nil, errNotFound
	}
	var pool []struct {
		Spender string `json:"spendingtxid"`
	}
	asked := []object{{"txid": txid, "vout": index}}
	if err := s.node.Call(ctx, &pool, "gettxspendingprevout", asked); err != nil {
		return nil, err
	}
	if len(pool) > 0 && pool[0].Spender != "" {
		return spent(pool[0].Spender, object{"confirmed": false}), nil
	}
	height, err := s.height(ctx)
	if err != nil {
		return nil, err
	}
	for at := height; at > max(0, height-scanned); at-- {
		hash, err := s.blockAt(ctx, strconv.FormatInt(at, 10))
		if err != nil {
			return nil, err
		}
		spender, err := s.spenderIn(ctx, hash, txid, uint32(index))
		if err != nil {
			return nil, err
		}
		if spender != "" {
			status, err := s.status(ctx, hash)
			return spent(spender, status), err
		}
	}
	return object{"spent": false}, nil
}

func spent(txid string, status object) object {
	return object{"spent": true, "txid": txid, "vin": 0, "status": status}
}

// spenderIn finds the transaction of a block that spends an output.
func (s *server) spenderIn(ctx context.Context, hash, txid string, vout uint32) (string, error) {
	var raw string
	if err := s.node.Call(ctx, &raw, "getblock", hash, 0); err != nil {
		return "", err
	}
	b := new(wire.MsgBlock)
	if err := b.Deserialize(hex.NewDecoder(strings.NewReader(raw))); err != nil {
		return "", err
	}
	for _, tx := range b.Transactions {
		for _, in := range tx.TxIn {
			if in.PreviousOutPoint.Index == vout && in.PreviousOutPoint.Hash.String() == txid {
				return tx.TxHash().String(), nil
			}
		}
	}
	return "", nil
}
