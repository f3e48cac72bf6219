// Package evm observes the USDC transfers of one rail over JSON-RPC. Every Transfer log to the rail's address becomes
// a receipt. Receipts that are not final are read again in every cycle, and two awaited endpoints must agree
// (observe.Witness).
package evm

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
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
	OfferID string
	USDC    *offer.USDC
	// Chain is shared with other observers. If it is nil, this observer has its own, with the fields
	// below, which ChainConfig describes.
	Chain     *Chain
	Endpoints []string
	// Confirm is when a transfer counts.
	Confirm Level
	// FromBlock is the first block whose transfers are receipts; 0 is the first one after the first start. If it is
	// lowered later, everything is read again from there; if it is raised, it is ignored.
	FromBlock uint64
	// FollowOnly only follows known receipts, for an account that is no longer published.
	FollowOnly bool
	// Own reports whether an address (lower case) is the operator's; nil means none.
	Own func(address string) bool
	// ClockOffset is how far this machine's clock is proven to be ahead; nil is never. It corrects the origin.
	ClockOffset func() time.Duration
	// source.Default sets the fields below, except the Ledger.
	Ledger    Ledger
	Transport http.RoundTripper
	Now       func() time.Time
	Random    func() float64
	Logger    *slog.Logger
}

// Ledger is what the observer needs of the ledger; *ledger.Ledger implements it.
type Ledger interface {
	observe.Ledger
	Unfinal(ctx context.Context, offer, account string, limit int) ([]ledger.Receipt, error)
	AccountStates(ctx context.Context, prefix, position string) ([]ledger.AccountState, error)
	MoveCursors(ctx context.Context, to ledger.Cursor, accounts ...string) error
}

// Observer reads the Transfer logs of one USDC rail.
type Observer struct {
	config    Config
	account   string
	token     common.Address
	payTo     common.Address
	chain     *Chain
	own       bool // the chain is private
	endpoints []*endpoint

	// These belong to Run: the problem logged last, the time to the next cycle, and whether it was checked if the
	// account is idle.
	loop     source.Loop
	problems problemLog
	wait     time.Duration
	began    bool
	// idle is the state after a cycle that found nothing which can still change; else nil.
	idle    *idleState
	lowered bool

	mu     sync.Mutex
	health observe.Health
	// history is set while final blocks have changed.
	history error
	// since and upTo are the watermark of Covered. seen is the head of the last complete cycle. 0 and nil mean none.
	since      int64
	upTo, seen *block
}

// New prepares the observer. It makes no network call.
func New(c Config) (*Observer, error) {
	source.Default(&c.Now, &c.Random, &c.Logger)
	c.Logger = c.Logger.With("rail", c.USDC.Name(), "network", c.USDC.Network.CAIP2())
	if c.Own == nil {
		c.Own = func(string) bool { return false }
	}
	if c.ClockOffset == nil {
		c.ClockOffset = func() time.Duration { return 0 }
	}
	e := &Observer{
		config: c, account: c.USDC.Account(), chain: c.Chain, own: c.Chain == nil, wait: watchEvery,
		token: common.HexToAddress(c.USDC.Network.USDC), payTo: common.HexToAddress(c.USDC.PayTo),
		health: observe.Health{Rail: c.USDC.Name(), Source: "chain", Blind: true, Partial: true},
	}
	if e.own {
		var err error
		e.chain, err = NewChain(ChainConfig{
			Network: c.USDC.Network, Endpoints: c.Endpoints,
			Ledger: c.Ledger, Transport: c.Transport, Now: c.Now, Random: c.Random, Logger: c.Logger,
		})
		if err != nil {
			return nil, err
		}
	}
	e.endpoints = e.chain.endpoints
	e.loop.Poll = e.start
	return e, nil
}

// Health says how well the chain was read last. Its At is the time of the block in ObservedThrough.
func (e *Observer) Health() observe.Health {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.health
}

// failed stores the error of a reading outside of the cycles.
func (e *Observer) failed(err error) {
	if err == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.health.LastError = source.Code(err)
}

// selector names a function of a contract (Solidity ABI).
func selector(signature string) []byte { return crypto.Keccak256([]byte(signature))[:4] }
