package x402

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/failpoint"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/accounting"
)

const (
	// pollWinner is how often the loser of a race reads the winner's outcome, and waitWinner for how long.
	pollWinner = 100 * time.Millisecond
	waitWinner = 20 * time.Second
	// lookUpTimeout bounds how long a payer waits for a ledger that does not answer.
	lookUpTimeout = 5 * time.Second
	// An intent that may have been committed is withdrawn with retries; the pauses double.
	withdrawTries   = 4
	withdrawFirst   = 250 * time.Millisecond
	withdrawTimeout = 5 * time.Second
)

// Verified is a payment that can be charged: it was checked and verified, and the ledger does not have it yet.
type Verified struct {
	Rail  string // the rail's name
	Payer string // the address of the wallet, in lower case
	// Charge commits the intent, has the payment settled, and releases it. It charges nothing after Release.
	Charge func(ctx context.Context) Outcome
	// Release lets other requests use the authorization and, of a deferred payment, its payer. It may be called again.
	// A deferred payment is released when its authorization ends, and after five minutes at the latest.
	Release func()
}

// Pay takes one payment. The order ensures that it is never charged twice: read the ledger, check
// the payment here, ask a facilitator to verify it, commit an intent, ask the facilitator to
// settle it. A payload that the ledger has gets its stored answer.
func (s *Service) Pay(ctx context.Context, a Attempt) Outcome {
	verified, answer := s.Verify(ctx, a)
	if verified == nil {
		return answer
	}
	return verified.Charge(ctx)
}

// Verify does what comes before the intent. It returns the payment, which the caller charges or releases, or its answer.
// It commits nothing: until Charge or Release, locks of this process keep the payment from other requests.
func (s *Service) Verify(ctx context.Context, a Attempt) (v *Verified, answer Outcome) {
	p, err := a.decode()
	if err != nil {
		return nil, Outcome{Status: Malformed, Reason: "invalid_payload", Detail: "The payment payload cannot be used: " + err.Error() + "."}
	}
	failpoint.Hit(failpoint.PayDecoded)
	end, held := s.begin()
	if !held {
		return nil, p.ledgerUnavailable()
	}
	releases := []func(){end}
	release := sync.OnceFunc(func() {
		for _, each := range slices.Backward(releases) {
			each()
		}
	})
	defer func() {
		if v == nil {
			release()
		}
	}()
	unlock, _, err := s.locks.lock(ctx, p.key())
	if err != nil {
		return nil, p.unavailable("request_canceled", retryOpen)
	}
	releases = append(releases, unlock)
	lookup, err := s.lookUp(ctx, p)
	switch {
	case err != nil:
		return nil, p.ledgerUnavailable()
	case lookup.Known != nil:
		unlock()
		return nil, s.replay(ctx, p, *lookup.Known)
	}
	p.since = lookup.Since
	rail, refused := s.check(p)
	if refused != nil {
		return nil, p.answer(*refused)
	}
	if delay := s.Limiter.TakeAttempt(a.Client, s.Now()); delay > 0 {
		limited := p.outcome(Limited, "rate_limited", "Too many payment attempts came from this network, so this one was not sent.")
		limited.RetryAfter = delay
		return nil, limited
	}
	if refused := s.prove(ctx, p, rail); refused != nil {
		return nil, p.answer(*refused)
	}
	first := lookup.Conflicting
	if p.deferred = a.Deferred; p.deferred {
		endRun, other, answer := s.beginRun(ctx, p, first)
		if answer != nil {
			return nil, *answer
		}
		releases, first = append(releases, endRun), other
	}
	other, conflicts, err := s.conflicting(ctx, p, rail, first)
	switch {
	case err != nil:
		return nil, p.ledgerUnavailable()
	case conflicts && other.IntentKey == p.key().Canonical(): // another instance has taken it since
		unlock()
		return nil, s.replay(ctx, p, other)
	case conflicts:
		return nil, s.recordRejection(ctx, p, other)
	}
	found, err := s.inspect(ctx, p, rail, a.Refuse)
	switch {
	case err != nil:
		return nil, p.ledgerUnavailable()
	case found.event != "":
		return nil, s.enter(ctx, p, rail, found)
	}
	intent, facilitators, answered := s.verifyNew(ctx, p, rail, found.funded)
	if answered != nil {
		return nil, *answered
	}
	var over atomic.Bool // it is charged or released
	v = &Verified{Rail: rail.USDC.Name(), Payer: strings.ToLower(p.authorization.From)}
	v.Charge = func(ctx context.Context) Outcome {
		if over.Swap(true) {
			return p.unavailable("application_slow", retrySoon)
		}
		defer release()
		return s.charge(ctx, p, rail, intent, facilitators, unlock)
	}
	v.Release = func() {
		if !over.Swap(true) {
			release()
		}
	}
	if p.deferred { // a client that keeps the application waiting must not keep others out
		ends := time.Unix(p.validBefore(), 0).Sub(s.Now()) - settleMargin
		timer := time.AfterFunc(maxTimeoutSeconds*time.Second, v.Release)
		releases = append(releases, func() { timer.Stop() })
		timer.Reset(min(ends, maxTimeoutSeconds*time.Second))
	}
	return v, Outcome{}
}

// NotReady answers an attempt while the ledger is not open. The payment may have been sent before.
func (s *Service) NotReady(a Attempt, retryAfter time.Duration) Outcome {
	p, err := decodePayment(a.Payload)
	if err != nil {
		return Outcome{Status: Unavailable, Detail: "The service is starting and did not read the payment.", RetryAfter: retryAfter}
	}
	o := p.ledgerUnavailable()
	o.RetryAfter = retryAfter
	return o
}

func (s *Service) lookUp(ctx context.Context, p *payment) (ledger.Lookup, error) {
	ctx, cancel := context.WithTimeout(ctx, lookUpTimeout)
	defer cancel()
	return s.Ledger.LookUp(ctx, ledger.Intent{IntentKey: p.key(), Offer: s.Offer.ID, PaymentID: p.paymentID, ValidBefore: p.validBefore()})
}

// replay answers a payload whose authorization the ledger has. If another request is settling it, replay waits for the outcome.
func (s *Service) replay(ctx context.Context, p *payment, intent ledger.Intent) Outcome {
	if intent.Fingerprint != p.fingerprint() || intent.Offer != s.Offer.ID {
		return p.outcome(Conflict, "authorization_in_use",
			"This authorization was sent before with other content, another signature or to another offer. Send that first payload again to get its outcome.")
	}
	for deadline := time.After(waitWinner); intent.State == ledger.IntentSettling && intent.Leased(s.Now()); {
		select {
		case <-ctx.Done():
			return p.outcomeOf(intent)
		case <-deadline:
			return s.recordAnswer(ctx, p, intent, false)
		case <-time.After(pollWinner):
		}
		stored, known, err := s.Ledger.Intent(ctx, p.key())
		if err != nil {
			return p.ledgerUnavailable()
		}
		if !known {
			// It was withdrawn: nothing was sent.
			return p.unavailable("facilitator_unavailable", retryOpen)
		}
		intent = stored
	}
	return s.recordAnswer(ctx, p, s.storeAnswer(ctx, intent), false)
}

// verifyNew has a new payment verified by a facilitator. It returns the intent to commit with the facilitators that can
// settle it, or the answer.
func (s *Service) verifyNew(ctx context.Context, p *payment, rail *Rail, funded bool) (i ledger.Intent, facilitators []*Facilitator, answer *Outcome) {
	candidates := rail.candidates(p.version)
	if len(candidates) == 0 {
		return i, nil, new(p.unavailable("facilitator_unavailable", retryOpen))
	}
	i = s.newIntent(p, rail)
	i.Secret = p.secret // only here: an authorization that is not sent now may be public already
	facilitators, refused, code := s.verify(ctx, candidates, facilitatorRequest{p.version, i.Payload, i.Requirement}, funded)
	switch {
	case refused != nil:
		found, err := s.inspectDeclined(ctx, p, rail, *refused)
		if err != nil {
			return i, nil, new(p.ledgerUnavailable())
		}
		return i, nil, new(s.enter(ctx, p, rail, found))
	case len(facilitators) == 0:
		return i, nil, new(p.unavailable(code, retryOpen))
	case s.checkTimes(p) != nil:
		// It has expired while the facilitator verified it.
		return i, nil, new(p.unavailable("facilitator_slow", retrySoon))
	}
	failpoint.Hit(failpoint.PayVerified)
	return i, facilitators, nil
}

// charge commits the intent of a verified payment and submits it in the background. It calls committed when the ledger
// has the payment.
func (s *Service) charge(ctx context.Context, p *payment, rail *Rail, intent ledger.Intent, facilitators []*Facilitator, committed func()) Outcome {
	if p.deferred && s.checkTimes(p) != nil {
		return p.unavailable("application_slow", retrySoon)
	}
	intent.Facilitator, intent.LeaseUntil = facilitators[0].Host(), s.Now().Add(leaseFor(rail)).Unix()
	failpoint.Hit(failpoint.PayBeforeIntent)
	if err := s.Ledger.InsertIntent(ctx, intent); err != nil {
		if !certainlyNotCommitted(err) {
			// It still holds the lock. Otherwise the same payload could be taken
			// again meanwhile, with the same owner, and withdrawn while it is settled.
			s.withdraw(context.WithoutCancel(ctx), intent.IntentKey)
		}
		committed()
		return s.afterInsertError(ctx, p, intent, err)
	}
	failpoint.Hit(failpoint.PayAfterIntent)
	p.byPayer = true
	committed()
	done := make(chan Outcome, 1)
	end, _ := s.begin() // never fails, because Verify holds the ledger
	go func() {
		defer end()
		settled, sent := s.submit(context.WithoutCancel(ctx), rail, intent, facilitators)
		if !sent {
			done <- p.unavailable("facilitator_unavailable", retryOpen)
			return
		}
		done <- s.recordAnswer(ctx, p, settled, true)
	}()
	select {
	case outcome := <-done:
		return outcome
	case <-ctx.Done():
		return p.outcomeOf(intent)
	}
}

// certainlyNotCommitted reports whether an error of InsertIntent says that there is no row.
func certainlyNotCommitted(err error) bool {
	var exists *ledger.IntentExistsError
	var conflict *ledger.ConflictError
	return errors.As(err, &exists) || errors.As(err, &conflict) || errors.Is(err, ledger.ErrPaymentID)
}

// withdraw deletes an intent that was not sent, and that may have been committed although the
// ledger returned an error. It would block its payer. The commit may come late, so it retries.
func (s *Service) withdraw(ctx context.Context, key ledger.IntentKey) {
	for wait, n := withdrawFirst, 0; n < withdrawTries; wait, n = 2*wait, n+1 {
		time.Sleep(wait) // ctx has no end
		ctx, cancel := context.WithTimeout(ctx, withdrawTimeout)
		_, err := s.Ledger.Apply(ctx, key, ledger.IntentChange{Event: accounting.EventNotSent, Owner: s.Owner})
		cancel()
		if err == nil || errors.Is(err, ledger.ErrIntentState) || errors.Is(err, ledger.ErrNotOpen) {
			return
		}
	}
}

// verify asks the facilitators in order until one replies. It returns that one and those after it,
// or none and a code if there was no usable reply.
func (s *Service) verify(ctx context.Context, candidates []*Facilitator, r facilitatorRequest, funded bool) (ready []*Facilitator, refused *reply, code string) {
	code = "facilitator_unavailable"
	for i, f := range candidates {
		said, err := f.verify(ctx, r, funded)
		switch {
		case ctx.Err() != nil:
			return nil, nil, code // the client left
		case err != nil:
			s.Logger.Warn("facilitator did not verify a payment", "facilitator", f.Host(), "error", err.Error(), "reply", said.rejection, "hint", hintVerify)
			if strings.HasPrefix(err.Error(), "unexpected_") {
				code = err.Error()
			}
		case !said.yes:
			s.Logger.Info("facilitator rejected a payment", "facilitator", f.Host(), "reason", said.reason, "message", said.message, "reply", said.rejection)
			return nil, &said, code
		default:
			return candidates[i:], nil, ""
		}
	}
	return nil, nil, code
}

// newIntent returns the ledger's row of a checked payment that was sent to no facilitator.
func (s *Service) newIntent(p *payment, rail *Rail) ledger.Intent {
	cents := int64(s.Offer.Amount)
	key, terms := p.key(), &rail.terms
	if p.deferred {
		terms = &rail.deferred
	}
	return ledger.Intent{
		IntentKey: key, Offer: s.Offer.ID, Account: rail.USDC.Account(), Own: s.Own(key.From),
		Amount: rail.amount(), USDCents: &cents, PaymentID: p.paymentID, Fingerprint: p.fingerprint(), Version: p.version,
		Payload: p.rebuild(terms, s.currentlyQuoted().extensions), Requirement: terms.in(p.version),
		ValidBefore: p.validBefore(), Since: p.since,
		Progress: ledger.Progress{State: ledger.IntentSettling, CreatedAt: s.Now().Unix(), Owner: s.Owner, LeaseUntil: s.Now().Add(leaseFor(rail)).Unix()},
	}
}

// afterInsertError answers a payment that the ledger did not take. It was not sent.
func (s *Service) afterInsertError(ctx context.Context, p *payment, i ledger.Intent, err error) Outcome {
	var exists *ledger.IntentExistsError
	var conflict *ledger.ConflictError
	switch {
	case errors.As(err, &exists):
		return s.replay(ctx, p, exists.Existing)
	case errors.As(err, &conflict) && !p.proven:
		return s.reject(ctx, p, i, conflict.Other)
	case errors.As(err, &conflict):
		return s.recordRejection(ctx, p, conflict.Other)
	case errors.Is(err, ledger.ErrPaymentID):
		return p.answer(assessment{event: accounting.EventIDInUse, reason: "payment_identifier_in_use",
			detail: "This payment was not sent, because its payment identifier belongs to another one, which may have been charged. " +
				"Send that one again; do not sign a new one."})
	default:
		s.Logger.Error("payment refused: ledger cannot store it", "error", err.Error(), "hint", hintLedger)
		return p.unavailable("ledger_unavailable", retryOpen)
	}
}
