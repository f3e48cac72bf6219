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
	// proofWait is how long a buyer waits for the transaction to appear on the
	// chain that we read.
	proofWait = 10 * time.Second
	// proofPoll is how often it is looked for.
	proofPoll = 250 * time.Millisecond
)

var transactionForm = regexp.MustCompile(`^0x[0-9a-fA-F]{64}$`)

// leaseFor is how long one attempt may work on an intent: every facilitator
// once and one of them twice, the proof, and time to record.
func leaseFor(rail *Rail) time.Duration {
	lease := proofWait + 10*time.Second
	var longest time.Duration
	for _, f := range rail.Facilitators {
		lease += f.timeout
		longest = max(longest, f.timeout)
	}
	return lease + longest
}

// submit has a committed intent settled. The next facilitator is asked only
// where the one before certainly did nothing.
func (s *Service) submit(ctx context.Context, p *payment, rail *Rail, intent ledger.Intent, facilitators []*Facilitator) Outcome {
	for _, f := range facilitators {
		if f.Host() != intent.Facilitator {
			if err := s.Ledger.MoveIntent(ctx, intent.IntentKey, s.Owner, f.Host()); err != nil {
				return p.outcomeOf(intent)
			}
			intent.Facilitator = f.Host()
		}
		reply, err := f.settle(ctx, requestOf(intent))
		if failed, ok := errors.AsType[*callError](err); ok && failed.notSent {
			s.Logger.Warn("facilitator could not be asked to settle", "facilitator", f.Host(), "error", failed.code)
			continue
		}
		return p.outcomeOf(s.conclude(ctx, rail, intent, f, reply, err))
	}
	// Nobody was reached: the payment was not sent, and stays unknown to the
	// ledger, so that the same payload can be sent again.
	if err := s.Ledger.WithdrawIntent(ctx, intent.IntentKey, s.Owner); err != nil {
		return p.outcomeOf(intent)
	}
	return p.unavailable("facilitator_unavailable", retryOpen)
}

// requestOf is the request of an intent, the same each time.
func requestOf(i ledger.Intent) facilitatorRequest {
	return facilitatorRequest{X402Version: i.Version, PaymentPayload: i.Payload, PaymentRequirements: i.Requirement}
}

// conclude turns a facilitator's reply into what the ledger knows. Only a
// success is a yes; everything else is unknown until the chain decides.
func (s *Service) conclude(ctx context.Context, rail *Rail, intent ledger.Intent, f *Facilitator, reply settleReply, err error) ledger.Intent {
	if err != nil {
		s.Logger.Warn("settlement outcome unknown", "facilitator", f.Host(), "error", err.Error(), "nonce", intent.Nonce)
		return s.keepOpen(ctx, intent, "", err.Error())
	}
	transaction := ""
	if transactionForm.MatchString(reply.Transaction) {
		transaction = strings.ToLower(reply.Transaction)
		intent.Transaction = transaction
	}
	if !*reply.Success || transaction == "" || !isNetwork(reply.Network, intent.Network) {
		s.Logger.Warn("settlement outcome unknown", "facilitator", f.Host(), "reason", reply.ErrorReason, "nonce", intent.Nonce)
		return s.keepOpen(ctx, intent, transaction, reply.ErrorReason)
	}
	if rail.Chain == nil {
		return s.recordClaim(ctx, rail, intent)
	}
	failpoint.Hit(failpoint.ProofBefore)
	sighting, found, err := s.awaitProof(ctx, rail.Chain, intent)
	failpoint.Hit(failpoint.ProofAfter)
	switch {
	case err != nil:
		// The chain cannot be read now; the facilitator's word is a claim.
		s.Logger.Warn("settlement not proven yet: the chain could not be read", "network", intent.Network, "transaction", intent.Transaction)
		return s.recordClaim(ctx, rail, intent)
	case found && !s.wasSigned(intent, sighting):
		return s.keepOpen(ctx, intent, transaction, reasonValue)
	case !found:
		s.Logger.Error("facilitator reported a settlement that the chain does not show", "facilitator", f.Host(), "network", intent.Network, "transaction", intent.Transaction)
		return s.keepOpen(ctx, intent, transaction, "transaction_not_found")
	}
	return s.recordProof(ctx, intent, sighting)
}

// awaitProof waits a little for the transaction to reach the node that we read.
// A chain that cannot be read at all is an error; one that was read and does
// not show the transaction is not.
func (s *Service) awaitProof(ctx context.Context, chain Chain, intent ledger.Intent) (ledger.Sighting, bool, error) {
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

// wasSigned reports whether a Transfer is the one that was signed. A payer may
// spend the nonce of the authorization with another one, for less.
func (s *Service) wasSigned(i ledger.Intent, sighting ledger.Sighting) bool {
	if sighting.Amount == i.Amount {
		return true
	}
	s.Logger.Warn("an authorization was spent with another amount", "network", i.Network, "nonce", i.Nonce,
		"transaction", sighting.Transaction, "want", i.Amount, "got", sighting.Amount)
	return false
}

// isNetwork reports whether a facilitator's name of a network means a CAIP-2
// id. Some answer in the other dialect.
func isNetwork(name, caip2 string) bool {
	return name == caip2 || name == networkIn(1, caip2)
}
