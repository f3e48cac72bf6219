package service

import (
	"log/slog"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe/card"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// Card says how the card rail is observed.
type Card struct {
	*offer.Card
	WebhookSecret, APIKey string
	// Since is the Unix time from which payments count; 0 is the first start.
	Since int64
}

func (c Card) warn(logger *slog.Logger) { warnUnreadSince(logger, c.Since, "api_key", c.APIKey != "") }

func (c Card) observe(svc *Service) (observer, error) {
	if c.WebhookSecret == "" && c.APIKey == "" {
		return nil, nil
	}
	o, err := card.New(card.Config{
		OfferID: svc.Offer.ID, Account: svc.Offer.AccountOf(c), Rail: c.Name(), PaymentLink: c.PaymentLink, TestMode: c.TestMode,
		Secret: c.WebhookSecret, APIKey: c.APIKey, Since: c.Since, ClockOffset: svc.clockCorrection,
		Ledger: svc.Ledger, Transport: svc.Instruments.Transport("card"), Logger: svc.logger.With("rail", c.Name()),
	})
	if c.WebhookSecret != "" {
		svc.hooks[c.Name()] = o
	}
	return o, err
}
