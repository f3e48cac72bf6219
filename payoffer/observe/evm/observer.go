// Package evm observes USDC transfers over JSON-RPC. Every Transfer log to a rail's address becomes a receipt. One
// endpoint reads, and a live one on another host is its witness (observe.Witness): a receipt is confirmed or dropped, and
// a cursor passes a block, only if both show the same. observe.Reconcile decides what that means for the receipts.
package evm

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/source"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// Level is the finality of a block at which its transfers are confirmed.
type Level string

// The levels, as the block tags of JSON-RPC.
const (
	Latest    Level = "latest"
	Safe      Level = "safe"
	Finalized Level = "finalized"
)

// ParseLevel reads a level.
func ParseLevel(s string) (Level, error) {
	level := Level(s)
	if !slices.Contains([]Level{Latest, Safe, Finalized}, level) {
		return "", fmt.Errorf("%q is not a level of finality; use latest, safe or finalized", s)
	}
	return level, nil
}

// Config configures an Observer.
type Config struct {
	// ChainConfig has the Ledger, the clock and the Logger, and the endpoints of an observer without a Chain.
	ChainConfig
	OfferID string
	USDC    *offer.USDC
	// Chain is shared with other observers. If it is nil, this observer has its own.
	Chain *Chain
	// Confirm is when a transfer counts.
	Confirm Level
	// FromBlock is the first block whose transfers are receipts; 0 is the first one after the first start. If it is
	// lowered later, everything is read again from there; if it is raised, it is ignored.
	FromBlock uint64
	// FollowOnly only follows known receipts, for an account that is no longer published.
	FollowOnly bool
	// Own reports whether an address (lower case) is the operator's; nil means none.
	Own func(address string) bool
	// ClockOffset is how far this machine's clock is ahead, as far as that is known; nil is never. It corrects the origin.
	ClockOffset func() time.Duration
}

// Ledger is what the observer needs of the ledger; *ledger.Ledger implements it.
type Ledger interface {
	observe.Ledger
	Unfinal(ctx context.Context, offer, account string, limit int) ([]ledger.Receipt, error)
	AccountStates(ctx context.Context, prefix string) ([]ledger.AccountState, error)
	MoveCursors(ctx context.Context, cursors ...ledger.Cursor) error
}

// Observer is one USDC rail.
type Observer struct {
	config  Config
	account string
	payTo   common.Address
	chain   *Chain
	lowered bool // the origin was compared with FromBlock

	mu     sync.Mutex // guards the fields below
	health observe.Health
	// history is set while final blocks have changed. anchors has the numbers of the accounts' final blocks, by hash.
	history error
	anchors map[string]uint64
	// since and upTo are the watermark of Covered. seen is the head of the last complete cycle. 0 and nil mean none.
	since      int64
	upTo, seen *block
}

// New prepares the observer. It makes no network call.
func New(c Config) (*Observer, error) {
	source.Default(&c.Now, &c.Random, &c.Logger)
	c.Logger = c.Logger.With("rail", c.USDC.Name(), "network", c.USDC.Network.CAIP2())
	if c.ClockOffset == nil {
		c.ClockOffset = func() time.Duration { return 0 }
	}
	o := &Observer{
		config: c, account: c.USDC.Account(), chain: c.Chain, payTo: common.HexToAddress(c.USDC.PayTo),
		health: observe.Health{Rail: c.USDC.Name(), Source: "chain", Blind: true, Partial: true},
	}
	var err error
	if c.Chain == nil {
		c.Network = c.USDC.Network
		o.chain, err = NewChain(c.ChainConfig)
	}
	return o, err
}

// Run has the Chain read the account until ctx ends. It can be called again.
func (o *Observer) Run(ctx context.Context) {
	o.chain.watch(o, true)
	defer o.chain.watch(o, false)
	if o.config.Chain == nil {
		o.chain.Run(ctx)
	}
	<-ctx.Done()
}

// Poll runs cycles until the accounts of the chain are read up to the head. The error is the first problem; what
// could be read is recorded, and Health says whether that was all.
func (o *Observer) Poll(ctx context.Context) error {
	o.chain.watch(o, true)
	for {
		more, err := o.chain.poll(ctx)
		if o.chain.probing.Wait(); !more {
			return err
		}
	}
}

// Health says how well the chain was read last. Its At is the time of the block in ObservedThrough.
func (o *Observer) Health() observe.Health {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.health
}

// selector names a function of a contract (Solidity ABI).
func selector(signature string) []byte { return crypto.Keccak256([]byte(signature))[:4] }

// watchEvery is the time between two cycles. Endpoints that fail are called less often.
const watchEvery = 4 * time.Second

// ChainConfig configures a Chain.
type ChainConfig struct {
	Network offer.Network
	// Endpoints are URLs of JSON-RPC endpoints, in the order in which they are used.
	Endpoints []string
	// source.Default sets the fields below, except the Ledger.
	Ledger    Ledger
	Transport http.RoundTripper
	Now       func() time.Time
	Random    func() float64
	Logger    *slog.Logger
}

// clockTolerance is how far this machine's clock may differ from the time of the newest block.
const clockTolerance = time.Minute

// Chain reads one chain for the accounts of all its observers on one ledger.
type Chain struct {
	config    ChainConfig
	token     common.Address
	endpoints []*endpoint
	hosts     string // of the endpoints
	loop      source.Loop
	headAge   atomic.Pointer[time.Duration] // of the newest block, when it was last read
	deep      sync.Once                     // logs a missing tag
	probing   sync.WaitGroup                // the readings of endpoints that failed

	cycling sync.Mutex // guards the fields below
	// problem is the one logged last, and contested has the contradictions that were logged.
	problem   error
	contested map[common.Hash]string
	moved     time.Time // when idle cursors were moved last

	mu        sync.Mutex // guards the field below
	observers map[*Observer]bool
}

// NewChain prepares a chain. It makes no network call.
func NewChain(c ChainConfig) (*Chain, error) {
	if len(c.Endpoints) == 0 {
		return nil, errors.New("no RPC endpoint is configured; add the option 'rpc <url>'")
	}
	source.Default(&c.Now, &c.Random, &c.Logger)
	chain := &Chain{config: c, token: common.HexToAddress(c.Network.USDC), observers: make(map[*Observer]bool)}
	chain.loop.Poll = func(ctx context.Context) (time.Duration, error) {
		if more, err := chain.poll(ctx); more {
			return 0, err
		}
		return source.Spread(watchEvery, c.Random()), nil
	}
	for _, address := range c.Endpoints {
		endpoint, err := newEndpoint(address, c.Transport, c.Now)
		if err != nil {
			return nil, err
		}
		chain.endpoints = append(chain.endpoints, endpoint)
		chain.hosts = strings.TrimPrefix(chain.hosts+", "+endpoint.host, ", ")
	}
	return chain, nil
}

// Run reads the chain until ctx ends. It can be called again.
func (c *Chain) Run(ctx context.Context) {
	defer c.probing.Wait()
	c.loop.Run(ctx)
}

// ClockOffset is how far this machine's clock was ahead of the newest block at the last reading, negative if it was
// behind, and 0 up to a minute. read is false before the first reading. A chain that stands still looks like a clock
// that is ahead.
func (c *Chain) ClockOffset() (offset time.Duration, read bool) {
	age := c.headAge.Load()
	switch {
	case age == nil:
		return 0, false
	case age.Abs() <= clockTolerance:
		return 0, true
	}
	return *age, true
}

// watch reads an account from the next cycle on, or ends that. Observers of one account can overlap. Only the first one
// begins a cycle, because at a load each offer adds one.
func (c *Chain) watch(o *Observer, is bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if is {
		c.observers[o] = true
		if len(c.observers) == 1 {
			c.loop.Wake()
		}
	} else {
		delete(c.observers, o)
	}
}

// log logs a changed problem, and each contradiction about a payment once.
func (c *Chain) log(err error, contested map[common.Hash]string) {
	logger, before := c.config.Logger, c.problem
	switch c.problem = err; {
	case err != nil && (before == nil || before.Error() != err.Error()):
		logger.Warn("the chain cannot be read completely", "error", err.Error(), "hint", source.Hint(err))
	case err == nil && before != nil:
		logger.Info("the chain can be read again")
	}
	for transaction, hosts := range contested {
		if c.contested[transaction] == "" {
			logger.Warn("two RPC endpoints disagree about a payment", "transaction", transaction.Hex(), "endpoints", hosts,
				"hint", "it is not counted or dropped until they agree; look it up in a block explorer, and replace the endpoint that is wrong")
		}
	}
	c.contested = contested
}
