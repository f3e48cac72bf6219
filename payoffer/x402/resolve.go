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
	// resolveEvery is how often open intents are looked for.
	resolveEvery = 2 * time.Second
	// resolvePage is how many intents are read at once, resolveBeside how many
	// are looked at at the same time.
	resolvePage   = 100
	resolveBeside = 8
	// resolveSoonest and resolveLatest bound the time between two looks at one
	// intent, which is an eighth of its age.
	resolveSoonest = 2 * time.Second
	resolveLatest  = 2 * time.Minute
)

// Run resolves open intents and claims until ctx ends.
func (s *Service) Run(ctx context.Context) {
	for ctx.Err() == nil {
		s.Resolve(ctx)
		select {
		case <-ctx.Done():
		case <-time.After(resolveEvery):
		}
	}
}

// Resolve looks once at every intent whose outcome is unknown and at every
// claim: a settled intent that only a facilitator vouches for. What it looked
// at lately has to wait. It is not for concurrent use.
func (s *Service) Resolve(ctx context.Context) {
	s.each(ctx, s.all(ctx, s.Ledger.OpenIntents), func(rail *Rail, i ledger.Intent) {
		if !s.leased(i) && s.due(i, time.Unix(i.UpdatedAt, 0)) {
			s.resolveOpen(ctx, rail, i)
		}
	})
	s.each(ctx, s.dueClaims(s.all(ctx, s.Ledger.SettledUnproven)), func(rail *Rail, i ledger.Intent) {
		if rail.Chain != nil {
			s.resolveClaim(ctx, rail, i)
		}
	})
}

// all reads a list of the offer's intents page by page: what only an operator
// can decide must not hide what came after it. A ledger that cannot be read
// says so wherever it is needed.
func (s *Service) all(ctx context.Context, list func(ctx context.Context, offer string, after int64, limit int) ([]ledger.Intent, error)) []ledger.Intent {
	var all []ledger.Intent
	for after := int64(0); ; {
		page, err := list(ctx, s.Offer.ID, after, resolvePage)
		all = append(all, page...)
		if err != nil || len(page) < resolvePage {
			return all
		}
		after = page[len(page)-1].ID
	}
}

// each runs f on the intents of this offer, some at a time: one that waits for
// a facilitator must not keep the others waiting.
func (s *Service) each(ctx context.Context, intents []ledger.Intent, f func(*Rail, ledger.Intent)) {
	var work sync.WaitGroup
	defer work.Wait()
	slots := make(chan struct{}, resolveBeside)
	for _, i := range intents {
		rail := s.railOf(i)
		if rail == nil {
			continue
		}
		slots <- struct{}{}
		if ctx.Err() != nil {
			return
		}
		work.Go(func() {
			defer func() { <-slots }()
			f(rail, i)
		})
	}
}

// due reports whether an intent is to be looked at again: often while it is
// young, rarely when it is old.
func (s *Service) due(i ledger.Intent, last time.Time) bool {
	age := s.Now().Sub(time.Unix(i.CreatedAt, 0))
	return s.Now().Sub(last) >= min(max(age/8, resolveSoonest), resolveLatest)
}

// dueClaims picks the claims that are due and remembers the look: a claim that
// stays one is not written.
func (s *Service) dueClaims(claims []ledger.Intent) []ledger.Intent {
	before := s.looked
	s.looked = make(map[ledger.IntentKey]time.Time, len(claims))
	return slices.DeleteFunc(claims, func(i ledger.Intent) bool {
		last := before[i.IntentKey] // long ago for one that is new
		due := s.due(i, last)
		if due {
			last = s.Now()
		}
		s.looked[i.IntentKey] = last
		return !due
	})
}

// railOf finds the rail that an intent pays to, which may be one that the
// configuration does not have any more.
func (s *Service) railOf(i ledger.Intent) *Rail {
	if n := slices.IndexFunc(s.Rails, func(rail Rail) bool { return rail.USDC.Account() == i.Account }); n >= 0 {
		return &s.Rails[n]
	}
	if rail, found := s.Former(i.Account); found {
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
// operator, and is not written.
func (s *Service) resolveOpen(ctx context.Context, rail *Rail, i ledger.Intent) {
	f := s.repeatTo(rail, i)
	if rail.Chain == nil && f == nil {
		return
	}
	lease := leaseFor(rail)
	s.underWay.begin()
	defer s.underWay.end()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lease)
	defer cancel()
	if s.Ledger.NoteIntent(ctx, i.IntentKey, s.Owner, s.Now().Add(lease).Unix(), "", "") != nil {
		return // another instance was quicker, or it has been decided
	}
	failpoint.Hit(failpoint.ResolveLeased)
	if rail.Chain != nil {
		proven, dead := s.askChain(ctx, rail.Chain, i)
		if dead != "" {
			if err := s.Ledger.RefuseIntent(ctx, i.IntentKey, dead); err != nil {
				s.Logger.Warn("a payment that did not happen could not be recorded", "nonce", i.Nonce, "error", err.Error())
			}
		}
		if proven || dead != "" {
			return
		}
	}
	if f = s.repeatTo(rail, i); f == nil {
		s.keepOpen(ctx, i, i.Transaction, i.Reason)
		return
	}
	reply, err := f.settle(ctx, facilitatorRequest{i.Version, i.Payload, i.Requirement})
	s.conclude(ctx, rail, i, f, reply, err)
}

// resolveClaim has a claim proven, or takes it back when the chain shows that
// it was false.
func (s *Service) resolveClaim(ctx context.Context, rail *Rail, i ledger.Intent) {
	ctx, cancel := context.WithTimeout(ctx, leaseFor(rail))
	defer cancel()
	if _, dead := s.askChain(ctx, rail.Chain, i); dead == "" {
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
func (s *Service) askChain(ctx context.Context, chain Chain, i ledger.Intent) (proven bool, dead string) {
	failpoint.Hit(failpoint.ResolveBeforeChain)
	sighting, found, err := findTransfer(ctx, chain, i)
	failpoint.Hit(failpoint.ResolveAfterChain)
	switch {
	case err != nil:
		return false, ""
	case found && s.wasSigned(i, sighting):
		s.recordProof(ctx, i, sighting)
		return true, ""
	case found && sighting.Final: // another Transfer has spent the nonce for good
		return false, reasonValue
	case found:
		return false, ""
	}
	if dead, err = chain.Dead(ctx, i.IntentKey, i.ValidBefore); err != nil {
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
