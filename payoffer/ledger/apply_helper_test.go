package ledger

import (
	"context"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/accounting"
)

// The changes of an intent, as the tests write them.

func (l *Ledger) apply(ctx context.Context, key IntentKey, c IntentChange) error {
	_, err := l.Apply(ctx, key, c)
	return err
}

func (l *Ledger) SettleIntent(ctx context.Context, key IntentKey, hash string, answer []byte, evidence string) error {
	event := accounting.EventClaimed
	if evidence == EvidenceChain {
		event = accounting.EventProven
	}
	return l.apply(ctx, key, IntentChange{Event: event, Transaction: hash, Answer: answer})
}

func (l *Ledger) RefuseIntent(ctx context.Context, key IntentKey, reason string) error {
	return l.apply(ctx, key, IntentChange{Event: accounting.EventDead, Reason: reason})
}

func (l *Ledger) UpdateOpenIntent(ctx context.Context, key IntentKey, owner string, lease int64, transaction, reason string) error {
	c := IntentChange{Event: accounting.EventLeased, Owner: owner, Lease: lease}
	if lease <= l.now().Unix() {
		c = IntentChange{Event: accounting.EventUnknown, Owner: owner, Transaction: transaction, Reason: reason}
	}
	return l.apply(ctx, key, c)
}

func (l *Ledger) MoveIntent(ctx context.Context, key IntentKey, owner, facilitator string) error {
	return l.apply(ctx, key, IntentChange{Event: accounting.EventReassigned, Owner: owner, Facilitator: facilitator})
}

func (l *Ledger) ReopenIntent(ctx context.Context, key IntentKey, reason string) error {
	return l.apply(ctx, key, IntentChange{Event: accounting.EventDisproved, Reason: reason})
}

func (l *Ledger) WithdrawIntent(ctx context.Context, key IntentKey, owner string) error {
	i, err := l.Apply(ctx, key, IntentChange{Event: accounting.EventNotSent, Owner: owner})
	if err == nil && i.State != accounting.IntentWithdrawn {
		return ErrIntentState
	}
	return err
}

func (l *Ledger) RetractClaim(ctx context.Context, key IntentKey, reason string) error {
	return l.apply(ctx, key, IntentChange{Event: accounting.EventOperatorUnpaid, Reason: reason})
}

func (l *Ledger) ClaimRefused(ctx context.Context, key IntentKey, hash string) error {
	return l.apply(ctx, key, IntentChange{Event: accounting.EventOperatorPaid, Transaction: hash})
}
