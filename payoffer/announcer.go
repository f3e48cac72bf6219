package payoffer

import (
	"crypto/rand"
	"log/slog"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/announce"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
)

// newAnnouncer makes what announces an offer's receipts: as events of Caddy,
// which the configuration may subscribe to, and to the configured addresses.
func (app *App) newAnnouncer(s *settings, book *ledger.Ledger, logger *slog.Logger) (*announce.Announcer, error) {
	test, _ := s.offer.Test()
	c := announce.Config{
		OfferID: s.offer.ID, BaseURL: s.offer.BaseURL, TestnetCounts: test, Ledger: book, Owner: rand.Text(),
		Emit:      func(name string, data map[string]any) { app.events.Emit(app.ctx, name, data) },
		Transport: meteredTransport("announce"), Now: time.Now, Logger: logger,
	}
	for _, a := range s.announce {
		c.Sinks = append(c.Sinks, announce.Sink{URL: a.url, Secret: a.secret})
	}
	return announce.New(c)
}
