package x402

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/failpoint"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

const (
	// retryOpen is when a client should ask again for an unknown outcome.
	retryOpen = 10 * time.Second
	// pollWinner is how often the loser of a race looks for the answer.
	pollWinner = 100 * time.Millisecond
	// waitWinner is how long the loser waits before it is told to come back.
	waitWinner = 20 * time.Second
)

// Pay takes one payment through the order that keeps it from being charged
// twice: the ledger is asked before anything else, the payment is checked
// here, then by a facilitator, then an intent is committed, then it is
// settled. A known payload gets its stored answer, whatever has changed since.
func (s *Service) Pay(ctx context.Context, a Attempt) Outcome {
	p, err := decodePayment(a.Payload)
	if err != nil {
		return Outcome{Status: Malformed, Reason: "invalid_payload", Detail: "The payment payload is not usable: " + err.Error() + "."}
	}
	failpoint.Hit(failpoint.PayDecoded)
	leave, err := s.gate.enter(ctx, p.key())
	if err != nil {
		return s.unavailable(p, "request_canceled")
	}
	defer leave()
	intent, known, err := s.ledger.Intent(ctx, p.key())
	switch {
	case err != nil:
		return s.unknown(p)
	case known:
		leave()
		return s.replay(ctx, p, intent)
	}
	rail, refused := s.verify(p)
	if refused != nil {
		return Outcome{Status: Refused, Version: p.version, Reason: refused.reason, Detail: refused.detail}
	}
	candidates, rest := s.candidates(rail, p.version)
	if len(candidates) == 0 {
		return s.facilitatorless(p, rest)
	}
	if delay := s.limiter.wait(a.Client, s.now()); delay > 0 {
		return Outcome{Status: Limited, Version: p.version, Reason: "rate_limited", RetryAfter: delay,
			Detail: "Too many payment attempts; nothing was charged. Send the same payment again later."}
	}
	return s.settleNew(ctx, p, rail, candidates, leave)
}

// replay answers a payload whose authorization the ledger knows.
func (s *Service) replay(ctx context.Context, p *payment, intent ledger.Intent) Outcome {
	if intent.Fingerprint != p.fingerprint() || intent.Offer != s.offer.ID {
		return Outcome{Status: Conflict, Version: p.version, Reason: "authorization_in_use",
			Detail: "This authorization was sent before with another content or signature, or to another offer. Send the first payload again to get its answer."}
	}
	ticker := time.NewTicker(pollWinner)
	defer ticker.Stop()
	for deadline := time.After(waitWinner); intent.State == ledger.IntentSettling && s.leased(intent); {
		select {
		case <-ctx.Done():
			return s.answer(p, intent)
		case <-deadline:
			return s.answer(p, intent)
		case <-ticker.C:
		}
		stored, known, err := s.ledger.Intent(ctx, p.key())
		if err != nil {
			return s.unknown(p)
		}
		if !known {
			// It was withdrawn: nothing was sent.
			return s.unavailable(p, "facilitator_unavailable")
		}
		intent = stored
	}
	return s.answer(p, s.complete(ctx, intent))
}

// leased reports whether somebody is at work on the intent.
func (s *Service) leased(i ledger.Intent) bool { return i.LeaseUntil > s.now().Unix() }

// settleNew verifies an unknown payment with a facilitator, commits the intent
// and settles it on a context of its own. admitted is called when the ledger
// knows the payment.
func (s *Service) settleNew(ctx context.Context, p *payment, rail *Rail, candidates []*Facilitator, admitted func()) Outcome {
	request := facilitatorRequest{X402Version: p.version, PaymentPayload: p.raw, PaymentRequirements: rail.terms.in(p.version)}
	facilitators, refused, err := s.verifyRemotely(ctx, candidates, request)
	switch {
	case err != nil:
		_, rest := s.candidates(rail, p.version)
		return s.facilitatorless(p, max(rest, retryOpen))
	case refused == nil:
		refused = s.timely(p.authorization) // a slow facilitator may have used its time up
	}
	if refused != nil {
		return Outcome{Status: Refused, Version: p.version, Reason: refused.reason, Detail: refused.detail}
	}
	failpoint.Hit(failpoint.PayVerified)
	intent := s.intent(p, rail, request, facilitators[0])
	s.settling.begin()
	failpoint.Hit(failpoint.PayBeforeIntent)
	if err := s.ledger.InsertIntent(ctx, intent); err != nil {
		s.settling.end()
		admitted()
		return s.notInserted(ctx, p, err)
	}
	failpoint.Hit(failpoint.PayAfterIntent)
	admitted()
	done := make(chan Outcome, 1)
	go func() {
		defer s.settling.end()
		done <- s.settle(context.WithoutCancel(ctx), p, rail, intent, facilitators)
	}()
	select {
	case outcome := <-done:
		return outcome
	case <-ctx.Done():
		return s.answer(p, intent)
	}
}

// errNoFacilitator says that none gave a usable answer.
var errNoFacilitator = errors.New("no facilitator answers")

// verifyRemotely asks facilitators in order until one answers. It returns that
// one and those after it.
func (s *Service) verifyRemotely(ctx context.Context, candidates []*Facilitator, r facilitatorRequest) ([]*Facilitator, *refusal, error) {
	for i, f := range candidates {
		if !f.health.admit(s.now(), f.timeout) {
			continue // another request tries it
		}
		valid, reason, err := f.verify(ctx, r)
		switch {
		case ctx.Err() != nil:
			return nil, nil, ctx.Err() // the client left; that says nothing of the facilitator
		case err != nil:
			s.log.Warn("facilitator gave no answer", "facilitator", f.Host(), "call", "verify", "error", err.Error())
		case !valid:
			return nil, &refusal{reason, "The facilitator does not accept this payment; nothing was charged."}, nil
		default:
			return candidates[i:], nil, nil
		}
	}
	return nil, nil, errNoFacilitator
}

func (s *Service) intent(p *payment, rail *Rail, request facilitatorRequest, f *Facilitator) ledger.Intent {
	// The amount is ours and the deadline is bounded: both were checked.
	amount, _ := strconv.ParseInt(p.authorization.Value, 10, 64)
	validBefore, _ := strconv.ParseInt(p.authorization.ValidBefore, 10, 64)
	cents := int64(s.offer.Amount)
	key := p.key()
	return ledger.Intent{
		IntentKey: key, Offer: s.offer.ID, Account: rail.USDC.Account(), Own: s.own(key.From),
		Amount: amount, USDCents: &cents, PaymentID: p.paymentID, Fingerprint: p.fingerprint(), Version: p.version,
		Payload: request.PaymentPayload, Requirement: request.PaymentRequirements, Facilitator: f.Host(),
		ValidBefore: validBefore, State: ledger.IntentSettling,
		Owner: s.owner, LeaseUntil: s.now().Add(leaseFor(rail)).Unix(),
	}
}

// notInserted answers for an intent that the ledger did not take; nothing was
// sent for it.
func (s *Service) notInserted(ctx context.Context, p *payment, err error) Outcome {
	var exists *ledger.IntentExistsError
	var conflict *ledger.ConflictError
	switch {
	case errors.As(err, &exists):
		return s.replay(ctx, p, exists.Existing)
	case errors.As(err, &conflict):
		return Outcome{Status: Open, Version: p.version, Reason: "payer_has_open_payment", Intent: conflict.Open.Nonce, RetryAfter: retryOpen,
			Detail: "Another payment of this payer is not decided yet; this one was not sent. Send the first one again to learn its outcome."}
	case errors.Is(err, ledger.ErrPaymentID):
		return Outcome{Status: Conflict, Version: p.version, Reason: "payment_identifier_in_use",
			Detail: "The payment identifier belongs to another payment, which may have been charged; this one was not sent."}
	default:
		s.log.Error("payment not taken: the intent could not be committed", "error", err.Error())
		return s.unavailable(p, "ledger_unavailable")
	}
}

// answer renders what the ledger knows of a payment in the dialect asked.
func (s *Service) answer(p *payment, i ledger.Intent) Outcome {
	switch i.State {
	case ledger.IntentSettled:
		evidence := "claimed"
		if i.Evidence == ledger.EvidenceChain {
			evidence = "seen"
		}
		outcome := Outcome{Status: Settled, Version: p.version, Evidence: evidence, Response: response(p.version, i)}
		if i.USDCents != nil {
			outcome.AmountUSD = offer.USD(*i.USDCents)
		}
		return outcome
	case ledger.IntentRefused:
		return Outcome{Status: Refused, Version: p.version, Reason: i.Reason, Detail: "This payment did not happen and cannot happen any more; nothing was charged. Sign a new one.",
			Response: &SettleResponse{ErrorReason: i.Reason, Network: networkIn(p.version, i.Network), Payer: i.From}}
	default:
		return Outcome{Status: Open, Version: p.version, Reason: "settlement_unknown", Intent: i.Nonce, RetryAfter: retryOpen,
			Detail: "The payment was sent and its outcome is not known yet. Do not sign another one: send the same payment again until it is answered."}
	}
}

// response is the stored settle response, or the one that the chain's evidence
// amounts to.
func response(version int, i ledger.Intent) *SettleResponse {
	r := &SettleResponse{Success: true, Transaction: i.Transaction, Payer: i.From, Amount: strconv.FormatInt(i.Amount, 10)}
	if i.Answer != nil {
		// The answer is one that was rendered here.
		_ = json.Unmarshal(i.Answer, r)
	}
	if i.Transaction != "" {
		// The chain may have mined it under another hash than was claimed.
		r.Transaction = i.Transaction
	}
	r.Network = networkIn(version, i.Network)
	if version == 1 {
		r.Extensions = nil // they are of version 2
	}
	return r
}

// networkIn names a network in a dialect: by CAIP-2 id or by chain name.
func networkIn(version int, caip2 string) string {
	if version != 1 {
		return caip2
	}
	network, err := offer.LookupNetwork(caip2)
	if err != nil {
		return caip2
	}
	return network.Name
}

// facilitatorless answers where nobody could be asked to settle.
func (s *Service) facilitatorless(p *payment, retryAfter time.Duration) Outcome {
	outcome := s.unavailable(p, "facilitator_unavailable")
	outcome.RetryAfter = retryAfter
	return outcome
}

// unknown answers for a payment of which nobody can tell whether it was sent
// before: the ledger, which would know, cannot be read.
func (s *Service) unknown(p *payment) Outcome {
	return Outcome{Status: Open, Version: p.version, Reason: "ledger_unavailable", RetryAfter: retryOpen,
		Detail: "The books cannot be read at the moment. It was not sent now; whether it was sent before is not known."}
}

func (s *Service) unavailable(p *payment, reason string) Outcome {
	return Outcome{Status: Unavailable, Version: p.version, Reason: reason, RetryAfter: retryOpen,
		Detail: "The payment cannot be taken at the moment. It was not sent and nothing was charged; send the same payment again later."}
}
