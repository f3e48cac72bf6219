package evm

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/ethclient"
	"github.com/ethereum/go-ethereum/rpc"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// callTimeout bounds one call to an endpoint.
const callTimeout = 8 * time.Second

// endpoint is one JSON-RPC endpoint of a chain.
type endpoint struct {
	host    string
	client  *ethclient.Client
	mu      sync.Mutex
	checked bool
}

// newEndpoint prepares an endpoint and calls nobody.
func newEndpoint(address string, transport http.RoundTripper) (*endpoint, error) {
	u, err := offer.ParseURL(address)
	if err != nil {
		return nil, err
	}
	client, err := rpc.DialOptions(context.Background(), u.String(),
		rpc.WithHTTPClient(&http.Client{Transport: transport, Timeout: callTimeout}), rpc.WithBatchResponseSizeLimit(8<<20))
	if err != nil {
		return nil, fmt.Errorf("the RPC endpoint at %s cannot be used", u.Host)
	}
	return &endpoint{host: hostOf(u), client: ethclient.NewClient(client)}, nil
}

func hostOf(u *url.URL) string { return u.Hostname() }

// ready checks once that the endpoint answers for the chain that was
// configured: another chain's answers would be silent blindness.
func (e *endpoint) ready(ctx context.Context, chainID int64) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.checked {
		return nil
	}
	id, err := e.client.ChainID(ctx)
	if err != nil {
		return e.fail(err)
	}
	if id.Cmp(big.NewInt(chainID)) != 0 {
		return &observe.Error{Code: observe.ErrWrongChain, Host: e.host}
	}
	e.checked = true
	return nil
}

// fail turns an upstream's error into a code.
func (e *endpoint) fail(err error) error {
	var known *observe.Error
	var answered rpc.Error
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &answered):
		return &observe.Error{Code: observe.ErrBadAnswer, Host: e.host}
	default:
		return &observe.Error{Code: observe.ErrUnreachable, Host: e.host}
	}
}

// canonical reads a transaction's receipt if its block is on the chain now. A
// receipt alone may belong to a block that was left behind.
func (e *endpoint) canonical(ctx context.Context, transaction string) (*types.Receipt, *types.Header, error) {
	receipt, err := e.client.TransactionReceipt(ctx, hashOf(transaction))
	if errors.Is(err, ethereum.NotFound) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, e.fail(err)
	}
	header, err := e.client.HeaderByNumber(ctx, receipt.BlockNumber)
	if errors.Is(err, ethereum.NotFound) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, e.fail(err)
	}
	if header.Hash() != receipt.BlockHash {
		return nil, nil, nil
	}
	return receipt, header, nil
}

// head reads the header at a level of finality.
func (e *endpoint) head(ctx context.Context, level Level) (*types.Header, error) {
	header, err := e.client.HeaderByNumber(ctx, big.NewInt(level.tag()))
	if err != nil {
		return nil, e.fail(err)
	}
	return header, nil
}
