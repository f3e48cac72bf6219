package bitcoin

import (
	"context"
	"errors"
	"strconv"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
)

// The calls of the Esplora HTTP API (Blockstream/esplora, API.md) that are
// used. errNotFound is returned only by those that look up one thing.

// height is the number of the newest block.
func (e *endpoint) height(ctx context.Context) (int64, error) {
	height, err := get(ctx, e, maxText, decodeHeight, "blocks", "tip", "height")
	return height, e.required(err)
}

// blockAt is the hash of the block at a height of the best chain.
func (e *endpoint) blockAt(ctx context.Context, height int64) (hash string, err error) {
	return get(ctx, e, maxText, decodeHash, "block-height", strconv.FormatInt(height, 10))
}

// blockTime is the time of a block, in Unix seconds.
func (e *endpoint) blockTime(ctx context.Context, hash string) (int64, error) {
	b, err := get(ctx, e, maxText, decodeJSON[block], "block", hash)
	if err == nil && b.ID != hash {
		err = e.fail(observe.ErrBadAnswer)
	}
	return b.Timestamp, err
}

// stats counts the transactions of an address.
func (e *endpoint) stats(ctx context.Context, address string) (stats, error) {
	s, err := get(ctx, e, maxText, decodeJSON[stats], "address", address)
	return s, e.required(err)
}

// mempool lists the newest unconfirmed transactions of an address, up to 50.
func (e *endpoint) mempool(ctx context.Context, address string) ([]transaction, error) {
	return e.transactions(ctx, "address", address, "txs", "mempool")
}

// chain lists confirmed transactions of an address, newest first: a page of
// those that follow the transaction after, or the first page when it is empty.
// The last page is empty.
func (e *endpoint) chain(ctx context.Context, address, after string) ([]transaction, error) {
	path := []string{"address", address, "txs", "chain"}
	if after != "" {
		path = append(path, after)
	}
	return e.transactions(ctx, path...)
}

func (e *endpoint) transactions(ctx context.Context, path ...string) ([]transaction, error) {
	txs, err := get(ctx, e, maxAnswer, decodeTransactions, path...)
	return txs, e.required(err)
}

// transaction looks one transaction up.
func (e *endpoint) transaction(ctx context.Context, txid string) (transaction, error) {
	tx, err := get(ctx, e, maxAnswer, decodeJSON[transaction], "tx", txid)
	if err == nil && tx.ID != txid {
		err = e.fail(observe.ErrBadAnswer)
	}
	return tx, err
}

// spender says what spends an output. An output that the endpoint does not
// know is not spent as far as it can tell.
func (e *endpoint) spender(ctx context.Context, o outpoint) (spending, error) {
	s, err := get(ctx, e, maxText, decodeJSON[spending], "tx", o.Transaction, "outspend", strconv.FormatUint(uint64(o.Index), 10))
	if errors.Is(err, errNotFound) {
		return spending{}, nil
	}
	return s, err
}

// required turns the absence of what every Esplora has into a bad answer.
func (e *endpoint) required(err error) error {
	if errors.Is(err, errNotFound) {
		return e.fail(observe.ErrBadAnswer)
	}
	return err
}
