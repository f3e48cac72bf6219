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
	since, first := time.Now().Unix(), make(chan error, 1)
	r.work.Go(func() { first <- r.openOffers(since, r.services...) })
	var slow <-chan time.Time
	if !wait {
		slow = time.After(startWait)
	}
	select {
	case err := <-first:
		switch {
		case err == nil:
			r.begin()
			return nil
		case wait || !isTransient(err):
			return err
		}
		r.Logger.Warn("the offers are not open yet", "error", err.Error(),
			"hint", "make the ledger or the storage reachable; the server retries, and payments get 503 until then")
		first <- err
	case <-ctx.Done():
		return ctx.Err()
	case <-slow:
		r.Logger.Warn("the ledger or the storage is slow", "hint", "the offers open by themselves when it answers; payments get 503 until then")
	}
	r.work.Go(func() { r.openLate(since, <-first) })
	return nil
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

// openLate starts the work of the offers after Start has returned. If the first attempt failed, it opens them one after the
// other, so that one that cannot open does not stop the others, and retries until Stop.
func (r *Runtime) openLate(since int64, err error) {
	if r.ctx.Err() != nil {
		return
	}
	if err == nil {
		r.begin()
		for _, svc := range r.services {
			svc.LogOpen()
		}
		return
	}
	fail(err, r.services...)
	waiting, failures := r.services, 0
	for len(waiting) > 0 {
		svc := waiting[0]
		switch err := r.openOffers(since, svc); {
		case r.ctx.Err() != nil:
			return
		case err == nil:
			svc.start(r.ctx, &r.work, time.Duration(len(r.services)-len(waiting))*startEvery)
			svc.LogOpen()
		case isTransient(err):
			fail(err, waiting...)
			failures++
			select {
			case <-time.After(source.Backoff(failures, firstRetry, lastRetry, mathrand.Float64())):
			case <-r.ctx.Done():
				return
			}
			continue
		default:
			fail(err, svc)
			svc.logger.Error("the offer takes no payments", "error", err.Error(), "hint", "fix the error, then run 'caddy reload'")
		}
		waiting = waiting[1:]
	}
	r.warnForgotten()
}

// fail records why offers are not open.
func fail(err error, offers ...*Service) {
	for _, svc := range offers {
		svc.trouble.Store(&err)
	}
}

func isTransient(err error) bool {
	return ledger.IsUnreachable(err) || errors.As(err, new(*storageError))
}

// openOffers stores and loads what offers need of the storage and the ledger, with a constant number of queries. New accounts
// are watched since a Unix time, also if their source responds later for the first time.
func (r *Runtime) openOffers(since int64, offers ...*Service) error {
	ctx, keys := r.ctx, make(chan error, 1) // the keys are published although the ledger is slow
	go func() { keys <- loadKeys(ctx, offers) }()
	err := r.Open(ctx)
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
			account.Since = since
			accounts, accountIDs = append(accounts, account), append(accountIDs, account.ID)
		}
	}
	// The endpoints have their cursors before anything is recorded.
	if err := announce.Load(ctx, announcers...); err != nil {
		return err
	}
	if err := r.Ledger.Register(ctx, accounts...); err != nil {
		return err
	}
	if err := r.Ledger.StorePrices(ctx, since, prices); err != nil {
		return err
	}
	if err := rememberKeys(ctx, r.Ledger, offers...); err != nil {
		return err
	}
	cursors, err := r.Ledger.Cursors(ctx, accountIDs...)
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
func (r *Runtime) begin() {
	for n, svc := range r.services {
		svc.start(r.ctx, &r.work, time.Duration(n)*startEvery)
	}
	r.work.Go(r.warnForgotten)
}

// LogOpen logs the addresses of the open offer.
func (s *Service) LogOpen() {
	s.logger.Info("the offer is open", "pay", s.Offer.URL(offer.PathMethods), "site", s.Offer.SitePage())
}

// warnForgotten logs the offers in the ledger that the configuration does not have. The
// receipts of an offer are not found if its id changed with base_url.
func (r *Runtime) warnForgotten() {
	forgotten, err := r.Ledger.Offers(r.ctx)
	if err != nil && r.ctx.Err() == nil {
		r.Logger.Warn("the offers in the ledger cannot be read", "error", err.Error(), "hint", "check the database; offers with a changed id are not reported")
	}
	forgotten = slices.DeleteFunc(forgotten, func(id string) bool {
		return slices.ContainsFunc(r.services, func(svc *Service) bool { return svc.Offer.ID == id })
	})
	if len(forgotten) > 0 {
		r.Logger.Warn("the ledger has offers that are not configured", "offers", forgotten,
			"hint", "if base_url changed, give the offer its old 'id'; other instances may have these offers")
	}
}
