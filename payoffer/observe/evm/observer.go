// Package evm observes the USDC transfers of one rail over JSON-RPC. Every
// Transfer log to the rail's address becomes a receipt, whoever made it. What
// is not final is read anew in every round, and if several endpoints answer two
// must show the same (observe.Witness).
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

// Level is the finality that a block must have reached for its transfers to
// count as confirmed.
type Level string

// The levels of finality, as the block tags of the JSON-RPC interface.
const (
	Latest    Level = "latest"
	Safe      Level = "safe"
	Finalized Level = "finalized"
)

// ParseLevel reads a level.
func ParseLevel(s string) (Level, error) {
	level := Level(s)
	if !slices.Contains([]Level{Latest, Safe, Finalized}, level) {
		return "", fmt.Errorf("%q is no level of finality; use latest, safe or finalized", s)
	}
	return level, nil
}

// Config describes a USDC rail to be observed.
type Config struct {
	// OfferID is the offer's id in the ledger.
	OfferID string
	// USDC is the rail.
	USDC *offer.USDC
	// Chain is read together with others; nil is one of this observer's own, for which
	// the following are as for a ChainConfig.
	Chain     *Chain
	Endpoints []string
	HeadTime  func(unix int64)
	// Confirm is when a transfer counts.
	Confirm Level
	// FromBlock is the first block whose transfers are receipts; 0 begins with
	// the first one after the first start. An earlier one than before takes the
	// blocks between in, a later one is ignored.
	FromBlock uint64
	// FollowOnly keeps the observer to receipts that are known: nobody is told
	// to pay to the account any more.
	FollowOnly bool
	// Own tells the operator's own addresses (lower case) from the world's;
	// nil means that there are none.
	Own func(address string) bool
	// ClockOffset is by how much the clock of this machine is proven to be ahead;
	// nil is never. The origin is corrected by it.
	ClockOffset func() time.Duration
	// source.Default sets the fields below, except the Ledger.
	Ledger    Ledger
	Transport http.RoundTripper
	Now       func() time.Time
	Random    func() float64
	Logger    *slog.Logger
}

// Ledger is what the observer needs of a ledger; *ledger.Ledger is one.
type Ledger interface {
	observe.Ledger
	Unfinal(ctx context.Context, offer, account string, limit int) ([]ledger.Receipt, error)
	Standings(ctx context.Context, prefix, position string) ([]ledger.Standing, error)
	MoveCursors(ctx context.Context, to ledger.Cursor, accounts ...string) error
}

// Observer reads the Transfer logs of one USDC rail.
type Observer struct {
	config    Config
	account   string
	token     common.Address
	payTo     common.Address
	chain     *Chain
	own       bool // the chain is this observer's alone
	endpoints []*endpoint

	// reports and wait are those of Run: what was logged last, and the time to the
	// next round. began says that it was looked whether the account is at rest.
	loop    source.Loop
	reports reports
	wait    time.Duration
	began   bool
	// quiet is where the account stands after a round that found nothing which may
	// still change; nil after any other.
	quiet *place
	// lowered says that the stored origin was compared with FromBlock.
	lowered bool

	mu     sync.Mutex
	health observe.Health
	// history is set while what was final has changed.
	history error
	// since and upTo are what Covered says, and seen is the head of the last
	// round that read everything; 0 and nil for none.
	since      int64
	upTo, seen *block
}

// New prepares the observer of a rail and calls nobody.
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
			Network: c.USDC.Network, Endpoints: c.Endpoints, HeadTime: c.HeadTime,
			Ledger: c.Ledger, Transport: c.Transport, Now: c.Now, Random: c.Random, Logger: c.Logger,
		})
		if err != nil {
			return nil, err
		}
	}
	e.endpoints = e.chain.endpoints
	e.loop.Round = e.look
	return e, nil
}

// Health says how well the chain was read last. Its At is when the block in
// ObservedThrough was made.
func (e *Observer) Health() observe.Health {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.health
}

// failed keeps the error of a look outside of the rounds, which say how well
// the rail is observed; nil is none.
func (e *Observer) failed(err error) {
	if err == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.health.LastError = source.Code(err)
}

// selector is how a call names a function of a contract (Solidity ABI).
func selector(signature string) []byte { return crypto.Keccak256([]byte(signature))[:4] }
