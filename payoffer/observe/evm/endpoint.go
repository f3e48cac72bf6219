package evm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
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
	// After a refusal because of too many calls it is pauseFirst, or what the endpoint asks for.
	backoffAfter = 3
	backoffFirst = 4 * time.Second
	pauseFirst   = time.Second
	backoffMost  = 64 * time.Second
	patience     = 3 * time.Second // how long a call waits for the end of a pause
	triesMost    = 3               // of a call that is refused because of too many
	maxReceipts  = 4096            // cached ones of an endpoint
)

// endpoint is one JSON-RPC endpoint of a chain.
type endpoint struct {
	url, host string
	client    source.Client
	now       func() time.Time
	span      atomic.Uint64 // the number of blocks in a query of logs; 0 for spanFirst
	probed    sync.Mutex    // held while it is read in the background

	mu      sync.Mutex // guards the fields below
	witness observe.Witness
	outcome error          // of the last reading
	checked bool           // it serves the configured chain and token
	tagged  map[Level]bool // the block tags that it has answered
	// failures counts failed calls in a row, and refusals those with too many calls. Until pausedUntil it is not called,
	// because of pause.
	failures, refusals int
	pause              error
	pausedUntil        time.Time
	// receipts were on the chain when they were read. They cannot change while their block is on it.
	receipts map[common.Hash]*placed
}

// placed is a receipt with its block.
type placed struct {
	*receipt
	block *block
}

// newEndpoint makes no network call.
func newEndpoint(address string, transport http.RoundTripper, now func() time.Time) (*endpoint, error) {
	u, err := offer.ParseURL(address)
	if err != nil {
		return nil, err
	}
	return &endpoint{
		url: u.String(), host: strings.ToLower(u.Hostname()), client: source.Client{Transport: transport, Timeout: callTimeout}, now: now,
		tagged: make(map[Level]bool), receipts: make(map[common.Hash]*placed),
	}, nil
}

// await waits for the end of a short pause. The error says that the pause is longer.
func (e *endpoint) await(ctx context.Context) error {
	e.mu.Lock()
	left, pause := e.pausedUntil.Sub(e.now()), e.pause
	e.mu.Unlock()
	if left > patience {
		return pause
	}
	select {
	case <-ctx.Done():
		return &observe.Error{Code: observe.ErrUnreachable, Host: e.host}
	case <-time.After(left):
		return nil
	}
}

// count counts failures of the connection and refusals in a row, and pauses. It reports whether to call again. After a
// failure of the connection another chain can be at the same address.
func (e *endpoint) count(err error) (again bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var failed *observe.Error
	now, pause := e.now(), time.Duration(0)
	switch errors.As(err, &failed); source.Code(err) {
	case "", observe.ErrBadAnswer:
		e.failures, e.refusals = 0, 0
		return false
	case observe.ErrLimited:
		if now.Before(e.pausedUntil) { // a parallel call was refused before
			return true
		}
		pause = max(failed.Wait, min(pauseFirst<<min(e.refusals, 10), backoffMost))
		e.failures, e.refusals, again = 0, e.refusals+1, true
	default:
		e.checked = false
		if e.failures++; e.failures >= backoffAfter {
			pause = min(backoffFirst<<min(e.failures-backoffAfter, 8), backoffMost)
		}
	}
	if pause > 0 {
		e.pause, e.pausedUntil = err, now.Add(pause)
	}
	return again
}

func (e *endpoint) bad() error { return &observe.Error{Code: observe.ErrBadAnswer, Host: e.host} }

// ready checks, at first and after each failure, that the endpoint serves the configured chain and token.
func (e *endpoint) ready(ctx context.Context, chainID int64, token common.Address) error {
	if _, _, checked := e.state(); checked {
		return nil
	}
	err := e.check(ctx, chainID, token)
	if errors.As(err, new(*Mismatch)) {
		return &observe.Error{Code: observe.ErrWrongChain, Host: e.host}
	} else if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.checked = true
	e.witness.MarkResponded()
	return nil
}

// recordOutcome records the outcome of reading the endpoint.
func (e *endpoint) recordOutcome(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.outcome = err
	e.witness.Update(err, e.now())
}

// The ranks of endpoints: those that failed last are used after the others. A dead one is not waited for.
const (
	rankWell = iota
	rankFailed
	rankDead
)

// state returns the endpoint's rank, and the problem of its last reading. checked says that it serves the chain and the
// token.
func (e *endpoint) state() (rank int, failure error, checked bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.outcome != nil {
		rank = rankFailed
	}
	if !e.witness.IsLive(e.now()) {
		rank = rankDead
	}
	return rank, e.outcome, e.checked
}

func (e *endpoint) rank() int {
	rank, _, _ := e.state()
	return rank
}

// word calls a function that returns one word.
func (e *endpoint) word(ctx context.Context, to common.Address, data []byte, at string) (word common.Hash, err error) {
	err = e.call(ctx, &word, "eth_call", map[string]any{"to": to, "data": hexutil.Bytes(data)}, at)
	return word, err
}

// block reads a block by its number or tag; nil for none.
func (e *endpoint) block(ctx context.Context, at string) (b *block, err error) {
	if err := e.call(ctx, &b, "eth_getBlockByNumber", at, false); err != nil || b == nil {
		return nil, err
	}
	number, err := hexutil.DecodeUint64(at)
	if b.Hash == (common.Hash{}) || max(b.Number, b.Time) >= absurdBlock || err == nil && number != uint64(b.Number) {
		return nil, e.bad()
	}
	return b, nil
}

// receipt reads a transaction's receipt; nil for none.
func (e *endpoint) receipt(ctx context.Context, transaction common.Hash) (*receipt, error) {
	var r *receipt
	err := e.call(ctx, &r, "eth_getTransactionReceipt", transaction)
	other := func(l log) bool { return l.Transaction != transaction }
	if err == nil && r != nil && (r.Transaction != transaction || slices.ContainsFunc(r.Logs, other)) {
		return nil, e.bad()
	}
	return r, err
}

// forget has the receipt of a transaction read again.
func (e *endpoint) forget(transaction common.Hash) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.receipts, transaction)
}

// Mismatch is a difference between a network and an endpoint.
type Mismatch struct{ What, Want, Have string }

func (m *Mismatch) Error() string {
	return fmt.Sprintf("the %s is %s and not %s", m.What, m.Have, m.Want)
}

// decimals are those of USDC on every known network.
const decimals = 6

// check requires a chain id and a contract with six decimals. The error is a *Mismatch or an *observe.Error.
func (e *endpoint) check(ctx context.Context, chainID int64, token common.Address) error {
	var id *hexutil.Big
	var code hexutil.Bytes
	if err := e.call(ctx, &id, "eth_chainId", []any{}...); err != nil || id == nil {
		return cmp.Or(err, e.bad())
	}
	if have := id.ToInt().String(); have != fmt.Sprint(chainID) {
		return &Mismatch{"chain id", fmt.Sprint(chainID), have}
	}
	if err := e.call(ctx, &code, "eth_getCode", token, Latest); err != nil {
		return err
	}
	if len(code) == 0 {
		return &Mismatch{"token", token.Hex(), "no contract"}
	}
	have, err := e.word(ctx, token, selector("decimals()"), string(Latest))
	if err == nil && have != common.BytesToHash([]byte{decimals}) {
		return &Mismatch{"token decimals", fmt.Sprint(decimals), have.Big().String()}
	}
	return err
}

// CheckEndpoint checks that a JSON-RPC endpoint serves a network with its USDC. The error is a *Mismatch or an
// *observe.Error.
func CheckEndpoint(ctx context.Context, address string, transport http.RoundTripper, network offer.Network) error {
	e, err := newEndpoint(address, transport, time.Now)
	if err != nil {
		return err
	}
	return e.check(ctx, network.ChainID, common.HexToAddress(network.USDC))
}
