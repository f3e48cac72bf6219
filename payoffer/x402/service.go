package x402

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/source"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// Rail is a USDC rail with its facilitators and its chain.
type Rail struct {
	USDC         *offer.USDC
	Facilitators []*Facilitator
	// Chain is nil if no RPC endpoint is configured. Settlements are then claims.
	Chain Chain

	// terms are those of an upfront charge, deferred those of one after the application's answer. New sets both.
	terms, deferred terms
}

// Chain reads the outcome of an authorization from the chain. An error means that the chain could not be
// read. Read and Signed take at most 2 s, and their failures do not mark an endpoint as down.
type Chain interface {
	// Prove looks in one transaction for the Transfer that the authorization made to the rail's address.
	Prove(ctx context.Context, key ledger.IntentKey, transaction string) (s ledger.Observation, found bool, err error)
	// Find looks for it in all transactions since a time (Unix seconds).
	Find(ctx context.Context, key ledger.IntentKey, since int64) (s ledger.Observation, found bool, err error)
	// Dead returns why the authorization can never pay the rail's address any more, or "". It uses only
	// finalized blocks.
	Dead(ctx context.Context, key ledger.IntentKey, validBefore int64) (reason string, err error)
	// Read returns the authorization's state and the payer's funds now.
	Read(ctx context.Context, key ledger.IntentKey) (ledger.Reading, error)
	// Signed reports whether a signature of a hash is valid for an account of any kind.
	Signed(ctx context.Context, account string, hash, signature []byte) (bool, error)
	// Covered returns the range of which the ledger has all Transfers: from a time (Unix seconds) to a
	// block, 0 if unknown. Call it before you read receipts.
	Covered() (since int64, through uint64)
}

// Ledger is the part of ledger.Ledger that payments use.
type Ledger interface {
	Intent(ctx context.Context, key ledger.IntentKey) (ledger.Intent, bool, error)
	InsertIntent(ctx context.Context, i ledger.Intent) error
	RejectIntent(ctx context.Context, i ledger.Intent) error
	Apply(ctx context.Context, key ledger.IntentKey, c ledger.IntentChange) (ledger.Intent, error)
	ImportIntent(ctx context.Context, i ledger.Intent, s ledger.Observation) error
	LookUp(ctx context.Context, i ledger.Intent) (ledger.Lookup, error)
	ConflictingPayment(ctx context.Context, i ledger.Intent) (ledger.Intent, bool, error)
	RecordRejection(ctx context.Context, key ledger.IntentKey, until int64) (ledger.Intent, error)
	UnacknowledgeIntent(ctx context.Context, key ledger.IntentKey) error
	AcknowledgeIntent(ctx context.Context, key ledger.IntentKey, atOnce bool) error
	DueOpen(ctx context.Context, offer, account string, validAfter int64, limit int) ([]ledger.IntentKey, error)
	TakeDueClaims(ctx context.Context, offer, account string, limit int) ([]ledger.IntentKey, error)
	Accounts(ctx context.Context, offer string) ([]ledger.Account, error)
	AuthorizationReceipt(ctx context.Context, account, payer, nonce string) (ledger.Receipt, bool, error)
	Record(ctx context.Context, cursor *ledger.Cursor, observations ...ledger.Observation) ([]ledger.Receipt, error)
}

type Config struct {
	Offer  *offer.Offer
	Rails  []Rail
	Ledger Ledger
	// Limiter bounds the attempts of one client; services may share it.
	Limiter *Limiter
	// Owner names this Service in the ledger's leases. It is unique.
	Owner string
	// RemovedRail finds the rail of an account that was removed from the configuration, whose open payments
	// still have to be resolved.
	RemovedRail func(account string) (Rail, bool)
	// Own reports whether an address (lower case) is the operator's.
	Own    func(address string) bool
	Signer Signer
	// Hold keeps the ledger open until release; held is false if it is closed.
	Hold func() (release func(), held bool)
	// ResolveEvery is the pause between cycles of Run; default 2 s.
	ResolveEvery time.Duration
	Now          func() time.Time
	Logger       *slog.Logger
}

// Service quotes and takes the payments of one offer.
type Service struct {
	Config
	quoted   atomic.Pointer[func() *quoted]
	locks    keyLocks
	listings sync.Map // the last Listing of each facilitator's host
	inFlight inFlight // payments that are taken, submitted, resolved or recorded
	runs     inFlight // deferred payments for which the application runs
	// recording has the keys of the payments that recordLater works on. acknowledging maps a key to a
	// channel that is closed when the acknowledgement is recorded.
	recording, acknowledging sync.Map
	// accounts are all that the offer ever had, including removed ones; nil until Resolve has read them.
	accounts []ledger.Account
	loop     source.Loop
}

// New makes a Service without any call. Two facilitators of a rail with one host are an error, because
// an open payment is sent again only to the facilitator that got it, which the ledger names by its host.
func New(c Config) (*Service, error) {
	c.Rails = slices.Clone(c.Rails)
	c.ResolveEvery = cmp.Or(c.ResolveEvery, resolveEvery)
	s := &Service{Config: c}
	s.loop.Poll = s.resolve
	for n := range s.Rails {
		rail := &s.Rails[n]
		if len(rail.Facilitators) == 0 {
			return nil, errors.New(rail.USDC.Name() + " has no facilitator; add the option 'facilitator <url>'")
		}
		rail.terms, rail.deferred = newTerms(s.Offer, rail.USDC, flowUpfront), newTerms(s.Offer, rail.USDC, "")
		hosts := make(map[string]bool)
		for _, f := range rail.Facilitators {
			if hosts[f.Host()] {
				return nil, fmt.Errorf("%s has two facilitators on the host %s; remove one", rail.USDC.Name(), f.Host())
			}
			hosts[f.Host()] = true
			f.expect(rail.USDC.Network.CAIP2())
		}
	}
	s.Refresh()
	return s, nil
}

// begin keeps the ledger open until end is called. held is false if it is closed.
func (s *Service) begin() (end func(), held bool) {
	release, held := s.Hold()
	if !held {
		return nil, false
	}
	s.inFlight.begin()
	return func() {
		s.inFlight.end()
		release()
	}, true
}

// Wait waits for the payments in flight, or until ctx ends. Those that are left stay open in the ledger
// and are resolved later.
func (s *Service) Wait(ctx context.Context) error { return s.inFlight.wait(ctx) }

func (s *Service) Patience() time.Duration {
	longest := leaseFor(new(Rail))
	for n := range s.Rails {
		longest = max(longest, leaseFor(&s.Rails[n]))
	}
	return longest
}
