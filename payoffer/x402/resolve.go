package x402

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/failpoint"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
)

const (
	// resolveEvery is how often open intents are looked for where nobody tells of
	// them, and how soon again where not all could be looked at.
	resolveEvery = 2 * time.Second
	// resolvePage is how many intents are taken at once, resolveBeside how many
	// are looked at at the same time.
	resolvePage   = 100
	resolveBeside = 8
)

// Run resolves open intents and claims until ctx ends: every ResolveEvery, and when
// it is told that some are due.
func (s *Service) Run(ctx context.Context) {
	s.loop.Run(ctx)
}

// Begin is Run that does not wait, and that begins with what Due tells of: it calls ended
// when Run would return.
func (s *Service) Begin(ctx context.Context, ended func()) {
	s.loop.BeginIn(ctx, s.ResolveEvery, ended)
}

// Due has Run look for what is due. It never blocks.
func (s *Service) Due() { s.loop.Wake() }

func (s *Service) resolve(ctx context.Context) (time.Duration, error) {
	if !s.Resolve(ctx) {
		return resolveEvery, nil
	}
	return s.ResolveEvery, nil
}

// Resolve looks once at every intent whose outcome is unknown and at every
// claim: a settled intent that only a facilitator vouches for. What was looked
// at lately has to wait, which the ledger knows. Where no chain is read nothing
// can change but what may still be sent again. It reports whether that was all that
// is due, and is not for concurrent use.
func (s *Service) Resolve(ctx context.Context) (all bool) {
	all = true
	if s.accounts == nil {
		// Those that were removed from the configuration included.
		accounts, err := s.Ledger.Accounts(ctx, s.Offer.ID)
		if err != nil {
			return false // the ledger says so wherever it is needed
		}
		s.accounts = accounts
	}
	for _, account := range s.accounts {
		rail := s.railOf(account.ID)
		if rail == nil {
			continue
		}
		sendable := int64(0)
		if rail.Chain == nil {
			sendable = s.Now().Add(settleMargin).Unix()
		}
		all = s.each(ctx, func() ([]ledger.IntentKey, error) {
			return s.Ledger.DueOpen(ctx, s.Offer.ID, account.ID, sendable, resolvePage)
		}, func(i ledger.Intent) { s.resolveOpen(ctx, rail, i) }) && all
		if rail.Chain != nil {
			all = s.each(ctx, func() ([]ledger.IntentKey, error) {
				return s.Ledger.TakeDueClaims(ctx, s.Offer.ID, account.ID, resolvePage)
			}, func(i ledger.Intent) { s.resolveClaim(ctx, rail, i) }) && all
		}
	}
	return all
}

// each runs f on the intents that are due, some at a time: one that waits for a
// facilitator must not keep the others waiting. What is due besides a page is
// due the next time too: all is false then, and where the ledger cannot be read.
func (s *Service) each(ctx context.Context, due func() ([]ledger.IntentKey, error), f func(ledger.Intent)) (all bool) {
	keys, err := due()
	if err != nil {
		return false // the ledger says so wherever it is needed
	}
	var work sync.WaitGroup
	defer work.Wait()
	slots := make(chan struct{}, resolveBeside)
	for _, key := range keys {
		slots <- struct{}{}
		if ctx.Err() != nil {
			return false
		}
		work.Go(func() {
			defer func() { <-slots }()
			if i, known, err := s.Ledger.Intent(ctx, key); err == nil && known {
				f(i)
			}
		})
	}
	return len(keys) < resolvePage
}

// railOf finds the rail of an account, which may be one that the configuration
// does not have any more.
func (s *Service) railOf(account string) *Rail {
	if n := slices.IndexFunc(s.Rails, func(rail Rail) bool { return rail.USDC.Account() == account }); n >= 0 {
		return &s.Rails[n]
	}
	if rail, found := s.Former(account); found {
		return &rail
	}
	return nil
}

// repeatTo is the facilitator to which an open intent may be sent again: the
// one that it was sent to, while the authorization is valid; or nil.
func (s *Service) repeatTo(rail *Rail, i ledger.Intent) *Facilitator {
	if i.ValidBefore <= s.Now().Add(settleMargin).Unix() {
		return nil
	}
	if n := slices.IndexFunc(rail.Facilitators, func(f *Facilitator) bool { return f.Host() == i.Facilitator }); n >= 0 {
		return rail.Facilitators[n]
	}
	return nil
}

// resolveOpen takes an open intent over: the chain is asked first, then the
// identical payload is submitted again. With neither it waits for the
// operator.
func (s *Service) resolveOpen(ctx context.Context, rail *Rail, i ledger.Intent) {
	lease := leaseFor(rail)
	s.underWay.begin()
	defer s.underWay.end()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lease)
	defer cancel()
	if s.Ledger.NoteIntent(ctx, i.IntentKey, s.Owner, s.Now().Add(lease).Unix(), "", "") != nil {
		return // another instance was quicker, or it has been decided
	}
	failpoint.Hit(failpoint.ResolveLeased)
	if rail.Chain != nil && i.Facilitator == "" {
		s.resolveUnsent(ctx, rail, i)
		return
	}
	if rail.Chain != nil {
		proven, dead := s.askChain(ctx, rail, i)
		if dead != "" {
			s.refuse(ctx, i, dead)
		}
		if proven || dead != "" {
			return
		}
	}
	f := s.repeatTo(rail, i)
	if f == nil {
		s.keepOpen(ctx, i, i.Transaction, i.Reason)
		return
	}
	reply, err := f.settle(ctx, facilitatorRequest{i.Version, i.Payload, i.Requirement})
	s.heard(ctx, f, callSettle, reply.listing)
	s.conclude(ctx, rail, i, f, reply, err)
}

// resolveClaim has a claim proven, or takes it back when the chain shows that
// it was false.
func (s *Service) resolveClaim(ctx context.Context, rail *Rail, i ledger.Intent) {
	ctx, cancel := context.WithTimeout(ctx, leaseFor(rail))
	defer cancel()
	if _, dead := s.askChain(ctx, rail, i); dead == "" {
		return
	}
	s.Logger.Error("a facilitator's settlement never happened", "facilitator", i.Facilitator, "network", i.Network, "transaction", i.Transaction)
	if err := s.Ledger.ReopenIntent(ctx, i.IntentKey, "claim_disproved"); err != nil {
		s.Logger.Warn("a false claim could not be taken back", "nonce", i.Nonce, "error", err.Error())
	}
}

// askChain asks the chain what became of an intent and records the proof that
// it finds. dead is the reason of a definite no, or "". A chain that cannot be
// read says nothing.
func (s *Service) askChain(ctx context.Context, rail *Rail, i ledger.Intent) (proven bool, dead string) {
	failpoint.Hit(failpoint.ResolveBeforeChain)
	sighting, found, err := findTransfer(ctx, rail.Chain, i)
	failpoint.Hit(failpoint.ResolveAfterChain)
	switch {
	case err != nil:
		return false, ""
	case found && s.wasSigned(i, sighting):
		s.recordProof(ctx, rail, i, sighting)
		return true, ""
	case found && sighting.Final: // another Transfer has spent the nonce for good
		return false, reasonValue
	case found:
		return false, ""
	}
	if dead, err = rail.Chain.Dead(ctx, i.IntentKey, i.ValidBefore); err != nil {
		return false, ""
	}
	return false, dead
}

// findTransfer looks in the transaction that was named, then in all others: a
// transaction with a raised fee is mined under another hash.
func findTransfer(ctx context.Context, chain Chain, i ledger.Intent) (ledger.Sighting, bool, error) {
	if i.Transaction != "" {
		sighting, found, err := chain.Prove(ctx, i.IntentKey, i.Transaction)
		if found || err != nil {
			return sighting, found, err
		}
	}
	return chain.Find(ctx, i.IntentKey, i.CreatedAt)
}
