package service

import (
	"log/slog"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe/storefront"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// Storefront says how a storefront is observed.
type Storefront struct {
	*offer.Storefront
	Seller, HookSecret, Token string
	// Since is the Unix time from which payments count; 0 is the first start.
	Since int64
}

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
	o := use(a, a.railKey(s, s.Seller, s.HookSecret, s.Token, s.Since), func(e *environment) (*storefront.Observer, error) {
		return storefront.New(storefront.Config{
			OfferID: a.settings.Offer.ID, Account: a.settings.Offer.AccountOf(s), Rail: s.Name(),
			Seller: s.Seller, Product: s.Product, Secret: s.HookSecret, Token: s.Token,
			Since: s.Since, ClockOffset: a.Clock.Offset,
			Ledger: a.Ledger, Transport: a.transport("storefront"), Now: time.Now, Logger: a.railLogger(e, s),
		})
	})
	if s.HookSecret != "" {
		a.hooks[s.Name()] = o
	}
	return o
}
