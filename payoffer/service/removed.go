package service

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// removedRails make a removed account from its id. Each rail whose removed accounts stay
// watched adds one; ok is false for the account of another rail.
var removedRails []func(r *removedAccounts, account string) (found removedAccount, ok bool)

// removedAccounts watches the accounts that were removed from the configuration or
// replaced. Payments that were sent to them before are still settled and recorded. Their
// health is only logged.
type removedAccounts struct {
	*dependencies
	settings *Settings
	logger   *slog.Logger

	mu    sync.Mutex
	known map[string]removedAccount
}

// removedAccount has no settlement if it does not take USDC, and no observer if it is not
// read.
type removedAccount struct {
	settlement *x402.Rail
	observer   Runner
}

func newRemovedAccounts(s *Settings, d *dependencies, logger *slog.Logger) *removedAccounts {
	return &removedAccounts{settings: s, dependencies: d, logger: logger, known: make(map[string]removedAccount)}
}

// settlement is the USDC rail of a removed account.
func (r *removedAccounts) settlement(account string) (x402.Rail, bool) {
	if found := r.get(account).settlement; found != nil {
		return *found, true
	}
	return x402.Rail{}, false
}

func (r *removedAccounts) get(account string) removedAccount {
	r.mu.Lock()
	defer r.mu.Unlock()
	found, known := r.known[account]
	if !known {
		for _, parse := range removedRails {
			if a, ok := parse(r, account); ok {
				found = a
				break
			}
		}
		r.known[account] = found
	}
	return found
}

// watchRetry is the pause before the ledger is read again after an error.
const watchRetry = 10 * time.Second

// Run runs the observers of the removed accounts until ctx ends.
func (r *removedAccounts) Run(ctx context.Context) {
	observers, err := r.observers(ctx)
	for ; err != nil; observers, err = r.observers(ctx) { // the ledger logs it
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

// observers are those of the accounts in the ledger that are not configured any more.
func (r *removedAccounts) observers(ctx context.Context) (map[string]Runner, error) {
	found := make(map[string]Runner)
	stored, err := r.Ledger.Accounts(ctx, r.settings.Offer.ID)
	for _, account := range stored {
		configured := slices.ContainsFunc(r.settings.Accounts(), func(a ledger.Account) bool { return a.ID == account.ID })
		if o := r.get(account.ID).observer; o != nil && !configured {
			found[account.ID] = o
		}
	}
	return found, err
}
