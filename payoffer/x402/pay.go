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
	// lookWait bounds how long a buyer waits for a ledger that does not answer.
	lookWait = 5 * time.Second
	// withdrawTries, withdrawFirst and withdrawWait bound how often it is tried to take
	// back an intent that may have been committed, the pauses, which double, and one try.
	withdrawTries = 4
	withdrawFirst = 250 * time.Millisecond
	withdrawWait  = 5 * time.Second
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
	end, held := s.begin()
	if !held {
		return p.unreadable()
	}
	defer end()
	leave, err := s.gate.enter(ctx, p.key())
	if err != nil {
		return p.unavailable("request_canceled", retryOpen)
	}
	defer leave()
	checked := s.check(p)
	looked, err := s.lookUp(ctx, p)
	switch {
	case err != nil:
		return p.unreadable()
	case looked.Known != nil:
		leave()
		return s.replay(ctx, p, *looked.Known)
	}
	p.since = looked.Since
	rail, refused := checked()
	if refused != nil {
		return p.outcome(Refused, refused.reason, refused.detail)
	}
	if delay := s.Limiter.wait(a.Client, s.Now()); delay > 0 {
		limited := p.outcome(Limited, "rate_limited", "Too many payment attempts; this one was not sent. Send the same payment again later.")
		limited.RetryAfter = delay
		return limited
	}
	if refused := s.prove(ctx, p, rail); refused != nil {
		return p.outcome(Refused, refused.reason, refused.detail)
	}
	other, found, err := s.before(ctx, p, rail, looked.Ahead)
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

// NotYet answers an attempt while the ledger is not open: whoever has a payment may have
// sent it before.
func (s *Service) NotYet(a Attempt, retryAfter time.Duration) Outcome {
	p, err := decodePayment(a.Payload)
	if err != nil {
		return Outcome{Status: Unavailable, Detail: "The service is starting, and did not look at the payment.", RetryAfter: retryAfter}
	}
	o := p.unreadable()
	o.RetryAfter = retryAfter
	return o
}

// lookUp asks the ledger about a payment, for as long as its buyer may be kept waiting.
func (s *Service) lookUp(ctx context.Context, p *payment) (ledger.Look, error) {
	ctx, cancel := context.WithTimeout(ctx, lookWait)
	defer cancel()
	return s.Ledger.Look(ctx, ledger.Intent{IntentKey: p.key(), Offer: s.Offer.ID, PaymentID: p.paymentID, ValidBefore: p.validBefore()})
}

// replay answers a payload whose authorization the ledger knows.
func (s *Service) replay(ctx context.Context, p *payment, intent ledger.Intent) Outcome {
	if intent.Fingerprint != p.fingerprint() || intent.Offer != s.Offer.ID {
		return p.outcome(Conflict, "authorization_in_use",
			"This authorization was sent before with another content or signature, or to another offer. Send the first payload again to get its answer.")
	}
	for deadline := time.After(waitWinner); intent.State == ledger.IntentSettling && intent.Leased(s.Now()); {
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

// charge has a new payment verified by a facilitator, commits its intent and
// submits it on a context of its own. committed is called when the ledger
// knows the payment.
func (s *Service) charge(ctx context.Context, p *payment, rail *Rail, funded bool, committed func()) Outcome {
	candidates, rest := rail.candidates(p.version)
	if len(candidates) == 0 {
		return p.unavailable("facilitator_unavailable", rest)
	}
	intent := s.newIntent(p, rail, "") // to whom it goes is known later
	request := facilitatorRequest{p.version, intent.Payload, intent.Requirement}
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
	intent.Facilitator, intent.LeaseUntil = facilitators[0].Host(), s.Now().Add(leaseFor(rail)).Unix()
	failpoint.Hit(failpoint.PayBeforeIntent)
	if err := s.Ledger.InsertIntent(ctx, intent); err != nil {
		if !s.refusal(err) {
			// The request waits for it, inside the gate: whoever sends the same payment again
			// has the same owner here, and an intent that is being settled must not be taken back.
			s.withdraw(context.WithoutCancel(ctx), intent.IntentKey)
		}
		committed()
		return s.notCommitted(ctx, p, intent, err)
	}
	failpoint.Hit(failpoint.PayAfterIntent)
	committed()
	done := make(chan Outcome, 1)
	end, _ := s.begin() // Pay holds the ledger now
	go func() {
		defer end()
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

// refusal reports whether an error of InsertIntent says that certainly no intent was
// committed.
func (s *Service) refusal(err error) bool {
	var exists *ledger.IntentExistsError
	var conflict *ledger.ConflictError
	return errors.As(err, &exists) || errors.As(err, &conflict) || errors.Is(err, ledger.ErrPaymentID)
}

// withdraw takes back an intent that may have been committed although the ledger did not
// say so, and of which nothing was sent: it would keep its payer from paying until
// somebody decides it. The commit may come late.
func (s *Service) withdraw(ctx context.Context, key ledger.IntentKey) {
	wait := withdrawFirst
	for range withdrawTries {
		time.Sleep(wait) // ctx has no end
		wait *= 2
		err := s.withdrawOnce(ctx, key)
		if err == nil || errors.Is(err, ledger.ErrIntentState) || errors.Is(err, ledger.ErrNotOpen) {
			return
		}
	}
}

func (s *Service) withdrawOnce(ctx context.Context, key ledger.IntentKey) error {
	ctx, cancel := context.WithTimeout(ctx, withdrawWait)
	defer cancel()
	return s.Ledger.WithdrawIntent(ctx, key, s.Owner)
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
func (s *Service) notCommitted(ctx context.Context, p *payment, i ledger.Intent, err error) Outcome {
	var exists *ledger.IntentExistsError
	var conflict *ledger.ConflictError
	switch {
	case errors.As(err, &exists):
		return s.replay(ctx, p, exists.Existing)
	case errors.As(err, &conflict) && !p.proven:
		return s.reject(ctx, p, i, conflict.Other)
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
