package service

import (
	"log/slog"
	"time"

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

func (c Card) observe(s *Settings, d *dependencies) (observer, error) {
	if c.WebhookSecret == "" && c.APIKey == "" {
		return nil, nil
	}
	o, err := card.New(card.Config{
		OfferID: s.Offer.ID, Account: s.Offer.AccountOf(c), Rail: c.Name(),
		PaymentLink: c.PaymentLink, TestMode: c.TestMode, Secret: c.WebhookSecret, APIKey: c.APIKey,
		Since: c.Since, ClockOffset: d.clockCorrection,
		Ledger: d.Ledger, Transport: d.Instruments.Transport("card"), Now: time.Now, Logger: d.railLogger(s, c),
	})
	if c.WebhookSecret != "" {
		d.hooks[c.Name()] = o
	}
	return o, err
}
