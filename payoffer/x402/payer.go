package x402

import (
	"context"
	"strconv"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
)

// A client that does not know what became of its payment may sign another one.
// The payments of one payer are therefore looked at together: while one is not
// decided no other is sent, and one that was charged answers for the others
// until its payer was told.

// tellWait is how long the note that an answer was written is waited for: a
// stranger may ask for the 200 of what the chain has made public, and not read
// it.
const tellWait = 2 * time.Second

// tellLook is how soon it is looked first for the note of another instance; each further
// look comes after twice as long.
const tellLook = 10 * time.Millisecond

// before finds the payment that is in the way of a new one whose signature was
// proven here: the one ahead that a first look found, nil for none. A stranger learns
// nothing from a signature that nobody made. One whose 200 is just being written is
// waited for: a payer who has read it may be quicker than the note of it, which may
// also have been made since the look. One that was open then answers for the new one
// whatever became of it since, for its payer knew nothing of that.
func (s *Service) before(ctx context.Context, p *payment, rail *Rail, ahead *ledger.Intent) (other ledger.Intent, found bool, err error) {
	if ahead == nil || !p.proven || s.isTooLong(p.authorization) {
		// One that is valid for too long is refused, and must not be remembered: it
		// would stand for whatever its payer signs until then.
		return ledger.Intent{}, false, nil
	}
	if ahead.State != ledger.IntentSettled {
		return *ahead, true, nil
	}
	if noted, telling := s.telling.Load(ahead.IntentKey); telling {
		select {
		case <-noted.(chan struct{}):
		case <-time.After(tellWait):
		case <-ctx.Done():
		}
	} else if ahead.Owner != s.Owner && s.Now().Unix()-ahead.UpdatedAt <= int64(tellWait/time.Second) {
		s.toldElsewhere(ctx, ahead.IntentKey)
	}
	return s.Ledger.InTheWay(ctx, s.newIntent(p, rail, ""))
}

// toldElsewhere waits for the note of a charge that another instance has just made, and
// whose 200 it may be writing.
func (s *Service) toldElsewhere(ctx context.Context, key ledger.IntentKey) {
	for wait := tellLook; wait < tellWait; wait *= 2 {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
		if i, known, err := s.Ledger.Intent(ctx, key); err != nil || !known || i.ToldAt != 0 {
			return
		}
	}
}

// isAnother reports whether a payment says that it is another purchase than an intent.
func (p *payment) isAnother(other ledger.Intent) bool {
	return p.paymentID != "" && p.paymentID != other.PaymentID
}

// behind answers a proven payment that another one is in the way of. The other one
// remembers it, so that it is never charged besides, unless it says that it is
// a purchase of its own.
func (s *Service) behind(ctx context.Context, p *payment, other ledger.Intent) Outcome {
	if !p.isAnother(other) {
		now, err := s.Ledger.TurnAway(ctx, other.IntentKey, p.validBefore())
		if err != nil {
			return p.unreadable()
		}
		other = now
	}
	switch other.State {
	case ledger.IntentSettled:
		return s.told(ctx, p, s.ensureAnswer(ctx, other), false)
	case ledger.IntentRefused: // at this moment
		return p.unavailable("payer_had_open_payment", retrySoon)
	default:
		o := p.outcome(Conflict, reasonRejected,
			"Another payment of this payer is not decided yet; this one was not sent. Send the first one again, whose nonce is in 'intent', to learn its outcome, and sign no new one.")
		o.Intent = other.Nonce
		return o
	}
}

// told answers a payment by what the ledger knows of an intent: its own, or one
// that was charged in its place. A payer who has to wait is in doubt until a
// 200 that names the charge was written. atOnce says that this answers the
// request that brought the intent.
func (s *Service) told(ctx context.Context, p *payment, i ledger.Intent, atOnce bool) Outcome {
	switch {
	case i.State == ledger.IntentSettling && !atOnce && !(i.Doubt && i.ToldAt == 0):
		s.note(i, s.Ledger.DoubtIntent(ctx, i.IntentKey))
	case i.State == ledger.IntentSettled && i.ToldAt == 0:
		s.tell(ctx, i, atOnce)
	}
	return p.outcomeOf(i)
}

// tell notes that a charge was told once the 200 that names it was written. The
// connection does not wait for that: whoever else uses it has nothing to do with it.
func (s *Service) tell(ctx context.Context, i ledger.Intent, atOnce bool) {
	noted := make(chan struct{})
	s.telling.Store(i.IntentKey, noted)
	done := func() {
		s.telling.CompareAndDelete(i.IntentKey, noted)
		close(noted)
	}
	onWritten(ctx, func(whole bool) {
		if !whole {
			done()
			return
		}
		end, held := s.begin()
		if !held {
			done()
			return
		}
		go func() {
			defer end()
			defer done()
			s.note(i, s.Ledger.TellIntent(context.WithoutCancel(ctx), i.IntentKey, atOnce))
		}()
	})
}

// note logs that the ledger did not take what its payer was told: the charge
// goes on answering for the payer then.
func (s *Service) note(i ledger.Intent, err error) {
	if err != nil {
		s.Logger.Warn("what the payer of a payment was told could not be recorded", "network", i.Network, "nonce", i.Nonce, "error", err.Error())
	}
}

// validBefore is the end of the authorization in Unix seconds, which may be
// beyond all time.
func (p *payment) validBefore() int64 {
	end, err := strconv.ParseInt(p.authorization.ValidBefore, 10, 64)
	if err != nil {
		return 1<<63 - 1
	}
	return end
}
