package payoffer

import (
	"context"
	"time"

	_ "github.com/payoffer/caddy-pay-offer/payoffer/command" // registers the commands
	"github.com/payoffer/caddy-pay-offer/payoffer/desk"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// Offers are the offers of the configuration, also before it is started. The
// commands ask for them.
func (app *App) Offers() []*offer.Offer {
	var found []*offer.Offer
	for _, svc := range app.offers() {
		found = append(found, svc.offer)
	}
	return found
}

// newDesk serves the operator of the offer.
func (svc *service) newDesk() *desk.Desk {
	return &desk.Desk{
		Offer: svc.offer, Account: svc.accountOf, Ledger: svc.ledger.Ledger, Health: svc.health,
		Summary: svc.server.Summary, Rotate: svc.rotateKey, Now: time.Now, Logger: svc.logger,
	}
}

// rotateKey makes a new signing key and publishes it.
func (svc *service) rotateKey(ctx context.Context, revoke bool) (keyID string, from time.Time, err error) {
	next, err := svc.signing.rotate(ctx, revoke)
	if err != nil {
		return "", time.Time{}, err
	}
	svc.publishKeys()
	return svc.signing.did + "#" + next.ID, next.From, nil
}
