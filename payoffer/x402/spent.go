package x402

import (
	"context"
	"errors"
	"regexp"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
)

const (
	// reasonUsed says that an authorization was used, and not yet for what.
	reasonUsed = "authorization_used"
	// reasonElsewhere says that it did not pay this offer.
	reasonElsewhere = "authorization_used_elsewhere"
	// reasonClock says that times cannot be judged.
	reasonClock = "clock_wrong"
	// reasonChain says that the chain cannot be read.
	reasonChain = "chain_unreadable"
)

// clockTolerance is how far, in seconds, the clocks of payers and of the chain
// may differ from each other.
const clockTolerance = 60

// blockSoon is when what was sent to a chain is in a block; most networks take
// two seconds.
const blockSoon = 3 * time.Second

// nothingCharged is said of a payment only where the chain has said it.
const nothingCharged = " Nothing was charged."

// look asks the chain about a payment that nobody here knows, before anybody
// else is asked and before it may be refused: others may have had it settled.
// The answer is nil where it can be taken; funded says then that its payer is
// proven to have the money. refuse is that of the attempt.
func (s *Service) look(ctx context.Context, p *payment, rail *Rail, refuse func() (reason, detail string)) (funded bool, answer *Outcome) {
	late := s.checkTimes(p.authorization)
	if refuse != nil {
		if reason, detail := refuse(); reason != "" {
			late = &refusal{reason, detail, late != nil && late.expired}
		}
	}
	if rail.Chain == nil {
		if late == nil {
			return false, nil
		}
		return false, new(s.untimely(p, late))
	}
	reading, err := rail.Chain.Read(ctx, p.key())
	switch {
	case err != nil && late == nil:
		return false, nil
	case err != nil:
		return false, new(s.suspend(ctx, p, rail, reasonChain))
	case reading.Used:
		return false, new(s.spent(ctx, p, rail, reading))
	case late == nil:
		return p.proven && reading.Funds >= rail.amount(), nil
	case s.ClockWrong():
		return false, new(p.unavailable(reasonClock, retryOpen))
	case late.expired && reading.Time <= p.validBefore():
		// The chain may still take it.
		return false, new(p.unavailable(late.reason, retrySoon))
	default:
		return false, new(p.outcome(Refused, late.reason, late.detail+nothingCharged))
	}
}

// untimely answers a payment that comes at a wrong time where no chain is
// read.
func (s *Service) untimely(p *payment, late *refusal) Outcome {
	switch {
	case s.ClockWrong():
		return p.unavailable(reasonClock, retryOpen)
	case late.expired:
		return p.unknowable(late.reason)
	default:
		return p.outcome(Refused, late.reason, late.detail)
	}
}

// spent answers a payment whose authorization the chain shows as used, by the
// rows of the observer: they tell once it has passed that block.
func (s *Service) spent(ctx context.Context, p *payment, rail *Rail, reading ledger.Reading) Outcome {
	row, became, err := s.became(ctx, rail, p.key(), p.validBefore(), reading)
	switch {
	case err != nil:
		return p.unreadable()
	case became == unseen:
		return s.suspend(ctx, p, rail, reasonUsed)
	case became == unknowable:
		return p.unknowable(reasonUsed)
	case became == elsewhere:
		return p.outcome(Refused, reasonElsewhere, usedElsewhere)
	case !p.proven:
		// The ledger's rows are public, and whoever sends this may be anybody.
		return p.outcome(Open, reasonChain, "The chain shows that this authorization has paid this offer, in transaction "+row.Transaction+
			". Its signature could not be checked now: send the same payment again, and do not sign another one.")
	default:
		return s.adopt(ctx, p, rail, row)
	}
}

// usedElsewhere says what became of an authorization that paid this offer
// nothing, or not its price.
const usedElsewhere = "This authorization was used or canceled, and did not pay the price of this offer. Sign a new one."

// fate is what the rows say of an authorization that was used.
type fate int

const (
	paid       fate = iota // for this offer; a row shows it
	elsewhere              // no row shows it, and one would
	unseen                 // the observer has not come so far
	unknowable             // it may have been used before the rows began
)

// became asks the rows about an authorization that was used up to a reading.
func (s *Service) became(ctx context.Context, rail *Rail, key ledger.IntentKey, validBefore int64, reading ledger.Reading) (ledger.Receipt, fate, error) {
	since, through := rail.Chain.Covered() // before the rows are read, for it grows
	row, found, err := s.Ledger.AuthorizationReceipt(ctx, rail.USDC.Account(), key.From, key.Nonce)
	// It was signed to be valid for as long as the quote says, by a clock that
	// may be ahead of the chain's.
	signed := validBefore - maxTimeoutSeconds - clockTolerance
	switch {
	case err != nil:
		return row, unseen, err
	case found && row.Amount == rail.amount():
		return row, paid, nil
	case found:
		return row, elsewhere, nil
	case through < reading.Block:
		return row, unseen, nil
	case since > signed:
		return row, unknowable, nil
	default:
		return row, elsewhere, nil
	}
}

// adopt takes a payment that others had settled into the books: the Transfer is
// there, and this is its authorization.
func (s *Service) adopt(ctx context.Context, p *payment, rail *Rail, row ledger.Receipt) Outcome {
	sighting, found, err := rail.Chain.Prove(ctx, p.key(), row.Transaction)
	if err != nil || !found {
		return s.suspend(ctx, p, rail, reasonUsed)
	}
	intent := s.newIntent(p, rail, "")
	intent.Transaction, intent.Evidence = sighting.Transaction, ledger.EvidenceChain
	sighting.Via, sighting.Own, sighting.Answer = "x402", intent.Own, s.answer(intent)
	err = s.Ledger.AdoptIntent(ctx, intent, sighting)
	if exists, ok := errors.AsType[*ledger.IntentExistsError](err); ok {
		return s.replay(ctx, p, exists.Existing)
	}
	if err == nil {
		intent, _, err = s.Ledger.Intent(ctx, p.key())
	}
	if err != nil {
		return p.unreadable()
	}
	return s.told(ctx, p, intent, true)
}

// notKnown is said of a payment of which nothing was sent.
const notKnown = "Whether this authorization was used to pay this offer is not known yet; it was not sent now."

// suspend keeps a payment open of which nothing was sent, because what became
// of it elsewhere is not known: Resolve finds out, and no other one of its
// payer is sent meanwhile.
func (s *Service) suspend(ctx context.Context, p *payment, rail *Rail, reason string) Outcome {
	open := p.outcome(Open, reason, notKnown)
	if !p.proven {
		return open
	}
	intent := s.newIntent(p, rail, "")
	intent.Reason, intent.LeaseUntil = reason, 0
	switch err := s.Ledger.InsertIntent(ctx, intent); {
	case err == nil:
		open.Intent = intent.Nonce
		return open
	default:
		return s.notCommitted(ctx, p, intent, err)
	}
}

// declined answers a payment that a facilitator does not accept. Its word is
// not enough: it may have been used, and the chain says so. Where the chain does
// not explain the word, what the facilitator sent may be on its way to a block.
func (s *Service) declined(ctx context.Context, p *payment, rail *Rail, said refusal) Outcome {
	if rail.Chain == nil {
		if said.mentions(wordsUsed) || said.mentions(wordsLate) {
			return p.unknowable(said.reason)
		}
		return p.outcome(Refused, said.reason, said.detail)
	}
	reading, err := rail.Chain.Read(ctx, p.key())
	if err == nil && !reading.Used && p.proven && reading.Funds >= rail.amount() {
		select {
		case <-ctx.Done():
		case <-time.After(blockSoon):
		}
		reading, err = rail.Chain.Read(ctx, p.key())
	}
	switch {
	case err != nil:
		return s.suspend(ctx, p, rail, reasonChain)
	case reading.Used:
		return s.spent(ctx, p, rail, reading)
	case said.mentions(wordsUsed):
		// The facilitator may have seen a block that our endpoints have not.
		return s.suspend(ctx, p, rail, reasonUsed)
	case !p.proven:
		// It may be on its way to a block, which was not waited for.
		return p.outcome(Refused, said.reason, said.detail)
	default:
		return p.outcome(Refused, said.reason, said.detail+nothingCharged)
	}
}

// Words by which facilitators say that an authorization has been used, and
// those that may mean it: its time is over, or a trial of the transaction
// fails.
var (
	wordsUsed = regexp.MustCompile(`(?i)(^|[^a-z])(used|spent|replay|duplicate)|nonce`)
	wordsLate = regexp.MustCompile(`(?i)expired|valid_before|simulation`)
)

func (r refusal) mentions(words *regexp.Regexp) bool {
	return words.MatchString(r.reason) || words.MatchString(r.detail)
}

// unknowable answers a payment of which nobody here can say whether it was
// charged before.
func (p *payment) unknowable(reason string) Outcome {
	return p.outcome(Conflict, reason, "It was not sent. This authorization cannot be used any more, and whether it was charged before it came here is not known: "+
		"look at the wallet's history before you sign another one.")
}

// resolveUnsent asks the chain again about a payment that was suspended.
func (s *Service) resolveUnsent(ctx context.Context, rail *Rail, i ledger.Intent) {
	reading, err := rail.Chain.Read(ctx, i.IntentKey)
	if err == nil {
		row, became, unread := s.became(ctx, rail, i.IntentKey, i.ValidBefore, reading)
		switch {
		case !reading.Used, unread == nil && became == unknowable:
			// Nothing was sent: it can come again, to be taken or told so.
			if err := s.Ledger.WithdrawIntent(ctx, i.IntentKey, s.Owner); err == nil {
				return
			}
		case unread != nil:
		case became == paid:
			if sighting, found, err := rail.Chain.Prove(ctx, i.IntentKey, row.Transaction); err == nil && found {
				s.recordProof(ctx, rail, i, sighting)
				return
			}
		case became == elsewhere:
			s.refuse(ctx, i, reasonElsewhere)
			return
		}
	}
	s.keepOpen(ctx, i, i.Transaction, i.Reason)
}
