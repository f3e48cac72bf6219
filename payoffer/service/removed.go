package service

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// removedAccount is an account that was removed from the configuration or replaced. Payments that were sent to it before are
// still settled and recorded. Its health is only logged. It has no settlement if it does not take USDC, and no observer if it
// is not read.
type removedAccount struct {
	settlement *x402.Rail
	observer   Runner
}

// removedRails make a removed account from its id. Each rail whose removed accounts stay
// watched adds one; ok is false for the account of another rail.
var removedRails []func(svc *Service, account string) (found removedAccount, ok bool)

// removed returns what still works for a removed account.
func (s *Service) removed(account string) (found removedAccount) {
	s.removing.Lock()
	defer s.removing.Unlock()
	if known, ok := s.removedAccounts[account]; ok {
		return known
	}
	for _, parse := range removedRails {
		if a, ok := parse(s, account); ok {
			found = a
			break
		}
	}
	s.removedAccounts[account] = found
	return found
}

// removedRail is the USDC rail of a removed account.
func (s *Service) removedRail(account string) (x402.Rail, bool) {
	if rail := s.removed(account).settlement; rail != nil {
		return *rail, true
	}
	return x402.Rail{}, false
}

// watchRetry is the pause before the ledger is read again after an error.
const watchRetry = 10 * time.Second

// watchRemoved runs the observers of the removed accounts until ctx ends.
func (s *Service) watchRemoved(ctx context.Context) {
	observers, err := s.removedObservers(ctx)
	for ; err != nil; observers, err = s.removedObservers(ctx) { // the ledger logs it
		select {
		case <-time.After(watchRetry):
		case <-ctx.Done():
			return
		}
	}
	var running sync.WaitGroup
	for _, o := range observers {
		running.Go(func() { o.Run(ctx) })
	}
	running.Wait()
}

// removedObservers are those of the accounts in the ledger that are not configured any more.
func (s *Service) removedObservers(ctx context.Context) (map[string]Runner, error) {
	found := make(map[string]Runner)
	stored, err := s.Ledger.Accounts(ctx, s.Offer.ID)
	for _, account := range stored {
		configured := slices.ContainsFunc(s.Accounts(), func(a ledger.Account) bool { return a.ID == account.ID })
		if o := s.removed(account.ID).observer; o != nil && !configured {
			found[account.ID] = o
		}
	}
	return found, err
}
