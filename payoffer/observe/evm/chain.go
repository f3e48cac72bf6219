package evm

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/source"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// ChainConfig describes a chain to be read.
type ChainConfig struct {
	Network offer.Network
	// Endpoints are the URLs of JSON-RPC endpoints. Two of those that are waited
	// for (observe.Witness) must agree on whatever is to be true; money that only
	// one of them shows is seen.
	Endpoints []string
	// HeadTime is told, by each round, the time (Unix seconds) that the heads of
	// two endpoints have reached; nil is not, and one endpoint proves nothing.
	HeadTime func(unix int64)
	// source.Default sets the fields below, except the Ledger.
	Ledger    Ledger
	Transport http.RoundTripper
	Now       func() time.Time
	Random    func() float64
	Logger    *slog.Logger
}

// Chain is a chain as its endpoints show it, to all observers of accounts on one
// ledger. It reads the chain once for all accounts at rest, of which nothing is known
// that may still change: however many there are, the endpoints are asked as for a few.
// What moves at one of them wakes its observer, which reads the chain for itself
// until all is final again.
type Chain struct {
	config    ChainConfig
	token     common.Address
	endpoints []*endpoint
	loop      source.Loop

	// reports, wait and ended are those of the rounds: what was logged last, the time
	// to the next one, and when the last one ended.
	reports reports
	wait    time.Duration
	ended   time.Time
	// covered is when cursors were moved last, and width how many accounts one query
	// asks for.
	covered time.Time
	width   int

	deep sync.Once // to tell of it

	looking sync.Mutex // guards what follows
	recent  *view
	failed  error
	at      time.Time

	mu      sync.Mutex // guards what follows
	resting map[*Observer]*place
}

// NewChain prepares a chain and calls nobody.
func NewChain(c ChainConfig) (*Chain, error) {
	if len(c.Endpoints) == 0 {
		return nil, errors.New("an observer needs an RPC endpoint")
	}
	source.Default(&c.Now, &c.Random, &c.Logger)
	if c.HeadTime == nil {
		c.HeadTime = func(int64) {}
	}
	chain := &Chain{
		config: c, token: common.HexToAddress(c.Network.USDC),
		wait: watchEvery, width: widthMost, resting: make(map[*Observer]*place),
	}
	chain.loop.Round = chain.round
	for _, address := range c.Endpoints {
		endpoint, err := newEndpoint(address, c.Transport, c.Now)
		if err != nil {
			return nil, err
		}
		chain.endpoints = append(chain.endpoints, endpoint)
	}
	return chain, nil
}

// hosts names the endpoints.
func (c *Chain) hosts() string {
	var hosts []string
	for _, endpoint := range c.endpoints {
		hosts = append(hosts, endpoint.host)
	}
	return strings.Join(hosts, ", ")
}

// need is how many endpoints must show the same for it to be true.
func (c *Chain) need() (endpoints int) {
	for _, endpoint := range c.endpoints {
		if endpoint.isAwaited() {
			endpoints++
		}
	}
	return observe.Needed(endpoints)
}

// lately is a look that others may have had a moment ago.
func (c *Chain) lately(ctx context.Context) (*view, error) {
	c.looking.Lock()
	defer c.looking.Unlock()
	if c.recent == nil || c.config.Now().Sub(c.at).Abs() >= watchEvery {
		c.recent, c.failed = c.look(ctx, Latest)
		c.at = c.config.Now()
	}
	return c.recent.clone(), c.failed
}

// Run reads the chain for the accounts at rest until ctx ends. It may be called
// again afterwards.
func (c *Chain) Run(ctx context.Context) { c.loop.Run(ctx) }

// round reads the chain once, and returns the time to the next round. Accounts that
// begin do not make more of them than one a second.
func (c *Chain) round(ctx context.Context) (time.Duration, error) {
	select {
	case <-ctx.Done():
		return 0, nil
	case <-time.After(time.Until(c.ended.Add(freshEvery))):
	}
	more, err := c.watch(ctx)
	if ctx.Err() != nil {
		return 0, err
	}
	if len(c.atRest()) > 0 {
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
