package x402

import (
	"cmp"
	"context"
	"errors"
	"regexp"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/accounting"
)

const (
	// reasonUsed: the authorization was used; whether it paid this offer is not known yet.
	reasonUsed = "authorization_used"
	// reasonElsewhere: it was used and did not pay this offer.
	reasonElsewhere = "authorization_used_elsewhere"
	// reasonChain: the chain cannot be read.
	reasonChain = "chain_unreadable"
)

// clockTolerance is how far, in seconds, the clocks of payers and of the chain may differ.
const clockTolerance = 60

// blockWait is when a transaction that was sent to a chain is usually in a block.
const blockWait = 3 * time.Second

// nothingCharged is added to an answer only if the chain has shown it.
const nothingCharged = " Nothing was charged."

// assessment is what is known of a payment that the ledger does not have: the event, and the code and the sentence for the payer.
type assessment struct {
	event          accounting.Event // "" if the payment can be taken
	funded         bool             // its payer is proven to have the money
	reason, detail string
	retryAfter     time.Duration  // of EventClocksDisagree
	receipt        ledger.Receipt // of EventPaid
}

// inspect reads the chain about a payment that the ledger does not have, before a facilitator is asked and before the
// payment may be refused: another service may have settled it. Error: the ledger cannot be read.
func (s *Service) inspect(ctx context.Context, p *payment, rail *Rail, refuse func() (reason, detail string)) (assessment, error) {
	var reading ledger.Reading
	var unread error
	if rail.Chain != nil {
		reading, unread = rail.Chain.Read(ctx, p.key())
		p.behind = max(0, time.Unix(reading.Time, 0).Sub(s.Now()))
	}
	refused := s.checkTimes(p)
	expired := refused != nil && refused.reason == reasonLate && p.hasEnded(s.Now()) // it was valid once
	if refuse != nil {
		if reason, detail := refuse(); reason != "" {
			refused = declined(reason, detail)
		}
	}
	switch {
	case rail.Chain == nil && expired:
		return chargeUnknown(accounting.EventNoChain, refused.reason, "it has expired"), nil
	case rail.Chain == nil && refused != nil:
		return *refused, nil
	case refused == nil && (rail.Chain == nil || unread != nil):
		return assessment{}, nil
	case unread != nil:
		return assessment{event: accounting.EventUnreadable, reason: reasonChain}, nil
	case reading.Used:
		return s.inspectUse(ctx, p, rail, reading)
	case refused == nil:
		return assessment{funded: p.proven && reading.Funds >= rail.amount()}, nil
	case expired && reading.Time <= p.validBefore(),
		refused.reason == reasonLate && !expired && !p.isTooLong(time.Unix(reading.Time, 0)):
		// The chain may still accept it.
		return assessment{event: accounting.EventClocksDisagree, reason: refused.reason, detail: detailUnavailable, retryAfter: retrySoon}, nil
	default:
		refused.detail += nothingCharged
		return *refused, nil
	}
}

// chargeUnknown is the assessment of a payment that may have been charged before it came here.
func chargeUnknown(event accounting.Event, reason, why string) assessment {
	return assessment{event: event, reason: reason, detail: "This authorization was not sent, because " + why + "; it may have been charged elsewhere. " +
		"Check the wallet's history before you sign a new one."}
}

// inspectUse reads the observer's receipts about an authorization that is used on the chain.
func (s *Service) inspectUse(ctx context.Context, p *payment, rail *Rail, reading ledger.Reading) (assessment, error) {
	receipt, event, err := s.classifyUse(ctx, rail, p.key(), p.validBefore(), reading)
	switch event {
	case accounting.EventBefore:
		return chargeUnknown(event, reasonUsed, "it is already used"), err
	case accounting.EventElsewhere:
		return assessment{event: event, reason: reasonElsewhere, detail: detailElsewhere}, err
	case accounting.EventPaid:
		if !p.proven { // receipts are public, and the sender may be a stranger
			return assessment{event: accounting.EventUnproven, reason: reasonChain, detail: "Transaction " + receipt.Transaction +
				" shows that this authorization has paid this offer, but its signature cannot be checked now."}, err
		}
	}
	return assessment{event: event, reason: reasonUsed, receipt: receipt}, err
}

// detailElsewhere explains reasonElsewhere to the payer.
const detailElsewhere = "This authorization was already used or canceled without paying the price of this offer. Sign a new one."

// classifyUse reads the receipts about an authorization that was used by the time of the reading.
func (s *Service) classifyUse(ctx context.Context, rail *Rail, key ledger.IntentKey, validBefore int64, reading ledger.Reading) (ledger.Receipt, accounting.Event, error) {
	since, through := rail.Chain.Covered() // before the receipts, because it grows
	receipt, found, err := s.Ledger.AuthorizationReceipt(ctx, rail.USDC.Account(), key.From, key.Nonce)
	// It was signed for the time of a quote, by a clock that may be ahead of the chain's.
	signed := validBefore - maxTimeoutSeconds - clockTolerance
	switch {
	case err != nil:
		return receipt, accounting.EventUnobserved, err
	case found && receipt.Amount == rail.amount():
		return receipt, accounting.EventPaid, nil
	case found:
		return receipt, accounting.EventElsewhere, nil
	case through < reading.Block:
		return receipt, accounting.EventUnobserved, nil
	case since > signed:
		return receipt, accounting.EventBefore, nil
	default:
		return receipt, accounting.EventElsewhere, nil
	}
}

// inspectDeclined reads the chain about a payment that a facilitator does not accept. Its reply is not enough, because the
// authorization may have been used. If the chain does not show why, a transaction may be on its way to a block. Error: the
// ledger cannot be read.
func (s *Service) inspectDeclined(ctx context.Context, p *payment, rail *Rail, said reply) (assessment, error) {
	f := *declined(said.reason, "The facilitator rejected this payment; correct what the reason names and sign a new one.")
	if rail.Chain == nil {
		if said.mentions(wordsUsed) || said.mentions(wordsLate) {
			f = chargeUnknown(accounting.EventNoChain, f.reason, "the facilitator reports that it is used or expired")
		}
		return f, nil
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
		return assessment{event: accounting.EventUnreadable, reason: reasonChain}, nil
	case reading.Used:
		return s.inspectUse(ctx, p, rail, reading)
	case said.mentions(wordsUsed):
		// The facilitator may have seen a block that our endpoints have not.
		return assessment{event: accounting.EventSaidUsed, reason: reasonUsed}, nil
	case p.proven: // blockWait has passed
		f.detail += nothingCharged
	}
	return f, nil
}

// detailNotSent explains an open payment that was not sent.
const detailNotSent = "It is not known yet whether this authorization has already paid this offer, so it was not sent now."

// enter does what the table says of a payment that the ledger does not have, and answers it. A suspended payment is decided
// by Resolve; no other payment of its payer is sent meanwhile.
func (s *Service) enter(ctx context.Context, p *payment, rail *Rail, f assessment) Outcome {
	if !p.proven && accounting.Entries[f.event].To == accounting.StageSuspended {
		f.event = accounting.EventUnproven
	}
	o := p.answer(f)
	switch accounting.Entries[f.event].To {
	case accounting.StageProven:
		return s.importPayment(ctx, p, rail, f.receipt)
	case accounting.StageSuspended:
		intent := s.newIntent(p, rail)
		intent.Reason, intent.LeaseUntil = f.reason, 0
		if err := s.Ledger.InsertIntent(ctx, intent); err != nil {
			return s.afterInsertError(ctx, p, intent, err)
		}
		o.Intent = intent.Nonce
	}
	return o
}

// answer is that of the table to a payment that the ledger does not have.
func (p *payment) answer(f assessment) Outcome {
	o := p.outcome(accounting.Entries[f.event].Answer, f.reason, cmp.Or(f.detail, detailNotSent))
	o.RetryAfter = cmp.Or(f.retryAfter, o.RetryAfter)
	return o
}

// importPayment records a payment that another service settled, with its Transfer.
func (s *Service) importPayment(ctx context.Context, p *payment, rail *Rail, receipt ledger.Receipt) Outcome {
	transfer, found, err := rail.Chain.Prove(ctx, p.key(), receipt.Transaction)
	if err != nil || !found {
		return s.enter(ctx, p, rail, assessment{event: accounting.EventUnobserved, reason: reasonUsed})
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
	return s.recordAnswer(ctx, p, intent, true)
}

// Words with which facilitators say that an authorization was used, and words that may mean it
// (it has expired, or a simulation of the transaction fails).
var (
	wordsUsed = regexp.MustCompile(`(?i)(^|[^a-z])(used|spent|replay|duplicate)|nonce`)
	wordsLate = regexp.MustCompile(`(?i)expired|valid_before|simulation`)
)

func (r reply) mentions(words *regexp.Regexp) bool {
	return words.MatchString(r.reason) || words.MatchString(r.message)
}

// resolveSuspended reads the chain again about a suspended payment.
func (s *Service) resolveSuspended(ctx context.Context, rail *Rail, i ledger.Intent) {
	reading, err := rail.Chain.Read(ctx, i.IntentKey)
	if err == nil {
		receipt, event, err := s.classifyUse(ctx, rail, i.IntentKey, i.ValidBefore, reading)
		switch {
		case !reading.Used, err == nil && event == accounting.EventBefore:
			// It was not sent. It can come again, to be taken or answered.
			if _, err := s.Ledger.Apply(ctx, i.IntentKey, ledger.IntentChange{Event: accounting.EventNotSent, Owner: s.Owner}); err == nil {
				return
			}
		case err != nil:
		case event == accounting.EventPaid:
			if transfer, found, err := rail.Chain.Prove(ctx, i.IntentKey, receipt.Transaction); err == nil && found {
				s.recordProof(ctx, rail, i, transfer)
				return
			}
		case event == accounting.EventElsewhere:
			s.refuse(ctx, i, reasonElsewhere)
			return
		}
	}
	s.keepOpen(ctx, i, i.Transaction, i.Reason)
}
