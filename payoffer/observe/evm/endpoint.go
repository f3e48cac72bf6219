package evm

import (
	"context"
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
	// callTimeout bounds one call to an endpoint.
	callTimeout = 8 * time.Second
	// restAfter is how many failures in a row an endpoint may have before it
	// is left alone for a while, which is restFirst and doubles up to restMost.
	restAfter = 3
	restFirst = 4 * time.Second
	restMost  = 64 * time.Second
	// deepBlocks is how far below the head a block counts as final, and as safe,
	// where an endpoint has no such tags: ten minutes of an OP stack chain.
	deepBlocks = 300
	// maxReceipts bounds the receipts that are remembered of an endpoint.
	maxReceipts = 4096
	// decimals are those of USDC on every known network.
	decimals = 6
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
	// checked says that it answers for the configured chain and token.
	checked bool
	// tagged holds the block tags that it has answered.
	tagged map[Level]bool
	// failures counts calls that failed in a row, the last with failure; until
	// rest is over it is not asked again.
	failures int
	failure  error
	rest     time.Time
	// best is the highest head that it showed, since movedAt.
	best    uint64
	movedAt time.Time
	// receipts are those that were on the chain when they were read. One
	// whose block still is cannot have changed.
	receipts map[common.Hash]*receipt
}

// newEndpoint prepares an endpoint and calls nobody.
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

// count keeps count of failures in a row: of those of the connection, and of
// refusals to answer at all, but not of those to answer so often. After one
// another chain may answer at the same address.
func (e *endpoint) count(failed *observe.Error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if failed == nil || failed.Code == observe.ErrBadAnswer || failed.Code == observe.ErrLimited {
		e.failures = 0
		return
	}
	e.failures++
	e.checked = false
	if e.failures >= restAfter {
		e.failure = failed
		e.rest = e.now().Add(min(restFirst<<min(e.failures-restAfter, 8), restMost))
	}
}

func (e *endpoint) bad() error { return &observe.Error{Code: observe.ErrBadAnswer, Host: e.host} }

// ready checks, at first and after each failure of the connection, that the
// endpoint answers for the chain and the token that were configured: another
// chain's answers would be silent blindness.
func (e *endpoint) ready(ctx context.Context, chainID int64, token common.Address) error {
	e.mu.Lock()
	checked, failures, failure, rest := e.checked, e.failures, e.failure, e.rest
	e.mu.Unlock()
	if failures >= restAfter && e.now().Before(rest) {
		return failure
	}
	if checked {
		return nil
	}
	var id *hexutil.Big
	if err := e.call(ctx, &id, "eth_chainId"); err != nil {
		return err
	}
	if id == nil || !id.ToInt().IsInt64() || id.ToInt().Int64() != chainID {
		return &observe.Error{Code: observe.ErrWrongChain, Host: e.host}
	}
	if err := e.checkToken(ctx, token); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.checked = true
	return nil
}

func (e *endpoint) isChecked() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.checked
}

// note takes what came of reading its heads.
func (e *endpoint) note(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.witness.Note(err, e.now())
}

// isAwaited reports whether the endpoint is waited for.
func (e *endpoint) isAwaited() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.witness.Awaited(e.now())
}

// checkToken requires a contract with six decimals.
func (e *endpoint) checkToken(ctx context.Context, token common.Address) error {
	var code hexutil.Bytes
	if err := e.call(ctx, &code, "eth_getCode", token, Latest); err != nil {
		return err
	}
	if len(code) == 0 {
		return &observe.Error{Code: observe.ErrWrongChain, Host: e.host}
	}
	answer, err := e.contract(ctx, token, selector("decimals()"), string(Latest))
	if err == nil && answer != common.BytesToHash([]byte{decimals}) {
		err = &observe.Error{Code: observe.ErrWrongChain, Host: e.host}
	}
	return err
}

// contract calls a function that answers one word.
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

// blockAt reads a block by a number or tag of the JSON-RPC interface.
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

// remembered is a receipt that was on the chain before, or nil.
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
