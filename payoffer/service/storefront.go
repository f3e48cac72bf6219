package service

import (
	"log/slog"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe/storefront"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// Storefront says how a storefront is observed.
type Storefront struct {
	Rail                      *offer.Storefront
	Seller, HookSecret, Token string
	// Since is the Unix time from which payments count; 0 is the first start.
	Since int64
}

// Offered implements Rail.
func (s Storefront) Offered() offer.Rail { return s.Rail }

func (s Storefront) warn(logger *slog.Logger) {
	if s.HookSecret != "" && s.Token == "" {
		logger.Warn("the storefront is not monitored without a token", "hint", "add token, or enter its sales with 'caddy pay-offer record'")
	}
	warnUnreadSince(logger, s.Since, "token", s.Token != "")
}

func (s Storefront) observe(a *acquisition) observer {
	if s.HookSecret == "" && s.Token == "" {
		return nil
	}
	o := use(a, a.railKey(s.Rail, s.Seller, s.HookSecret, s.Token, s.Since), func(e *environment) (*storefront.Observer, error) {
		return storefront.New(storefront.Config{
			OfferID: a.settings.Offer.ID, Account: a.settings.Offer.AccountOf(s.Rail), Rail: s.Rail.Name(),
			Seller: s.Seller, Product: s.Rail.Product, Secret: s.HookSecret, Token: s.Token,
			Since: s.Since, ClockOffset: a.Clock.Offset,
			Ledger: a.Ledger, Transport: a.transport("storefront"), Now: time.Now, Logger: a.railLogger(e, s.Rail),
		})
	})
	if s.HookSecret != "" {
		a.hooks[s.Rail.Name()] = o
	}
	return o
}
