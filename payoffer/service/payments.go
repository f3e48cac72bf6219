package service

import (
	"context"
	"crypto/rand"
	"log/slog"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// payments takes the x402 payments of one offer, also to rails that it had
// before.
type payments struct {
	*x402.Service
	former *formerRails
}

// newPayments puts facilitators and chains to the USDC rails. It calls nobody.
func newPayments(s *Settings, p *parts, i *Instruments, logger *slog.Logger) (*payments, error) {
	former := newFormerRails(s, p, i, logger)
	var rails []x402.Rail
	for _, u := range s.USDC {
		rail := x402.Rail{USDC: u.Rail, Facilitators: p.facilitatorsOf(u)}
		if chain := p.chains[u.Rail.Name()]; chain != nil {
			rail.Chain = chain
		}
		rails = append(rails, rail)
	}
	service, err := x402.New(x402.Config{
		Offer: s.Offer, Rails: rails, Ledger: p.ledger, Limiter: p.limiter, Owner: rand.Text(),
		Hold: p.hold, Former: former.find, Own: s.own, Signer: p.keys, ClockWrong: p.clock.Wrong, ResolveEvery: seldom, Now: time.Now, Logger: logger,
	})
	return &payments{service, former}, err
}

// facilitatorsOf are those of a rail, in the order in which they are asked.
func (p *parts) facilitatorsOf(u USDC) (found []*x402.Facilitator) {
	for _, f := range u.Facilitators {
		found = append(found, p.facilitators[facilitatorKey(f)])
	}
	return found
}

// receipts are those of an offer that was open. Until then its report is not there, by
// which load balancers know that payments cannot be taken yet.
type receipts struct {
	*ledger.Ledger
	standing *standing
}

// Totals implements web.Receipts.
func (r receipts) Totals(ctx context.Context, offerID string) ([]ledger.Total, error) {
	if !r.standing.opened.Load() {
		return nil, ledger.ErrNotOpen
	}
	return r.Ledger.Totals(ctx, offerID)
}

// Books implements web.Receipts.
func (r receipts) Books(ctx context.Context, offerID string, before int64, limit int) ([]ledger.Total, []ledger.Receipt, error) {
	if !r.standing.opened.Load() {
		return nil, nil, ledger.ErrNotOpen
	}
	return r.Ledger.Books(ctx, offerID, before, limit)
}

// startRetry is when to pay again while the service is starting.
const startRetry = 2 * time.Second

// countedPayments tells how attempts ended.
type countedPayments struct {
	*payments
	offer string
	count func(offer string, status x402.Status)
	// started waits for the start and reports whether it is over.
	started func(ctx context.Context) bool
}

// Pay counts the outcome of an attempt. Nobody pays before the address of the
// receipt can be told, so that whoever asks again gets the same answer.
func (p countedPayments) Pay(ctx context.Context, a x402.Attempt) x402.Outcome {
	var outcome x402.Outcome
	if p.started(ctx) {
		outcome = p.payments.Pay(ctx, a)
	} else {
		outcome = p.payments.NotReady(a, startRetry)
	}
	p.count(p.offer, outcome.Status)
	return outcome
}
