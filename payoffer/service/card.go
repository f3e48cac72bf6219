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

func (c Card) observe(a *acquisition) observer {
	if c.WebhookSecret == "" && c.APIKey == "" {
		return nil
	}
	o := use(a, a.railKey(c, c.WebhookSecret, c.APIKey, c.Since), func(e *environment) (*card.Observer, error) {
		return card.New(card.Config{
			OfferID: a.settings.Offer.ID, Account: a.settings.Offer.AccountOf(c), Rail: c.Name(),
			PaymentLink: c.PaymentLink, TestMode: c.TestMode, Secret: c.WebhookSecret, APIKey: c.APIKey,
			Since: c.Since, ClockOffset: a.Clock.Offset,
			Ledger: a.Ledger, Transport: a.transport("card"), Now: time.Now, Logger: a.railLogger(e, c),
		})
	})
	if c.WebhookSecret != "" {
		a.hooks[c.Name()] = o
	}
	return o
}
