package x402

import (
	"context"
	"errors"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/failpoint"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
)

const (
	// pollWinner is how often the loser of a race looks for the outcome.
	pollWinner = 100 * time.Millisecond
	// waitWinner is how long the loser waits before it is told to come back.
	waitWinner = 20 * time.Second
)

// Pay takes one payment through the order that keeps it from being charged
// twice: the ledger is asked before anything else, the payment is checked
// here, then verified by a facilitator, then an intent is committed, then it
// is submitted to settlement. A known payload gets its stored answer, whatever
// has changed since.
func (s *Service) Pay(ctx context.Context, a Attempt) Outcome {
	p, err := decodePayment(a.Payload)
	if err != nil {
		return Outcome{Status: Malformed, Reason: "invalid_payload", Detail: "The payment payload is not usable: " + err.Error() + "."}
	}
	failpoint.Hit(failpoint.PayDecoded)
	leave, err := s.gate.enter(ctx, p.key())
	if err != nil {
		return p.unavailable("request_canceled", retryOpen)
	}
	defer leave()
	intent, known, err := s.Ledger.Intent(ctx, p.key())
	switch {
	case err != nil:
		return p.unreadable()
	case known:
		leave()
		return s.replay(ctx, p, intent)
	}
	rail, refused := s.check(p)
	if refused != nil {
		return p.outcome(Refused, refused.reason, refused.detail)
	}
	if delay := s.Limiter.wait(a.Client, s.Now()); delay > 0 {
		limited := p.outcome(Limited, "rate_limited", "Too many payment attempts; this one was not sent. Send the same payment again later.")
		limited.RetryAfter = delay
		return limited
	}
	other, found, err := s.before(ctx, p, rail)
	switch {
	case err != nil:
		return p.unreadable()
	case found && other.IntentKey == p.key().Canonical(): // another instance has taken it since
		leave()
		return s.replay(ctx, p, other)
	case found:
		return s.behind(ctx, p, other)
	}
	funded, answer := s.look(ctx, p, rail, a.Refuse)
	if answer != nil {
		return *answer
	}
	return s.charge(ctx, p, rail, funded, leave)
}

// replay answers a payload whose authorization the ledger knows.
func (s *Service) replay(ctx context.Context, p *payment, intent ledger.Intent) Outcome {
	if intent.Fingerprint != p.fingerprint() || intent.Offer != s.Offer.ID {
		return p.outcome(Conflict, "authorization_in_use",
			"This authorization was sent before with another content or signature, or to another offer. Send the first payload again to get its answer.")
	}
	for deadline := time.After(waitWinner); intent.State == ledger.IntentSettling && s.leased(intent); {
		select {
		case <-ctx.Done():
			// It may have been anybody's: the answer to the first one counts.
			return p.outcomeOf(intent)
		case <-deadline:
			return s.told(ctx, p, intent, false)
		case <-time.After(pollWinner):
		}
		stored, known, err := s.Ledger.Intent(ctx, p.key())
		if err != nil {
			return p.unreadable()
		}
		if !known {
			// It was withdrawn: nothing was sent.
			return p.unavailable("facilitator_unavailable", retryOpen)
		}
		intent = stored
	}
	return s.told(ctx, p, s.ensureAnswer(ctx, intent), false)
}

// leased reports whether somebody is at work on the intent.
func (s *Service) leased(i ledger.Intent) bool { return i.LeaseUntil > s.Now().Unix() }

// charge has a new payment verified by a facilitator, commits its intent and
// submits it on a context of its own. committed is called when the ledger
// knows the payment.
func (s *Service) charge(ctx context.Context, p *payment, rail *Rail, funded bool, committed func()) Outcome {
	candidates, rest := rail.candidates(p.version)
	if len(candidates) == 0 {
		return p.unavailable("facilitator_unavailable", rest)
	}
	request := facilitatorRequest{p.version, p.rebuilt(&rail.terms, *s.extensions.Load()), rail.terms.in(p.version)}
	facilitators, refused := s.verify(ctx, candidates, request, funded)
	switch {
	case refused != nil:
		return s.declined(ctx, p, rail, *refused)
	case len(facilitators) == 0:
		return p.unavailable("facilitator_unavailable", retryOpen)
	case s.checkTimes(p.authorization) != nil:
		// A slow facilitator has used its time up.
		return p.unavailable("facilitator_slow", retrySoon)
	}
	failpoint.Hit(failpoint.PayVerified)
	intent := s.newIntent(p, rail, facilitators[0].Host())
	s.underWay.begin()
	failpoint.Hit(failpoint.PayBeforeIntent)
	if err := s.Ledger.InsertIntent(ctx, intent); err != nil {
		s.underWay.end()
		committed()
		return s.notCommitted(ctx, p, err)
	}
	failpoint.Hit(failpoint.PayAfterIntent)
	committed()
	done := make(chan Outcome, 1)
	go func() {
		defer s.underWay.end()
		settled, sent := s.submit(context.WithoutCancel(ctx), rail, intent, facilitators)
		if !sent {
			done <- p.unavailable("facilitator_unavailable", retryOpen)
			return
		}
		done <- s.told(ctx, p, settled, true)
	}()
	select {
	case outcome := <-done:
		return outcome
	case <-ctx.Done():
		return p.outcomeOf(intent)
	}
}

// verify asks facilitators in order until one replies. It returns that one and
// those after it, none where nobody gave a usable reply.
func (s *Service) verify(ctx context.Context, candidates []*Facilitator, r facilitatorRequest, funded bool) ([]*Facilitator, *refusal) {
	for i, f := range candidates {
		said, err := f.verify(ctx, r, funded)
		s.heard(ctx, f, callVerify, said.listing)
		switch {
		case ctx.Err() != nil:
			return nil, nil // the client left; that says nothing of the facilitator
		case err != nil:
			s.Logger.Warn("facilitator gave no answer", "facilitator", f.Host(), "call", callVerify, "error", err.Error())
		case !said.valid:
			return nil, &refusal{reason: said.reason, detail: "The facilitator does not accept this payment." + says(said.message)}
		default:
			return candidates[i:], nil
		}
	}
	return nil, nil
}

// newIntent is the ledger's row of a payment that was checked. facilitator is
// the host of the one that is to settle it, "" for nobody.
func (s *Service) newIntent(p *payment, rail *Rail, facilitator string) ledger.Intent {
	cents := int64(s.Offer.Amount)
	key := p.key()
	return ledger.Intent{
		IntentKey: key, Offer: s.Offer.ID, Account: rail.USDC.Account(), Own: s.Own(key.From),
		Amount: rail.amount(), USDCents: &cents, PaymentID: p.paymentID, Fingerprint: p.fingerprint(), Version: p.version,
		Payload: p.rebuilt(&rail.terms, *s.extensions.Load()), Requirement: rail.terms.in(p.version), Facilitator: facilitator,
		ValidBefore: p.validBefore(), State: ledger.IntentSettling,
		Since: p.since, CreatedAt: s.Now().Unix(), Owner: s.Owner, LeaseUntil: s.Now().Add(leaseFor(rail)).Unix(),
	}
}

// notCommitted answers a payment whose intent the ledger did not take; nothing
// was sent for it.
func (s *Service) notCommitted(ctx context.Context, p *payment, err error) Outcome {
	var exists *ledger.IntentExistsError
	var conflict *ledger.ConflictError
	switch {
	case errors.As(err, &exists):
		return s.replay(ctx, p, exists.Existing)
	case errors.As(err, &conflict):
		return s.behind(ctx, p, conflict.Other)
	case errors.Is(err, ledger.ErrPaymentID):
		return p.outcome(Conflict, "payment_identifier_in_use",
			"The payment identifier belongs to another payment, which may have been charged; this one was not sent. Send that one again, and sign no new one.")
	default:
		s.Logger.Error("payment not taken: the intent could not be committed", "error", err.Error())
		return p.unavailable("ledger_unavailable", retryOpen)
	}
}
