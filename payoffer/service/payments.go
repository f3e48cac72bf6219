package service

import (
	"context"
	"crypto/rand"
	"log/slog"
	"sync"
	"time"

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
		Former: former.find, Own: s.own, Signer: p.keys, ClockWrong: p.clock.Wrong, Now: time.Now, Logger: logger,
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

// run resolves what was left open and follows the accounts that were removed
// from the configuration until ctx ends.
func (p *payments) run(ctx context.Context) {
	var work sync.WaitGroup
	work.Go(func() { p.former.run(ctx) })
	p.Service.Run(ctx)
	work.Wait()
}

// startRetry is how long a payment waits while the service is starting, and when to pay again.
const startRetry = 2 * time.Second

// countedPayments tells how attempts ended.
type countedPayments struct {
	*payments
	offer string
	count func(offer string, status x402.Status)
	// told is closed once the address of a receipt's page can be told.
	told <-chan struct{}
}

// Pay counts the outcome of an attempt. Nobody pays before the address of the
// receipt can be told, so that whoever asks again gets the same answer.
func (p countedPayments) Pay(ctx context.Context, a x402.Attempt) x402.Outcome {
	outcome := x402.Outcome{Status: x402.Unavailable, Detail: "the service is starting, and did not look at the payment", RetryAfter: startRetry}
	select {
	case <-p.told:
		outcome = p.payments.Pay(ctx, a)
	case <-ctx.Done():
	case <-time.After(startRetry):
	}
	p.count(p.offer, outcome.Status)
	return outcome
}
