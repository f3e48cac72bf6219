package x402

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/failpoint"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/accounting"
)

const (
	// resolveEvery is the default of Config.ResolveEvery, and the pause after an incomplete Resolve.
	resolveEvery = 2 * time.Second
	// resolvePage is how many intents are read at once, and resolveParallel how many are resolved at once.
	resolvePage     = 100
	resolveParallel = 8
)

// Run resolves open intents and claims until ctx ends, every ResolveEvery and after Due.
func (s *Service) Run(ctx context.Context) { s.loop.RunAfter(ctx, s.ResolveEvery) }

// Due wakes Run. It never blocks.
func (s *Service) Due() { s.loop.Wake() }

func (s *Service) resolve(ctx context.Context) (time.Duration, error) {
	if !s.Resolve(ctx) {
		return resolveEvery, nil
	}
	return s.ResolveEvery, nil
}

// Resolve tries once to decide every due intent whose outcome is unknown and every due claim. Without a chain only what
// may still be sent again can change. It reports whether that was all that is due. It must not be called concurrently.
func (s *Service) Resolve(ctx context.Context) (all bool) {
	all = true
	if s.accounts == nil {
		accounts, err := s.Ledger.Accounts(ctx, s.Offer.ID)
		if err != nil {
			return false // the ledger reports its failures itself
		}
		s.accounts = accounts
	}
	for _, account := range s.accounts {
		rail := s.railOf(account.ID)
		if rail == nil {
			continue
		}
		validAfter := int64(0)
		if rail.Chain == nil {
			validAfter = s.Now().Add(settleMargin).Unix()
		}
		all = s.each(ctx, func() ([]ledger.IntentKey, error) {
			return s.Ledger.DueOpen(ctx, s.Offer.ID, account.ID, validAfter, resolvePage)
		}, func(i ledger.Intent) { s.resolveOpen(ctx, rail, i) }) && all
		if rail.Chain != nil {
			all = s.each(ctx, func() ([]ledger.IntentKey, error) {
				return s.Ledger.TakeDueClaims(ctx, s.Offer.ID, account.ID, resolvePage)
			}, func(i ledger.Intent) { s.resolveClaim(ctx, rail, i) }) && all
		}
	}
	return all
}

// each runs f on a page of due intents, some in parallel. all is false if there may be more pages or the ledger cannot be read.
func (s *Service) each(ctx context.Context, due func() ([]ledger.IntentKey, error), f func(ledger.Intent)) (all bool) {
	keys, err := due()
	if err != nil {
		return false // the ledger reports its failures itself
	}
	var work sync.WaitGroup
	defer work.Wait()
	slots := make(chan struct{}, resolveParallel)
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

// railOf finds the rail of an account, which may be removed from the configuration, or nil.
func (s *Service) railOf(account string) *Rail {
	for n := range s.Rails {
		if s.Rails[n].USDC.Account() == account {
			return &s.Rails[n]
		}
	}
	if rail, found := s.RemovedRail(account); found {
		return &rail
	}
	return nil
}

// resendTo is the facilitator to which an open intent may be sent again: the one that it was sent
// to, while the authorization is valid; or nil.
func (s *Service) resendTo(rail *Rail, i ledger.Intent) *Facilitator {
	if i.ValidBefore <= s.Now().Add(settleMargin).Unix() {
		return nil
	}
	if n := slices.IndexFunc(rail.Facilitators, func(f *Facilitator) bool { return f.Host() == i.Facilitator }); n >= 0 {
		return rail.Facilitators[n]
	}
	return nil
}

// resolveOpen takes over an open intent. It asks the chain first, then sends the identical payload
// again. If neither is possible, the intent waits for the operator.
func (s *Service) resolveOpen(ctx context.Context, rail *Rail, i ledger.Intent) {
	lease := leaseFor(rail)
	s.inFlight.begin()
	defer s.inFlight.end()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lease)
	defer cancel()
	i, err := s.Ledger.Apply(ctx, i.IntentKey, ledger.IntentChange{Event: accounting.EventLeased, Owner: s.Owner, Lease: s.Now().Add(lease).Unix()})
	if err != nil {
		return // another instance was faster, or it is decided
	}
	failpoint.Hit(failpoint.ResolveLeased)
	if rail.Chain != nil {
		if i.Stage(s.Now()) == accounting.StageSuspended {
			s.resolveSuspended(ctx, rail, i)
			return
		}
		proven, dead := s.resolveByChain(ctx, rail, i)
		if dead != "" {
			s.refuse(ctx, i, dead)
		}
		if proven || dead != "" {
			return
		}
	}
	if f := s.resendTo(rail, i); f != nil {
		if _, sent := s.settle(ctx, rail, i, f); sent {
			return
		}
	}
	s.keepOpen(ctx, i, i.Transaction, i.Reason)
}

// resolveClaim records the proof of a claim, or reopens the claim if the chain disproves it.
func (s *Service) resolveClaim(ctx context.Context, rail *Rail, i ledger.Intent) {
	ctx, cancel := context.WithTimeout(ctx, leaseFor(rail))
	defer cancel()
	if _, dead := s.resolveByChain(ctx, rail, i); dead == "" {
		return
	}
	s.Logger.Error("facilitator reported a false settlement", "facilitator", i.Facilitator, "network", i.Network,
		"transaction", i.Transaction, "hint", "the payment is open again; do not deliver for it, and ask the facilitator's operator")
	if _, err := s.Ledger.Apply(ctx, i.IntentKey, ledger.IntentChange{Event: accounting.EventDisproved, Reason: "claim_disproved"}); err != nil && !errors.Is(err, ledger.ErrIntentState) {
		s.Logger.Warn("false settlement not reopened", "nonce", i.Nonce, "error", err.Error(), "hint", hintLedger)
	}
}

// resolveByChain reads the outcome of an intent from the chain and records the proof if there is one.
// dead is the reason why it can never be paid, or "".
func (s *Service) resolveByChain(ctx context.Context, rail *Rail, i ledger.Intent) (proven bool, dead string) {
	failpoint.Hit(failpoint.ResolveBeforeChain)
	transfer, found, err := findTransfer(ctx, rail.Chain, i)
	failpoint.Hit(failpoint.ResolveAfterChain)
	switch {
	case err != nil:
		return false, ""
	case found && s.paysPrice(i, transfer):
		s.recordProof(ctx, rail, i, transfer)
		return true, ""
	case found && transfer.Final: // another Transfer has used the nonce
		return false, reasonValue
	case found:
		return false, ""
	}
	if dead, err = rail.Chain.Dead(ctx, i.IntentKey, i.ValidBefore); err != nil {
		return false, ""
	}
	return false, dead
}

// findTransfer looks in the reported transaction, then in all others: a transaction whose fee was
// raised is mined under another hash.
func findTransfer(ctx context.Context, chain Chain, i ledger.Intent) (ledger.Observation, bool, error) {
	if i.Transaction != "" {
		transfer, found, err := chain.Prove(ctx, i.IntentKey, i.Transaction)
		if found || err != nil {
			return transfer, found, err
		}
	}
	return chain.Find(ctx, i.IntentKey, i.CreatedAt)
}
