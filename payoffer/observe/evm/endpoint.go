package evm

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/source"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

const (
	callTimeout = 8 * time.Second
	// After backoffAfter failures in a row an endpoint is not called for backoffFirst, which doubles up to backoffMost.
	backoffAfter = 3
	backoffFirst = 4 * time.Second
	backoffMost  = 64 * time.Second
	// deepBlocks is how far below the head a block counts as final if an endpoint has no such tags: ten minutes of an
	// OP stack chain.
	deepBlocks = 300
	// maxReceipts bounds the cached receipts of an endpoint.
	maxReceipts = 4096
)

// endpoint is one JSON-RPC endpoint of a chain.
type endpoint struct {
	url, host string
	client    source.Client
	now       func() time.Time
	span      span
	pace      pace

	mu      sync.Mutex
	witness observe.Witness
	// checked says that the endpoint serves the configured chain and token.
	checked bool
	// tagged contains the block tags that it has answered.
	tagged map[Level]bool
	// failures counts failed calls in a row, the last with failure. Until backoffUntil it is not called.
	failures     int
	failure      error
	backoffUntil time.Time
	// best is its highest head, since movedAt.
	best    uint64
	movedAt time.Time
	// receipts were on the chain when they were read. They cannot change while their block is on it.
	receipts map[common.Hash]*receipt
}

// newEndpoint makes no network call.
func newEndpoint(address string, transport http.RoundTripper, now func() time.Time) (*endpoint, error) {
	u, err := offer.ParseURL(address)
	if err != nil {
		return nil, err
	}
	return &endpoint{
		url: u.String(), host: u.Hostname(), client: source.Client{Transport: transport, Timeout: callTimeout}, now: now,
		tagged: make(map[Level]bool), receipts: make(map[common.Hash]*receipt),
	}, nil
}

// count counts failures in a row of the connection and refusals to answer, but not rate limits. After a failure
// another chain can be at the same address.
func (e *endpoint) count(failed *observe.Error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if failed == nil || failed.Code == observe.ErrBadAnswer || failed.Code == observe.ErrLimited {
		e.failures = 0
		return
	}
	e.failures++
	e.checked = false
	if e.failures >= backoffAfter {
		e.failure = failed
		e.backoffUntil = e.now().Add(min(backoffFirst<<min(e.failures-backoffAfter, 8), backoffMost))
	}
}

func (e *endpoint) bad() error { return &observe.Error{Code: observe.ErrBadAnswer, Host: e.host} }

// ready checks, at first and after each failure, that the endpoint serves the configured chain and token.
func (e *endpoint) ready(ctx context.Context, chainID int64, token common.Address) error {
	e.mu.Lock()
	checked, failures, failure, until := e.checked, e.failures, e.failure, e.backoffUntil
	e.mu.Unlock()
	if failures >= backoffAfter && e.now().Before(until) {
		return failure
	}
	if checked {
		return nil
	}
	if err := e.check(ctx, chainID, token); errors.As(err, new(*Mismatch)) {
		return &observe.Error{Code: observe.ErrWrongChain, Host: e.host}
	} else if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.checked = true
	return nil
}

// note records the outcome of reading the endpoint's heads.
func (e *endpoint) note(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.witness.Update(err, e.now())
}

func (e *endpoint) status() (checked, awaited bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.checked, e.witness.IsLive(e.now())
}

// contract calls a function that returns one word.
func (e *endpoint) contract(ctx context.Context, to common.Address, data []byte, block string) (common.Hash, error) {
	var answer hexutil.Bytes
	err := e.call(ctx, &answer, "eth_call", map[string]any{"to": to, "data": hexutil.Bytes(data)}, block)
	if err != nil {
		return common.Hash{}, err
	}
	if len(answer) != common.HashLength {
		return common.Hash{}, e.bad()
	}
	return common.BytesToHash(answer), nil
}

// block reads a block by its number; nil for none.
func (e *endpoint) block(ctx context.Context, number uint64) (*block, error) {
	b, err := e.blockAt(ctx, hexutil.EncodeUint64(number))
	if err == nil && b != nil && uint64(b.Number) != number {
		return nil, e.bad()
	}
	return b, err
}

// blockAt reads a block by a number or tag.
func (e *endpoint) blockAt(ctx context.Context, at string) (*block, error) {
	var b *block
	if err := e.call(ctx, &b, "eth_getBlockByNumber", at, false); err != nil {
		return nil, err
	}
	if b != nil && b.Hash == (common.Hash{}) {
		return nil, e.bad()
	}
	return b, nil
}

func (e *endpoint) remembered(transaction common.Hash) *receipt {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.receipts[transaction]
}

func (e *endpoint) remember(r *receipt) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.receipts) >= maxReceipts {
		clear(e.receipts)
	}
	e.receipts[r.Transaction] = r
}

// receipt reads a transaction's receipt; nil for none.
func (e *endpoint) receipt(ctx context.Context, transaction common.Hash) (*receipt, error) {
	var r *receipt
	if err := e.call(ctx, &r, "eth_getTransactionReceipt", transaction); err != nil {
		return nil, err
	}
	other := func(l log) bool { return l.Transaction != transaction }
	if r != nil && (r.Transaction != transaction || slices.ContainsFunc(r.Logs, other)) {
		return nil, e.bad()
	}
	return r, nil
}
