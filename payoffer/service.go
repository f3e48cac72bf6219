package payoffer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/payoffer/caddy-pay-offer/payoffer/agent"
	"github.com/payoffer/caddy-pay-offer/payoffer/announce"
	"github.com/payoffer/caddy-pay-offer/payoffer/desk"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/rate"
	"github.com/payoffer/caddy-pay-offer/payoffer/web"
)

// service is one offer at work. Handlers with the same configuration, as Caddy
// makes them for a site with several addresses, share it.
type service struct {
	*settings
	config []byte // the handlers' configuration as JSON
	users  int

	logger    *slog.Logger
	server    *web.Server
	signing   *signing
	payments  payments
	observers *observers
	announcer *announce.Announcer
	ledger    *ledgerReference
	watcher   *rateWatcher // nil without a bitcoin rail
	desk      *desk.Desk
}

// newService puts an offer to work. On an error it gives back what it took.
func (app *App) newService(s *settings, config []byte) (_ *service, err error) {
	svc := &service{settings: s, config: config, logger: app.slog.With("offer", s.offer.ID)}
	defer func() {
		if err != nil {
			err = errors.Join(err, svc.close())
		}
	}()
	if svc.ledger, err = referLedger(app.database); err != nil {
		return nil, err
	}
	if s.offer.Bitcoin() != nil {
		if svc.watcher, err = referWatcher(s.rates); err != nil {
			return nil, err
		}
	}
	logger := svc.logger
	svc.signing = newSigning(app.ctx.Storage(), s.offer.BaseURL)
	if svc.payments, err = newPayments(s, svc.ledger.Ledger, svc.signing, logger); err != nil {
		return nil, err
	}
	if svc.observers, err = newObservers(s, svc.ledger.Ledger, svc.rate, svc.refresh, logger); err != nil {
		return nil, err
	}
	if svc.announcer, err = app.newAnnouncer(s, svc.ledger.Ledger, logger); err != nil {
		return nil, err
	}
	if svc.server, err = svc.newServer(app, logger); err != nil {
		return nil, err
	}
	svc.desk = svc.newDesk()
	if svc.watcher != nil {
		svc.watcher.listen(svc, svc.refresh)
		svc.refresh() // the rate may have changed in between
	}
	return svc, nil
}

// refresh publishes what has changed: the rate, or the address of an extended
// key.
func (svc *service) refresh() {
	svc.observers.quoted(svc.live().Satoshis, svc.offer.Amount)
	svc.server.Refresh()
}

// publishKeys publishes the keys that sign, and what they signed.
func (svc *service) publishKeys() {
	svc.payments.Refresh()
	svc.server.Refresh()
}

// run observes the rails and announces receipts until ctx ends.
func (svc *service) run(ctx context.Context) {
	var work sync.WaitGroup
	work.Go(func() { svc.payments.Run(ctx) })
	work.Go(func() { svc.observers.run(ctx) })
	work.Go(func() { svc.announcer.Run(ctx) })
	work.Go(func() { svc.signing.follow(ctx, svc.publishKeys, svc.logger) })
	work.Wait()
}

// health says how well each rail is observed. It never blocks.
func (svc *service) health() []observe.Health {
	return append(svc.payments.Health(), svc.observers.health()...)
}

func (svc *service) newServer(app *App, logger *slog.Logger) (*web.Server, error) {
	metered := meteredPayments{svc.payments, svc.offer.ID}
	var server *web.Server // serves the endpoint, which reads its report
	endpoint, err := agent.New(agent.Config{
		Offer:    svc.offer,
		Live:     svc.live,
		Payments: metered,
		Summary:  func(ctx context.Context) (json.RawMessage, error) { return server.Summary(ctx) },
		ClientIP: clientIP,
		Logger:   logger,
	})
	if err != nil {
		return nil, err
	}
	hooks := svc.observers.hooks(svc.settings)
	countFromZero(svc.offer.ID, hooks)
	server, err = web.New(web.Config{
		Offer:    svc.offer,
		Payments: metered,
		Agent:    endpoint,
		Live:     svc.live,
		Receipts: svc.ledger.Ledger,
		Health:   svc.health,
		Hooks:    hooks,
		OnDelivery: func(rail string, v observe.Verdict) {
			deliveries.WithLabelValues(svc.offer.ID, rail, string(v)).Inc()
			svc.announcer.Notify()
		},
		QRKey:    app.loadedQRKey,
		Keys:     svc.signing.published,
		ClientIP: clientIP,
		Now:      time.Now,
		Logger:   logger,
	})
	return server, err
}

// live never blocks and does no I/O.
func (svc *service) live() offer.Live {
	if svc.watcher == nil {
		return offer.Live{}
	}
	live := svc.watcher.live(svc.offer.Amount)
	live.Address = svc.observers.address()
	return live
}

// rate is the current one, if there is one.
func (svc *service) rate() (rate.Rate, bool) {
	if svc.watcher == nil {
		return rate.Rate{}, false
	}
	return svc.watcher.Current()
}

// close waits for settlements under way and gives back what the service took.
func (svc *service) close() error {
	var errs []error
	if svc.payments != nil {
		ctx, cancel := context.WithTimeout(context.Background(), svc.patience())
		defer cancel()
		if err := svc.payments.Wait(ctx); err != nil {
			errs = append(errs, fmt.Errorf("offer %s: a settlement is still under way and is resolved after the next start: %w", svc.offer.ID, err))
		}
	}
	return errors.Join(append(errs, svc.watcher.release(svc), svc.ledger.release())...)
}

// patience is how long a settlement under way may take to end.
func (svc *service) patience() time.Duration {
	longest := settlementMargin
	for _, u := range svc.usdc {
		for _, f := range u.facilitators {
			longest = max(longest, f.Timeout+settlementMargin)
		}
	}
	return longest
}

// settlementMargin is the time around a facilitator's call that recording its
// outcome may take.
const settlementMargin = 10 * time.Second

// clientIP is the address that Caddy, which knows trusted proxies, holds for
// the client.
func clientIP(r *http.Request) string {
	address, _ := caddyhttp.GetVar(r.Context(), caddyhttp.ClientIPVarKey).(string)
	return address
}
