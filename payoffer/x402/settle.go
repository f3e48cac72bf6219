package x402

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/failpoint"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
)

const (
	// proofWait is how long a buyer waits for the settlement's transaction to
	// appear on the chain that we read.
	proofWait = 10 * time.Second
	// proofPoll is how often it is looked for.
	proofPoll = 250 * time.Millisecond
	// reasonPending is a facilitator's word for "sent, but not mined yet".
	reasonPending = "settlement_pending"
)

var transactionForm = regexp.MustCompile(`^0x[0-9a-fA-F]{64}$`)

// leaseFor is how long one attempt may work on an intent: every facilitator
// once and one of them twice, the proof, and time to write.
func leaseFor(rail *Rail) time.Duration {
	lease := proofWait + 10*time.Second
	var longest time.Duration
	for _, f := range rail.Facilitators {
		lease += f.timeout
		longest = max(longest, f.timeout)
	}
	return lease + longest
}

// settle sends a committed intent to settlement. The next facilitator is asked
// only where the one before certainly did nothing.
func (s *Service) settle(ctx context.Context, p *payment, rail *Rail, intent ledger.Intent, facilitators []*Facilitator) Outcome {
	request := facilitatorRequest{X402Version: intent.Version, PaymentPayload: intent.Payload, PaymentRequirements: intent.Requirement}
	for _, f := range facilitators {
		if f.Host() != intent.Facilitator {
			if err := s.ledger.MoveIntent(ctx, intent.IntentKey, s.owner, f.Host()); err != nil {
				return s.answer(p, intent)
			}
			intent.Facilitator = f.Host()
		}
		answer, err := s.settleOnce(ctx, f, request)
		var failed *callError
		if errors.As(err, &failed) && failed.notSent {
			s.log.Warn("facilitator could not be asked to settle", "facilitator", f.Host(), "error", failed.code)
			continue
		}
		return s.answer(p, s.conclude(ctx, rail, intent, f, answer, err))
	}
	// Nobody was reached: the payment was not sent, and stays unknown to the
	// ledger, so that the same payload can be sent again.
	if err := s.ledger.WithdrawIntent(ctx, intent.IntentKey, s.owner); err != nil {
		return s.answer(p, intent)
	}
	return s.unavailable(p, "facilitator_unavailable")
}

// settleOnce asks a facilitator to settle, and repeats the identical request
// once when the answer is that the transaction waits to be mined.
func (s *Service) settleOnce(ctx context.Context, f *Facilitator, r facilitatorRequest) (settleAnswer, error) {
	failpoint.Hit(failpoint.SettleBefore)
	answer, err := f.settle(ctx, r)
	failpoint.Hit(failpoint.SettleAfter)
	if err != nil || *answer.Success || answer.ErrorReason != reasonPending {
		return answer, err
	}
	second, err := f.settle(ctx, r)
	if err != nil || !transactionForm.MatchString(second.Transaction) {
		// The first answer still names the transaction to look for.
		return answer, nil
	}
	return second, nil
}

// conclude turns a facilitator's answer into what the ledger knows. Only a
// success is a yes; everything else is unknown until the chain decides.
func (s *Service) conclude(ctx context.Context, rail *Rail, intent ledger.Intent, f *Facilitator, answer settleAnswer, err error) ledger.Intent {
	if err != nil {
		s.log.Warn("settlement outcome unknown", "facilitator", f.Host(), "error", err.Error(), "nonce", intent.Nonce)
		return s.note(ctx, intent, "", err.Error())
	}
	transaction := ""
	if transactionForm.MatchString(answer.Transaction) {
		transaction = strings.ToLower(answer.Transaction)
		intent.Transaction = transaction
	}
	if !*answer.Success || transaction == "" || !isNetwork(answer.Network, intent.Network) {
		s.log.Warn("settlement outcome unknown", "facilitator", f.Host(), "reason", answer.ErrorReason, "nonce", intent.Nonce)
		return s.note(ctx, intent, transaction, answer.ErrorReason)
	}
	if rail.Chain == nil {
		return s.claim(ctx, rail, intent)
	}
	failpoint.Hit(failpoint.ProofBefore)
	sighting, found, err := s.proveSoon(ctx, rail.Chain, intent)
	failpoint.Hit(failpoint.ProofAfter)
	switch {
	case err != nil:
		// The chain cannot be read now; the facilitator's word is a claim.
		s.log.Warn("settlement not proven yet: the chain could not be read", "network", intent.Network, "transaction", intent.Transaction)
		return s.claim(ctx, rail, intent)
	case found && !s.paid(intent, sighting):
		return s.note(ctx, intent, transaction, reasonValue)
	case !found:
		s.log.Error("facilitator reported a settlement that the chain does not show", "facilitator", f.Host(), "network", intent.Network, "transaction", intent.Transaction)
		return s.note(ctx, intent, transaction, "transaction_not_found")
	}
	return s.prove(ctx, intent, sighting)
}

// proveSoon waits a little for the transaction to reach the node that we read.
// A chain that cannot be read at all is an error; one that was read and does
// not show the transaction is not.
func (s *Service) proveSoon(ctx context.Context, chain Chain, intent ledger.Intent) (ledger.Sighting, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, proofWait)
	defer cancel()
	ticker := time.NewTicker(proofPoll)
	defer ticker.Stop()
	for looked := false; ; {
		sighting, found, err := chain.Prove(ctx, intent.IntentKey, intent.Transaction)
		switch {
		case err == nil && found:
			return sighting, true, nil
		case err == nil:
			looked = true
		case !looked:
			return ledger.Sighting{}, false, err
		}
		select {
		case <-ctx.Done():
			return ledger.Sighting{}, false, nil
		case <-ticker.C:
		}
	}
}

// paid reports whether a Transfer is the one that was signed. A payer may
// spend the nonce of the authorization with another one, for less.
func (s *Service) paid(i ledger.Intent, sighting ledger.Sighting) bool {
	if sighting.Amount == i.Amount {
		return true
	}
	s.log.Warn("an authorization was spent with another amount", "network", i.Network, "nonce", i.Nonce,
		"transaction", sighting.Transaction, "want", i.Amount, "got", sighting.Amount)
	return false
}

// isNetwork reports whether a facilitator's name of a network means a CAIP-2
// id. Some answer in the other dialect.
func isNetwork(name, caip2 string) bool {
	return name == caip2 || name == networkIn(1, caip2)
}
