package service

import (
	"log/slog"

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

func (s Storefront) observe(svc *Service) (observer, error) {
	if s.HookSecret == "" && s.Token == "" {
		return nil, nil
	}
	o, err := storefront.New(storefront.Config{
		OfferID: svc.Offer.ID, Account: svc.Offer.AccountOf(s), Rail: s.Name(), Seller: s.Seller, Product: s.Product,
		Secret: s.HookSecret, Token: s.Token, Since: s.Since, ClockOffset: svc.clockCorrection,
		Ledger: svc.Ledger, Transport: svc.Instruments.Transport("storefront"), Logger: svc.logger.With("rail", s.Name()),
	})
	if s.HookSecret != "" {
		svc.hooks[s.Name()] = o
	}
	return o, err
}
