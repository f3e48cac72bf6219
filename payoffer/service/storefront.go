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

func (s Storefront) observe(settings *Settings, d *dependencies) (observer, error) {
	if s.HookSecret == "" && s.Token == "" {
		return nil, nil
	}
	o, err := storefront.New(storefront.Config{
		OfferID: settings.Offer.ID, Account: settings.Offer.AccountOf(s), Rail: s.Name(),
		Seller: s.Seller, Product: s.Product, Secret: s.HookSecret, Token: s.Token,
		Since: s.Since, ClockOffset: d.clockCorrection,
		Ledger: d.Ledger, Transport: d.Instruments.Transport("storefront"), Now: time.Now, Logger: d.railLogger(settings, s),
	})
	if s.HookSecret != "" {
		d.hooks[s.Name()] = o
	}
	return o, err
}
