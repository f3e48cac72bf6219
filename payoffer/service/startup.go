package service

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	mathrand "math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/announce"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/source"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/pool"
)

const (
	// startWait is how long a start, and a request that needs the ledger, wait for a slow
	// ledger or storage.
	startWait = 5 * time.Second
	// firstRetry and lastRetry bound the pause after a failure, which doubles each time.
	firstRetry, lastRetry = time.Second, 15 * time.Second
)

// Start opens the offers of a configuration and runs them. If the ledger or the storage is
// slow or cannot be reached, it returns nil and retries in the background: payments get 503
// until then. With wait set it returns that error, too. Other errors are fatal; after Start
// has returned they are logged.
func (r *Runtime) Start(ctx context.Context, wait bool, offers ...*Service) error {
	closed := slices.DeleteFunc(slices.Clone(offers), (*Service).IsOpen)
	needOpen := members(closed)
	r.Run(func(member any) bool { return !needOpen[member] })
	s, err := pool.Acquire(r.Use, pool.KeyOf("startup", rand.Text()), func(e *environment) (*startup, error) {
		return &startup{
			runtime: r, offers: offers, closed: closed, wait: wait, since: time.Now().Unix(), result: make(chan error, 1), logger: newLogger(e),
		}, nil
	})
	if err != nil {
		return err
	}
	r.Run(func(member any) bool { return member == any(s) })
	if len(closed) == 0 {
		return nil
	}
	return s.returns(ctx)
}

// members are the members of the pool that run only while the offers are open.
func members(offers []*Service) map[any]bool {
	found := make(map[any]bool)
	for _, svc := range offers {
		found[svc] = true
		for _, o := range svc.observers {
			found[o] = true
		}
	}
	return found
}

// startup opens the offers of one configuration, with a constant number of ledger queries.
type startup struct {
	runtime        *Runtime
	offers, closed []*Service // closed are those that were not open before
	wait           bool
	since          int64 // the Unix time from which new accounts are watched
	result         chan error
	logger         *slog.Logger

	once sync.Once // sets result
}

// returns waits for the result of Start.
func (s *startup) returns(ctx context.Context) error {
	var slow <-chan time.Time
	if !s.wait {
		slow = time.After(startWait)
	}
	for {
		select {
		case err := <-s.result:
			return err
		case <-ctx.Done():
			return ctx.Err()
		case <-slow:
			if s.finish(nil) {
				s.logger.Warn("the ledger or the storage is slow", "hint", "the offers open by themselves when it answers; payments get 503 until then")
			}
		}
	}
}

// finish sets the result of Start and reports whether it was not set before.
func (s *startup) finish(err error) (first bool) {
	s.once.Do(func() {
		s.result <- err
		first = true
	})
	return first
}

// Run implements pool.Runner.
func (s *startup) Run(ctx context.Context) {
	for failures := 1; ; failures++ {
		err := s.open(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			s.run(ctx)
			return
		}
		for _, svc := range s.closed {
			svc.trouble.Store(&err)
		}
		switch transient := isTransient(err); {
		case !transient && !s.finish(err):
			if s.openEach(ctx) {
				if len(s.closed) > 0 {
					s.run(ctx)
				}
				return
			}
		case !transient, s.wait && s.finish(err):
			return
		case s.finish(nil):
			s.logger.Warn("the offers are not open yet", "error", err.Error(),
				"hint", "make the ledger or the storage reachable; the server retries, and payments get 503 until then")
		}
		select {
		case <-time.After(source.Backoff(failures, firstRetry, lastRetry, mathrand.Float64())):
		case <-ctx.Done():
			return
		}
	}
}

func isTransient(err error) bool { return ledger.Away(err) || errors.As(err, new(*storageError)) }

// openEach opens each offer alone, so that one that cannot open does not stop the others, and leaves the others out of
// closed. It returns false, and changes nothing, if all must be tried again.
func (s *startup) openEach(ctx context.Context) bool {
	all, opened, failed := s.closed, []*Service(nil), make(map[string][]string) // ids by error
	for i, svc := range all {
		s.closed = all[i : i+1]
		err := s.open(ctx)
		switch {
		case err == nil:
			opened = append(opened, svc)
			continue
		case ctx.Err() != nil || isTransient(err):
			s.closed = all
			return false
		}
		svc.trouble.Store(&err)
		failed[err.Error()] = append(failed[err.Error()], svc.Offer.ID)
	}
	for text, ids := range failed {
		s.logger.Error("offers take no payments", "offers", ids, "error", text, "hint", "fix the error, then run 'caddy reload'")
	}
	s.closed = opened
	return true
}

// open stores and loads what the closed offers need of the storage and the ledger.
func (s *startup) open(ctx context.Context) error {
	keys := make(chan error, 1) // they are published although the ledger is slow
	go func() { keys <- loadKeys(ctx, s.closed) }()
	err := s.runtime.Ledger.Open(ctx)
	if keysErr := <-keys; err == nil {
		err = keysErr
	}
	if err != nil {
		return err
	}
	var announcers []*announce.Announcer
	var accounts []ledger.Account
	var accountIDs []string
	prices := make(map[string]int64)
	for _, svc := range s.closed {
		prices[svc.Offer.ID] = int64(svc.Offer.Amount)
		announcers = append(announcers, svc.announcer)
		for _, account := range svc.Accounts() {
			account.Since = s.since // also if a source responds later for the first time
			accounts, accountIDs = append(accounts, account), append(accountIDs, account.ID)
		}
	}
	// The endpoints have their cursors before anything is recorded.
	if err := announce.Load(ctx, announcers...); err != nil {
		return err
	}
	if err := s.runtime.Ledger.Register(ctx, accounts...); err != nil {
		return err
	}
	if err := s.runtime.Ledger.StorePrices(ctx, s.since, prices); err != nil {
		return err
	}
	if err := rememberKeys(ctx, s.runtime.Ledger, s.closed...); err != nil {
		return err
	}
	cursors, err := s.runtime.Ledger.Cursors(ctx, accountIDs...)
	if err != nil {
		return err
	}
	for _, svc := range s.closed {
		if svc.addresses != nil && svc.addresses.Address() == "" {
			if err := svc.addresses.Load(cursors); err != nil {
				return err
			}
		}
	}
	return nil
}

// run runs the offers, which are open, and their observers.
func (s *startup) run(ctx context.Context) {
	for _, svc := range s.closed {
		svc.setOpen()
	}
	open := members(s.closed)
	s.runtime.Run(func(member any) bool { return open[member] })
	s.warnForgotten(ctx)
	if !s.finish(nil) { // otherwise the server logs it when it has started
		for _, svc := range s.closed {
			svc.LogOpen()
		}
	}
}

// LogOpen logs the addresses of the open offer.
func (svc *Service) LogOpen() {
	svc.logger.Info("the offer is open", "pay", svc.Offer.URL(offer.PathMethods), "site", svc.Offer.SitePage())
}

// warnForgotten logs the offers in the ledger that the configuration does not have. The
// receipts of an offer are not found if its id changed with base_url.
func (s *startup) warnForgotten(ctx context.Context) {
	forgotten, err := s.runtime.Ledger.Offers(ctx)
	if err != nil && ctx.Err() == nil {
		s.logger.Warn("the offers in the ledger cannot be read", "error", err.Error(), "hint", "check the database; offers with a changed id are not reported")
	}
	forgotten = slices.DeleteFunc(forgotten, func(id string) bool {
		return slices.ContainsFunc(s.offers, func(svc *Service) bool { return svc.Offer.ID == id })
	})
	if len(forgotten) > 0 {
		s.logger.Warn("the ledger has offers that are not configured", "offers", forgotten,
			"hint", "if base_url changed, give the offer its old 'id'; other instances may have these offers")
	}
}
