package esplora

import (
	"cmp"
	"context"
	"errors"
	"slices"
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
