package x402

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/source"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// Rail is a USDC rail with those who settle it and the chain that proves it.
type Rail struct {
	USDC *offer.USDC
	// Facilitators are asked in order.
	Facilitators []*Facilitator
	// Chain is nil where no RPC endpoint is configured: a settlement is then
	// the facilitator's claim.
	Chain Chain

	// terms is made by New.
	terms terms
}

// Chain reads what became of an authorization from the chain itself. An error
// means that the chain could not be read.
type Chain interface {
	// Prove looks in one transaction for the Transfer that the authorization
	// made to the rail's address. found is false when there is none, or when
	// the transaction is not on the chain.
	Prove(ctx context.Context, key ledger.IntentKey, transaction string) (s ledger.Sighting, found bool, err error)
	// Find looks for the same Transfer in all transactions since a time
	// (Unix seconds).
	Find(ctx context.Context, key ledger.IntentKey, since int64) (s ledger.Sighting, found bool, err error)
	// Dead gives the reason why an authorization can never move money to the
	// rail's address any more, or "". Only finalized blocks count.
	Dead(ctx context.Context, key ledger.IntentKey, validBefore int64) (reason string, err error)
	// Read asks what the chain says of an authorization now. It lasts 2 s at
	// most, and what fails in it speaks against nobody.
	Read(ctx context.Context, key ledger.IntentKey) (ledger.Reading, error)
	// Signed reports whether a signature of a hash is valid for an account of any
	// kind. It lasts 2 s at most, and what fails in it speaks against nobody.
	Signed(ctx context.Context, account string, hash, signature []byte) (bool, error)
	// Covered says which Transfers the ledger holds: all since a time (Unix
	// seconds) up to the block through, which is 0 while that is unknown. It is
	// asked before the rows, which grow meanwhile.
	Covered() (since int64, through uint64)
}

// Ledger is what payments need of the ledger.
type Ledger interface {
	Intent(ctx context.Context, key ledger.IntentKey) (ledger.Intent, bool, error)
	InsertIntent(ctx context.Context, i ledger.Intent) error
	RejectIntent(ctx context.Context, i ledger.Intent) error
	SettleIntent(ctx context.Context, key ledger.IntentKey, transaction string, answer []byte, evidence string) error
	RefuseIntent(ctx context.Context, key ledger.IntentKey, reason string) error
	NoteIntent(ctx context.Context, key ledger.IntentKey, owner string, lease int64, transaction, reason string) error
	MoveIntent(ctx context.Context, key ledger.IntentKey, owner, facilitator string) error
	ReopenIntent(ctx context.Context, key ledger.IntentKey, reason string) error
	WithdrawIntent(ctx context.Context, key ledger.IntentKey, owner string) error
	AdoptIntent(ctx context.Context, i ledger.Intent, s ledger.Sighting) error
	Look(ctx context.Context, i ledger.Intent) (ledger.Look, error)
	InTheWay(ctx context.Context, i ledger.Intent) (ledger.Intent, bool, error)
	TurnAway(ctx context.Context, key ledger.IntentKey, until int64) (ledger.Intent, error)
	DoubtIntent(ctx context.Context, key ledger.IntentKey) error
	TellIntent(ctx context.Context, key ledger.IntentKey, atOnce bool) error
	DueOpen(ctx context.Context, offer, account string, validAfter int64, limit int) ([]ledger.IntentKey, error)
	TakeDueClaims(ctx context.Context, offer, account string, limit int) ([]ledger.IntentKey, error)
	Accounts(ctx context.Context, offer string) ([]ledger.Account, error)
	AuthorizationReceipt(ctx context.Context, account, payer, nonce string) (ledger.Receipt, bool, error)
	Record(ctx context.Context, cursor *ledger.Cursor, sightings ...ledger.Sighting) ([]ledger.Receipt, error)
}

// Config is what a Service is made of.
type Config struct {
	Offer  *offer.Offer
	Rails  []Rail
	Ledger Ledger
	// Limiter bounds the attempts of one client; services may share it.
	Limiter *Limiter
	// Owner names this instance in the leases of the ledger; unique for each
	// Service.
	Owner string
	// Former finds the rail of an account that the offer had before its
	// configuration was changed, with nobody to quote to; its open payments
	// are resolved all the same.
	Former func(account string) (Rail, bool)
	// Own tells the operator's own addresses (lower case) from the world's.
	Own func(address string) bool
	// Signer signs offers and receipts.
	Signer Signer
	// Hold keeps the ledger open until release is called; held is false if it is closed.
	// nil means that the ledger is never closed.
	Hold func() (release func() error, held bool)
	// ClockWrong reports whether the clock of this machine is proven to be off by
	// more than a minute, so that no time says that a payment has expired. It
	// never blocks; nil means that it is right.
	ClockWrong func() bool
	// ResolveEvery is how often Run looks for open intents and claims where Due tells
	// of those that are due; default 2 s.
	ResolveEvery time.Duration
	Now          func() time.Time
	Logger       *slog.Logger
}

// Service quotes and takes the payments of one offer.
type Service struct {
	Config
	// extensions and quote are what Refresh renews.
	extensions renewed[map[string]json.RawMessage]
	quote      renewed[Quote]
	gate       gate
	listings   listings
	// underWay counts the payments that are taken, submitted, resolved or recorded.
	underWay inFlight
	// recording holds the keys of the payments that are recorded later, and
	// telling, by key, what is closed when it was noted that they were told.
	recording, telling sync.Map
	// accounts are all that the offer ever had; nil until Resolve has read them.
	accounts []ledger.Account
	loop     source.Loop
}

// New makes a Service and calls nobody. A rail without a facilitator is an
// error, and so are two facilitators of one host: an open payment is repeated
// only to the one that it was sent to, which the ledger knows by its host.
func New(c Config) (*Service, error) {
	for _, rail := range c.Rails {
		if len(rail.Facilitators) == 0 {
			return nil, errors.New("a usdc rail needs a facilitator: add 'facilitator <url>' to " + rail.USDC.Name())
		}
		hosts := make(map[string]bool)
		for _, f := range rail.Facilitators {
			if hosts[f.Host()] {
				return nil, fmt.Errorf("%s has two facilitators at %s; leave one", rail.USDC.Name(), f.Host())
			}
			hosts[f.Host()] = true
		}
	}
	if c.ClockWrong == nil {
		c.ClockWrong = func() bool { return false }
	}
	if c.Hold == nil {
		c.Hold = func() (func() error, bool) { return func() error { return nil }, true }
	}
	c.Rails = slices.Clone(c.Rails)
	c.ResolveEvery = cmp.Or(c.ResolveEvery, resolveEvery)
	s := &Service{Config: c}
	s.loop.Round = s.resolve
	for n := range s.Rails {
		rail := &s.Rails[n]
		rail.terms = newTerms(s.Offer, rail.USDC)
		for _, f := range rail.Facilitators {
			f.expect(rail.terms)
		}
	}
	s.Refresh()
	return s, nil
}

// begin holds the ledger for work that outlives its request, until end is called. held
// is false if the ledger is closed.
func (s *Service) begin() (end func(), held bool) {
	release, held := s.Hold()
	if !held {
		return nil, false
	}
	s.underWay.begin()
	return func() {
		s.underWay.end()
		if err := release(); err != nil {
			s.Logger.Error("the ledger could not be closed", "error", err.Error())
		}
	}, true
}

// Wait waits until the payments under way have ended, or ctx has. What is left
// stays open in the ledger and is resolved later.
func (s *Service) Wait(ctx context.Context) error { return s.underWay.wait(ctx) }

// Patience is how long a settlement under way may take to end.
func (s *Service) Patience() time.Duration {
	longest := leaseFor(new(Rail))
	for n := range s.Rails {
		longest = max(longest, leaseFor(&s.Rails[n]))
	}
	return longest
}
