package service

import (
	"context"
	"crypto/rand"
	"log/slog"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// newPayments makes the x402 service of an offer. It also resolves the open payments of
// removed accounts.
func newPayments(s *Settings, d *dependencies, removed *removedAccounts, logger *slog.Logger) (*x402.Service, error) {
	var rails []x402.Rail
	for _, u := range RailsOf[USDC](s) {
		rails = append(rails, u.settlement(d))
	}
	return x402.New(x402.Config{
		Offer: s.Offer, Rails: rails, Ledger: d.Ledger, Limiter: d.limiter, Owner: rand.Text(),
		Hold: d.hold, Former: removed.settlement, Own: s.own, Signer: d.keys, ClockWrong: d.Clock.Wrong, ResolveEvery: seldom, Now: time.Now, Logger: logger,
	})
}

// startRetry is the Retry-After of a payment during start-up.
const startRetry = 2 * time.Second

// countedPayments counts the outcomes of attempts to pay.
type countedPayments struct {
	*x402.Service
	offer string
	count func(offer string, status x402.Status)
	// started waits for the start and reports whether it has succeeded.
	started func(ctx context.Context) bool
}

// Pay takes a payment. During start-up it takes none, because the address of the receipt
// is not known yet and a repeated request must get the same answer.
func (p countedPayments) Pay(ctx context.Context, a x402.Attempt) x402.Outcome {
	var outcome x402.Outcome
	if p.started(ctx) {
		outcome = p.Service.Pay(ctx, a)
	} else {
		outcome = p.NotYet(a, startRetry)
	}
	p.count(p.offer, outcome.Status)
	return outcome
}
