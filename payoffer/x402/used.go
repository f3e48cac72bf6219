package x402

import (
	"context"
	"errors"
	"regexp"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
)

const (
	// reasonUsed: the authorization was used; whether it paid this offer is not known yet.
	reasonUsed = "authorization_used"
	// reasonElsewhere: it was used and did not pay this offer.
	reasonElsewhere = "authorization_used_elsewhere"
	// reasonClock: this machine's clock is wrong, so that expiry cannot be judged.
	reasonClock = "clock_wrong"
	// reasonChain: the chain cannot be read.
	reasonChain = "chain_unreadable"
)

// clockTolerance is how far, in seconds, the clocks of payers and of the chain may differ.
const clockTolerance = 60

// blockWait is when a transaction that was sent to a chain is usually in a block.
const blockWait = 3 * time.Second

// nothingCharged is added to an answer only if the chain has shown it.
const nothingCharged = " Nothing was charged."

// checkChain reads the chain about a payment that the ledger does not have, before a facilitator is
// asked and before the payment may be refused: another service may have settled it. answer is nil
// if the payment can be taken; funded then says that its payer is proven to have the money.
func (s *Service) checkChain(ctx context.Context, p *payment, rail *Rail, refuse func() (reason, detail string)) (funded bool, answer *Outcome) {
	var reading ledger.Reading
	var err error
	if rail.Chain != nil {
		reading, err = rail.Chain.Read(ctx, p.key())
		p.behind = max(0, time.Unix(reading.Time, 0).Sub(s.Now()))
	}
	refused := s.checkTimes(p)
	if refuse != nil {
		if reason, detail := refuse(); reason != "" {
			refused = &refusal{reason, detail, refused != nil && refused.expired, ""}
		}
	}
	if rail.Chain == nil {
		switch {
		case refused == nil:
			return false, nil
		case s.ClockWrong():
			return false, new(p.unavailable(reasonClock, retryOpen))
		case refused.expired:
			return false, new(p.chargeUnknown(refused.reason))
		default:
			return false, new(p.outcome(Refused, refused.reason, refused.detail))
		}
	}
	switch {
	case err != nil && refused == nil:
		return false, nil
	case err != nil:
		return false, new(s.suspend(ctx, p, rail, reasonChain))
	case reading.Used:
		return false, new(s.answerUsed(ctx, p, rail, reading))
	case refused == nil:
		return p.proven && reading.Funds >= rail.amount(), nil
	case s.ClockWrong():
		return false, new(p.unavailable(reasonClock, retryOpen))
	case refused.expired && reading.Time <= p.validBefore(),
		refused.reason == reasonLate && !refused.expired && !isTooLong(p.authorization, time.Unix(reading.Time, 0)):
		// The chain may still accept it.
		return false, new(p.unavailable(refused.reason, retrySoon))
	default:
		return false, new(p.outcome(Refused, refused.reason, refused.detail+nothingCharged))
	}
}

// answerUsed answers a payment whose authorization is used on the chain, by the observer's receipts.
func (s *Service) answerUsed(ctx context.Context, p *payment, rail *Rail, reading ledger.Reading) Outcome {
	receipt, use, err := s.classifyUse(ctx, rail, p.key(), p.validBefore(), reading)
	switch {
	case err != nil:
		return p.ledgerUnavailable()
	case use == notObserved:
		return s.suspend(ctx, p, rail, reasonUsed)
	case use == beforeRecords:
		return p.chargeUnknown(reasonUsed)
	case use == usedElsewhere:
		return p.outcome(Refused, reasonElsewhere, detailElsewhere)
	case !p.proven:
		// Receipts are public, and the sender may be a stranger.
		return p.outcome(Open, reasonChain, "Transaction "+receipt.Transaction+
			" shows that this authorization has paid this offer, but its signature cannot be checked now.")
	default:
		return s.importPayment(ctx, p, rail, receipt)
	}
}

// detailElsewhere explains reasonElsewhere to the payer.
const detailElsewhere = "This authorization was already used or canceled without paying the price of this offer. Sign a new one."

// use is what the observer's receipts show of a used authorization.
type use int

const (
	paidOffer     use = iota // it paid this offer
	usedElsewhere            // it did not pay this offer
	notObserved              // the observer has not reached the block
	beforeRecords            // it may have been used before the receipts begin
)

// classifyUse reads the receipts about an authorization that was used by the time of the reading.
func (s *Service) classifyUse(ctx context.Context, rail *Rail, key ledger.IntentKey, validBefore int64, reading ledger.Reading) (ledger.Receipt, use, error) {
	since, through := rail.Chain.Covered() // before the receipts, because it grows
	receipt, found, err := s.Ledger.AuthorizationReceipt(ctx, rail.USDC.Account(), key.From, key.Nonce)
	// It was signed for the time of a quote, by a clock that may be ahead of the chain's.
	signed := validBefore - maxTimeoutSeconds - clockTolerance
	switch {
	case err != nil:
		return receipt, notObserved, err
	case found && receipt.Amount == rail.amount():
		return receipt, paidOffer, nil
	case found:
		return receipt, usedElsewhere, nil
	case through < reading.Block:
		return receipt, notObserved, nil
	case since > signed:
		return receipt, beforeRecords, nil
	default:
		return receipt, usedElsewhere, nil
	}
}

// importPayment records a payment that another service settled, with its Transfer.
func (s *Service) importPayment(ctx context.Context, p *payment, rail *Rail, receipt ledger.Receipt) Outcome {
	transfer, found, err := rail.Chain.Prove(ctx, p.key(), receipt.Transaction)
	if err != nil || !found {
		return s.suspend(ctx, p, rail, reasonUsed)
	}
	intent := s.newIntent(p, rail)
	intent.Transaction, intent.Evidence = transfer.Transaction, ledger.EvidenceChain
	transfer.Via, transfer.Own, transfer.Answer = "x402", intent.Own, s.newAnswer(intent)
	err = s.Ledger.ImportIntent(ctx, intent, transfer)
	if exists, ok := errors.AsType[*ledger.IntentExistsError](err); ok {
		return s.replay(ctx, p, exists.Existing)
	}
	if err == nil {
		intent, _, err = s.Ledger.Intent(ctx, p.key())
	}
	if err != nil {
		return p.ledgerUnavailable()
	}
	return s.answerWith(ctx, p, intent, true)
}

// detailNotSent explains an open payment that was not sent.
const detailNotSent = "It is not known yet whether this authorization has already paid this offer, so it was not sent now."

// suspend stores a payment that was not sent as open, because its outcome elsewhere is unknown.
// Resolve decides it. No other payment of its payer is sent meanwhile.
func (s *Service) suspend(ctx context.Context, p *payment, rail *Rail, reason string) Outcome {
	open := p.outcome(Open, reason, detailNotSent)
	if !p.proven {
		return open
	}
	intent := s.newIntent(p, rail)
	intent.Reason, intent.LeaseUntil = reason, 0
	if err := s.Ledger.InsertIntent(ctx, intent); err != nil {
		return s.answerNotCommitted(ctx, p, intent, err)
	}
	open.Intent = intent.Nonce
	return open
}

// answerDeclined answers a payment that a facilitator does not accept. Its reply is not enough, because the
// authorization may have been used. If the chain does not show why, a transaction may be on its way to a block.
func (s *Service) answerDeclined(ctx context.Context, p *payment, rail *Rail, declined refusal) Outcome {
	if rail.Chain == nil {
		if declined.mentions(wordsUsed) || declined.mentions(wordsLate) {
			return p.chargeUnknown(declined.reason)
		}
		return p.outcome(Refused, declined.reason, declined.detail)
	}
	reading, err := rail.Chain.Read(ctx, p.key())
	if err == nil && !reading.Used && p.proven && reading.Funds >= rail.amount() {
		select {
		case <-ctx.Done():
		case <-time.After(blockWait):
		}
		reading, err = rail.Chain.Read(ctx, p.key())
	}
	switch {
	case err != nil:
		return s.suspend(ctx, p, rail, reasonChain)
	case reading.Used:
		return s.answerUsed(ctx, p, rail, reading)
	case declined.mentions(wordsUsed):
		// The facilitator may have seen a block that our endpoints have not.
		return s.suspend(ctx, p, rail, reasonUsed)
	case !p.proven:
		// A transaction may be on its way to a block, because blockWait has not passed.
		return p.outcome(Refused, declined.reason, declined.detail)
	default:
		return p.outcome(Refused, declined.reason, declined.detail+nothingCharged)
	}
}

// Words with which facilitators say that an authorization was used, and words that may mean it
// (it has expired, or a simulation of the transaction fails).
var (
	wordsUsed = regexp.MustCompile(`(?i)(^|[^a-z])(used|spent|replay|duplicate)|nonce`)
	wordsLate = regexp.MustCompile(`(?i)expired|valid_before|simulation`)
)

func (r refusal) mentions(words *regexp.Regexp) bool {
	return words.MatchString(r.reason) || words.MatchString(r.message)
}

// chargeUnknown answers a payment that may have been charged before it came here.
func (p *payment) chargeUnknown(reason string) Outcome {
	return p.outcome(Conflict, reason, "This authorization was not sent, because it can no longer be used; it may have been charged elsewhere. "+
		"Check the wallet's history before you sign a new one.")
}

// resolveSuspended reads the chain again about a suspended payment.
func (s *Service) resolveSuspended(ctx context.Context, rail *Rail, i ledger.Intent) {
	reading, err := rail.Chain.Read(ctx, i.IntentKey)
	if err == nil {
		receipt, use, err := s.classifyUse(ctx, rail, i.IntentKey, i.ValidBefore, reading)
		switch {
		case !reading.Used, err == nil && use == beforeRecords:
			// It was not sent. It can come again, to be taken or answered.
			if err := s.Ledger.WithdrawIntent(ctx, i.IntentKey, s.Owner); err == nil {
				return
			}
		case err != nil:
		case use == paidOffer:
			if transfer, found, err := rail.Chain.Prove(ctx, i.IntentKey, receipt.Transaction); err == nil && found {
				s.recordProof(ctx, rail, i, transfer)
				return
			}
		case use == usedElsewhere:
			s.refuse(ctx, i, reasonElsewhere)
			return
		}
	}
	s.keepOpen(ctx, i, i.Transaction, i.Reason)
}
