package service

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/source"
	"github.com/payoffer/caddy-pay-offer/payoffer/pool"
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
	loop     source.Loop
	// running are the accounts with a running observer, which watching counts.
	running  map[string]bool
	watching sync.WaitGroup

	mu    sync.Mutex
	known map[string]removedAccount
}

// removedAccount has no settlement if it does not take USDC, and no observer if it is not
// read.
type removedAccount struct {
	settlement *x402.Rail
	observer   pool.Runner
}

func newRemovedAccounts(s *Settings, d *dependencies, logger *slog.Logger) *removedAccounts {
	r := &removedAccounts{settings: s, dependencies: d, logger: logger, known: make(map[string]removedAccount)}
	r.loop.Poll = r.watch
	return r
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

// Run watches the removed accounts, and those that are added, until ctx ends.
func (r *removedAccounts) Run(ctx context.Context) {
	r.running = make(map[string]bool)
	defer r.watching.Wait()
	r.loop.Run(ctx)
}

// watchRetry is the pause before the ledger is read again after an error.
const watchRetry = 10 * time.Second

// watch runs the observers of the removed accounts in the ledger that do not run yet.
func (r *removedAccounts) watch(ctx context.Context) (time.Duration, error) {
	stored, err := r.Ledger.Accounts(ctx, r.settings.Offer.ID)
	if err != nil {
		return watchRetry, err // the ledger logs it
	}
	for _, account := range stored {
		configured := slices.ContainsFunc(r.settings.Accounts(), func(a ledger.Account) bool { return a.ID == account.ID })
		if configured || r.running[account.ID] {
			continue
		}
		if o := r.get(account.ID).observer; o != nil {
			r.running[account.ID] = true
			r.watching.Go(func() { o.Run(ctx) })
		}
	}
	return fallbackEvery, nil
}
