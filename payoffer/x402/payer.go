package x402

import (
	"context"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/accounting"
)

// One purchase, one charge: a client that does not know the outcome of its payment may sign
// another one. While one payment of a payer is open, no other one is sent. A charge is the response
// to the payer's other authorizations until the payer has got a 200 for it.

const (
	// acknowledgeWait is how long to wait until the ledger has recorded that a 200 was written. A
	// stranger may have asked for that 200 and not read it.
	acknowledgeWait = 2 * time.Second
	// acknowledgePoll is the first pause between reads of another instance's record; it doubles.
	acknowledgePoll = 10 * time.Millisecond
)

// conflicting finds the payment because of which a new one with a proven signature is not settled. found is the result
// of the first look-up, or nil. If it is settled, it may be acknowledged by now, or in a moment, because a payer can be
// faster than the record of the 200. If it was open, the new payment gets its outcome in any case.
func (s *Service) conflicting(ctx context.Context, p *payment, rail *Rail, first *ledger.Intent) (other ledger.Intent, found bool, err error) {
	if first == nil || !p.proven || p.isTooLong(s.Now()) {
		// An authorization that is valid for too long is refused and not recorded. If it were
		// recorded, the other charge would be the response to everything that the payer signs until it expires.
		return ledger.Intent{}, false, nil
	}
	if first.State != ledger.IntentSettled {
		return *first, true, nil
	}
	if recorded, writing := s.acknowledging.Load(first.IntentKey); writing {
		select {
		case <-recorded.(chan struct{}):
		case <-time.After(acknowledgeWait):
		case <-ctx.Done():
		}
	} else if first.Owner != s.Owner && s.Now().Unix()-first.UpdatedAt <= int64(acknowledgeWait/time.Second) {
		s.awaitAcknowledgement(ctx, first.IntentKey)
	}
	return s.Ledger.ConflictingPayment(ctx, s.newIntent(p, rail))
}

// awaitAcknowledgement waits until another instance has recorded the 200 for its charge.
func (s *Service) awaitAcknowledgement(ctx context.Context, key ledger.IntentKey) {
	for wait := acknowledgePoll; wait < acknowledgeWait; wait *= 2 {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
		if i, known, err := s.Ledger.Intent(ctx, key); err != nil || !known || i.AcknowledgedAt != 0 {
			return
		}
	}
}

// isOtherPurchase reports whether a payment has a payment identifier that the intent does not have.
func (p *payment) isOtherPurchase(i ledger.Intent) bool {
	return p.paymentID != "" && p.paymentID != i.PaymentID
}

// recordRejection answers a proven payment because of a conflicting one, which records the
// rejection, so that both are never charged.
func (s *Service) recordRejection(ctx context.Context, p *payment, other ledger.Intent) Outcome {
	if !p.isOtherPurchase(other) {
		stored, err := s.Ledger.RecordRejection(ctx, other.IntentKey, p.validBefore())
		if err != nil {
			return p.ledgerUnavailable()
		}
		other = stored
	}
	switch other.State {
	case ledger.IntentSettled:
		p.byPayer = s.isUnused(ctx, p)
		return s.recordAnswer(ctx, p, s.storeAnswer(ctx, other), false)
	case ledger.IntentRefused: // since the look-up
		return p.unavailable("payer_had_open_payment", retrySoon)
	default:
		o := p.answer(assessment{event: accounting.EventPayerOpen, reason: reasonRejected,
			detail: "This payment was not sent, because an earlier one of this payer is not decided yet; its nonce is in 'intent'. " +
				"Send the earlier one again; do not sign a new one."})
		o.Intent = other.Nonce
		return o
	}
}

// isUnused reports whether an authorization can still be used, so that it is not public yet.
func (s *Service) isUnused(ctx context.Context, p *payment) bool {
	if s.checkTimes(p) != nil {
		return false
	}
	rail, _ := s.match(p) // never nil, because the payment was checked
	if rail.Chain == nil {
		return true
	}
	reading, err := rail.Chain.Read(ctx, p.key())
	return err == nil && !reading.Used
}

// recordAnswer answers a payment with an intent: its own, or the one that was charged instead. It records whether the
// payer got the outcome. atOnce says that this answers the request that brought the intent.
func (s *Service) recordAnswer(ctx context.Context, p *payment, i ledger.Intent, atOnce bool) Outcome {
	switch {
	case i.State == ledger.IntentSettling && !atOnce && !(i.Unacknowledged && i.AcknowledgedAt == 0):
		s.logUnrecorded(i, s.Ledger.UnacknowledgeIntent(ctx, i.IntentKey))
	case i.State == ledger.IntentSettled && i.AcknowledgedAt == 0:
		s.acknowledge(ctx, i, p.response, atOnce && !(p.response != nil && p.response.Gated))
	}
	return p.outcomeOf(i)
}

// acknowledge records a charge as acknowledged once its 200 is written completely. The response does not wait for the record.
func (s *Service) acknowledge(ctx context.Context, i ledger.Intent, response *Response, atOnce bool) {
	recorded := make(chan struct{})
	s.acknowledging.Store(i.IntentKey, recorded)
	done := func() {
		s.acknowledging.CompareAndDelete(i.IntentKey, recorded)
		close(recorded)
	}
	response.OnEnd(ctx, func(complete bool) {
		end, held := func() {}, false
		if complete {
			end, held = s.begin()
		}
		if !held {
			done()
			return
		}
		go func() {
			defer end()
			defer done()
			s.logUnrecorded(i, s.Ledger.AcknowledgeIntent(context.WithoutCancel(ctx), i.IntentKey, atOnce))
		}()
	})
}

// logUnrecorded logs that the ledger could not record what the payer was answered. The charge then
// stays the response to the payer's authorizations.
func (s *Service) logUnrecorded(i ledger.Intent, err error) {
	if err != nil {
		s.Logger.Warn("acknowledgement of a payment not recorded", "nonce", i.Nonce, "error", err.Error(), "hint", hintLedger)
	}
}
