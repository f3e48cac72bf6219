package service

import (
	"context"
	"errors"
	mathrand "math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/announce"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/source"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

const (
	// startWait is how long a start, and a request that needs the ledger, wait for a slow
	// ledger or storage.
	startWait = 5 * time.Second
	// firstRetry and lastRetry bound the pause after a failure, which doubles each time.
	firstRetry, lastRetry = time.Second, 15 * time.Second
)

// Start opens the offers of the load and starts their work. If the ledger or the storage is slow or cannot be reached, it
// returns nil and retries in the background: payments get 503 until then. With wait set it returns that error, too. Other
// errors are fatal; after Start has returned they are logged.
func (r *Runtime) Start(ctx context.Context, wait bool) error {
	s := &startup{Runtime: r, wait: wait, since: time.Now().Unix(), result: make(chan error), returned: make(chan struct{})}
	defer close(s.returned)
	r.work.Go(s.run)
	var slow <-chan time.Time
	if !wait {
		slow = time.After(startWait)
	}
	select {
	case err := <-s.result:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-slow:
		r.Logger.Warn("the ledger or the storage is slow", "hint", "the offers open by themselves when it answers; payments get 503 until then")
		return nil
	}
}

// Stop ends the work of the offers. It does not wait.
func (r *Runtime) Stop() { r.cancel() }

// Wait waits for the end of the work after Stop.
func (r *Runtime) Wait() {
	r.work.Wait()
	var ending sync.WaitGroup
	for _, svc := range r.services {
		ending.Go(svc.end)
	}
	ending.Wait()
}

// startup opens the offers of one load, with a constant number of ledger queries.
type startup struct {
	*Runtime
	wait   bool
	since  int64      // the Unix time from which new accounts are watched
	result chan error // of Start, until returned is closed

	returned chan struct{}
}

// report passes the result of Start on, and returns false if Start has returned.
func (s *startup) report(err error) bool {
	select {
	case s.result <- err:
		return true
	case <-s.returned:
		return false
	}
}

// run opens the offers and starts their work. It retries until Stop.
func (s *startup) run() {
	for failures := 1; ; failures++ {
		err := s.open(s.services...)
		if s.ctx.Err() != nil {
			return
		}
		if err == nil {
			s.begin(s.services)
			return
		}
		for _, svc := range s.services {
			svc.trouble.Store(&err)
		}
		switch transient := isTransient(err); {
		case !transient || s.wait:
			if s.report(err) || !transient && s.openEach() {
				return
			}
		case s.report(nil):
			s.Logger.Warn("the offers are not open yet", "error", err.Error(),
				"hint", "make the ledger or the storage reachable; the server retries, and payments get 503 until then")
		}
		select {
		case <-time.After(source.Backoff(failures, firstRetry, lastRetry, mathrand.Float64())):
		case <-s.ctx.Done():
			return
		}
	}
}

func isTransient(err error) bool {
	return ledger.IsUnreachable(err) || errors.As(err, new(*storageError))
}

// openEach opens each offer alone, so that one that cannot open does not stop the others. It returns false, and starts
// none, if all must be tried again.
func (s *startup) openEach() bool {
	var opened []*Service
	failed := make(map[string][]string) // ids by error
	for _, svc := range s.services {
		err := s.open(svc)
		switch {
		case err == nil:
			opened = append(opened, svc)
			continue
		case s.ctx.Err() != nil || isTransient(err):
			return false
		}
		svc.trouble.Store(&err)
		failed[err.Error()] = append(failed[err.Error()], svc.Offer.ID)
	}
	for text, ids := range failed {
		s.Logger.Error("offers take no payments", "offers", ids, "error", text, "hint", "fix the error, then run 'caddy reload'")
	}
	s.begin(opened)
	return true
}

// open stores and loads what offers need of the storage and the ledger.
func (s *startup) open(offers ...*Service) error {
	ctx, keys := s.ctx, make(chan error, 1) // the keys are published although the ledger is slow
	go func() { keys <- loadKeys(ctx, offers) }()
	err := s.Open(ctx)
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
	for _, svc := range offers {
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
	if err := s.Ledger.Register(ctx, accounts...); err != nil {
		return err
	}
	if err := s.Ledger.StorePrices(ctx, s.since, prices); err != nil {
		return err
	}
	if err := rememberKeys(ctx, s.Ledger, offers...); err != nil {
		return err
	}
	cursors, err := s.Ledger.Cursors(ctx, accountIDs...)
	if err != nil {
		return err
	}
	for _, svc := range offers {
		if svc.addresses != nil && svc.addresses.Address() == "" {
			if err := svc.addresses.Load(cursors); err != nil {
				return err
			}
		}
	}
	return nil
}

// startEvery is the time between the first polls of two offers, so that a load does not poll a chain or a provider for
// all of them at once.
const startEvery = 50 * time.Millisecond

// begin starts the work of the offers, which are open.
func (s *startup) begin(offers []*Service) {
	for n, svc := range offers {
		svc.start(s.ctx, &s.work, time.Duration(n)*startEvery)
	}
	if !s.report(nil) { // otherwise the server logs it when it has started
		for _, svc := range offers {
			svc.LogOpen()
		}
	}
	s.warnForgotten(s.ctx)
}

// LogOpen logs the addresses of the open offer.
func (s *Service) LogOpen() {
	s.logger.Info("the offer is open", "pay", s.Offer.URL(offer.PathMethods), "site", s.Offer.SitePage())
}

// warnForgotten logs the offers in the ledger that the configuration does not have. The
// receipts of an offer are not found if its id changed with base_url.
func (s *startup) warnForgotten(ctx context.Context) {
	forgotten, err := s.Ledger.Offers(ctx)
	if err != nil && ctx.Err() == nil {
		s.Logger.Warn("the offers in the ledger cannot be read", "error", err.Error(), "hint", "check the database; offers with a changed id are not reported")
	}
	forgotten = slices.DeleteFunc(forgotten, func(id string) bool {
		return slices.ContainsFunc(s.services, func(svc *Service) bool { return svc.Offer.ID == id })
	})
	if len(forgotten) > 0 {
		s.Logger.Warn("the ledger has offers that are not configured", "offers", forgotten,
			"hint", "if base_url changed, give the offer its old 'id'; other instances may have these offers")
	}
}
