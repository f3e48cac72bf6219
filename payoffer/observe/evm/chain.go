package evm

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/source"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// ChainConfig configures a Chain.
type ChainConfig struct {
	Network offer.Network
	// Endpoints are URLs of JSON-RPC endpoints. Two awaited ones (observe.Witness) must agree on every confirmed payment.
	Endpoints []string
	// source.Default sets the fields below, except the Ledger.
	Ledger    Ledger
	Transport http.RoundTripper
	Now       func() time.Time
	Random    func() float64
	Logger    *slog.Logger
}

// Chain reads one chain for all observers of accounts on one ledger. It reads once for all idle accounts, of which
// nothing is known that can still change. A payment to one of them wakes its observer, which then reads for itself
// until everything is final again.
type Chain struct {
	config    ChainConfig
	token     common.Address
	endpoints []*endpoint
	loop      source.Loop

	// These belong to the cycles: the problem logged last, the time to the next cycle, and when the last one ended.
	problems problemLog
	wait     time.Duration
	ended    time.Time
	// covered is the time at which cursors were last moved, and width the number of accounts in one query.
	covered time.Time
	width   int

	deep sync.Once // logs a missing tag

	viewing sync.Mutex // guards the fields below
	recent  *view
	failed  error
	at      time.Time

	mu   sync.Mutex // guards the fields below
	idle map[*Observer]*idleState
}

// NewChain prepares a chain. It makes no network call.
func NewChain(c ChainConfig) (*Chain, error) {
	if len(c.Endpoints) == 0 {
		return nil, errors.New("no RPC endpoint is configured; add the option 'rpc <url>'")
	}
	source.Default(&c.Now, &c.Random, &c.Logger)
	chain := &Chain{
		config: c, token: common.HexToAddress(c.Network.USDC),
		wait: watchEvery, width: widthMost, idle: make(map[*Observer]*idleState),
	}
	chain.loop.Poll = chain.round
	for _, address := range c.Endpoints {
		endpoint, err := newEndpoint(address, c.Transport, c.Now)
		if err != nil {
			return nil, err
		}
		chain.endpoints = append(chain.endpoints, endpoint)
	}
	return chain, nil
}

func (c *Chain) hosts() string {
	var hosts []string
	for _, endpoint := range c.endpoints {
		hosts = append(hosts, endpoint.host)
	}
	return strings.Join(hosts, ", ")
}

// need is how many endpoints must agree.
func (c *Chain) need() (endpoints int) {
	for _, endpoint := range c.endpoints {
		if _, awaited := endpoint.status(); awaited {
			endpoints++
		}
	}
	return observe.RequiredWitnesses(endpoints)
}

// recentView returns a view that observers share for a moment.
func (c *Chain) recentView(ctx context.Context) (*view, error) {
	c.viewing.Lock()
	defer c.viewing.Unlock()
	if c.recent == nil || c.config.Now().Sub(c.at).Abs() >= watchEvery {
		c.recent, c.failed = c.readView(ctx, Latest)
		c.at = c.config.Now()
	}
	v := *c.recent
	v.readers = slices.Clone(v.readers)
	return &v, c.failed
}

// Run reads the chain for the idle accounts until ctx ends. It can be called again.
func (c *Chain) Run(ctx context.Context) { c.loop.Run(ctx) }

// round runs at most one cycle a second, however many accounts start.
func (c *Chain) round(ctx context.Context) (time.Duration, error) {
	select {
	case <-ctx.Done():
		return 0, nil
	case <-time.After(time.Until(c.ended.Add(freshEvery))):
	}
	more, err := c.readIdle(ctx)
	if ctx.Err() != nil {
		return 0, err
	}
	if len(c.idleAccounts()) > 0 {
		c.ended = time.Now()
	}
	if c.wait = min(2*c.wait, watchRarely); err == nil {
		c.wait = watchEvery
	}
	if more {
		return 0, nil
	}
	return source.Spread(c.wait, c.config.Random()), nil
}
