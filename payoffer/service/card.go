package service

import (
	"log/slog"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe/card"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// Card says how the card rail is observed.
type Card struct {
	Rail                  *offer.Card
	WebhookSecret, APIKey string
	// Since is the Unix time from which payments count; 0 is the first start.
	Since int64
}

// Offered implements Rail.
func (c Card) Offered() offer.Rail { return c.Rail }

func (c Card) warn(logger *slog.Logger) { warnUnreadSince(logger, c.Since, "api_key", c.APIKey != "") }

func (c Card) observe(a *acquisition) observer {
	if c.WebhookSecret == "" && c.APIKey == "" {
		return nil
	}
	o := use(a, a.railKey(c.Rail, c.WebhookSecret, c.APIKey, c.Since), func(e *environment) (*card.Observer, error) {
		return card.New(card.Config{
			OfferID: a.settings.Offer.ID, Account: a.settings.Offer.AccountOf(c.Rail), Rail: c.Rail.Name(),
			PaymentLink: c.Rail.PaymentLink, TestMode: c.Rail.TestMode, Secret: c.WebhookSecret, APIKey: c.APIKey,
			Since: c.Since, ClockOffset: a.Clock.Offset,
			Ledger: a.Ledger, Transport: a.transport("card"), Now: time.Now, Logger: a.railLogger(e, c.Rail),
		})
	})
	if c.WebhookSecret != "" {
		a.hooks[c.Rail.Name()] = o
	}
	return o
}
