package evm

import (
	"cmp"
	"context"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
)

// origin returns the last block whose payments do not count: the one before FromBlock, else the one before the first
// start. The stored one is only ever lowered.
func (p *cycle) origin(ctx context.Context) (uint64, error) {
	account, err := observe.Account(ctx, p.config.Ledger, p.config.OfferID, p.account)
	if err != nil {
		return 0, err
	}
	if account.Since > 0 {
		p.watchedSince = account.Since - int64(p.config.ClockOffset().Seconds())
		if p.config.FromBlock == 0 {
			p.first = account.Since
		}
	}
	origin, err := observe.Position(account.Origin)
	switch {
	case err != nil:
	case p.config.FromBlock > 0 && origin < 0:
		origin, err = observe.Origin(ctx, p.config.Ledger, p.config.OfferID, p.account, int64(p.config.FromBlock-1))
	case p.config.FromBlock == 0 && (origin < 0 || account.Since > 0 && p.cursor == nil):
		origin, err = p.started(ctx, origin, account.Since)
	}
	return uint64(origin), err
}

// lowerOrigin moves the origin back to FromBlock, once a process. Everything is read again from there. It does not
// read the chain, because the cursor's block may not be on it.
func (p *cycle) lowerOrigin(ctx context.Context) error {
	if p.config.FromBlock == 0 || p.config.FollowOnly || p.lowered {
		return nil
	}
	account, err := observe.Account(ctx, p.config.Ledger, p.config.OfferID, p.account)
	if err != nil {
		return err
	}
	stored, err := observe.Position(account.Origin)
	origin := int64(p.config.FromBlock - 1)
	if err != nil || stored < 0 {
		return err
	}
	if stored < origin {
		p.config.Logger.Warn("later from_block is ignored", "from_block", p.config.FromBlock, "first_block", stored+1,
			"hint", "recorded payments stay; remove from_block")
	} else if lowered, err := observe.LowerOrigin(ctx, p.config.Ledger, p.config.OfferID, p.account, origin); err != nil {
		return err
	} else if lowered {
		p.config.Logger.Info("USDC payments are read again", "first_block", p.config.FromBlock, "before", stored+1)
	}
	p.lowered = true
	return nil
}

// started returns the origin at the time of the first start (Unix seconds by the clock then). Until a cursor is stored, a
// reorganization or an offset of the clock can still lower it. If the start is unknown, it is the chain's head.
func (p *cycle) started(ctx context.Context, stored, since int64) (int64, error) {
	if since == 0 {
		first := int64(-1)
		if p.view.quorum() {
			first = int64(p.view.head)
		}
		origin, err := observe.Origin(ctx, p.config.Ledger, p.config.OfferID, p.account, first)
		if err == nil && origin < 0 {
			err = p.view.problem
		}
		return origin, err
	}
	moment, top := since-int64(p.config.ClockOffset().Seconds()), p.view.head
	if stored >= 0 {
		b := p.view.blockAt(ctx, uint64(stored))
		if b == nil || int64(b.Time) <= moment {
			return stored, nil
		}
		top = uint64(stored)
	}
	first, err := p.lastUntil(ctx, moment, top)
	if err != nil {
		return 0, err
	}
	if stored < 0 {
		return observe.Origin(ctx, p.config.Ledger, p.config.OfferID, p.account, int64(first))
	}
	_, err = observe.LowerOrigin(ctx, p.config.Ledger, p.config.OfferID, p.account, int64(first))
	return int64(first), err
}

// lastUntil returns the last block up to top that was made until a moment (Unix seconds): it steps back by doubling,
// then halves.
func (p *cycle) lastUntil(ctx context.Context, moment int64, top uint64) (uint64, error) {
	late := func(number uint64) (bool, error) {
		b := p.view.blockAt(ctx, number)
		switch {
		case b == nil:
			return false, cmp.Or(p.view.problem, error(&observe.Error{Code: observe.ErrDisagree, Host: p.hosts()}))
		case number == p.view.head && int64(b.Time) <= moment && p.config.Now().Add(-p.config.ClockOffset()).Unix()-int64(b.Time) > staleAfter:
			// The chain seems stuck: unread blocks can be from before that moment.
			return false, &observe.Error{Code: observe.ErrLagging, Host: p.hosts()}
		default:
			return int64(b.Time) > moment, nil
		}
	}
	low, high := top, top+1 // high is after the moment, or not mined yet
	for step := uint64(1); ; step *= 2 {
		is, err := late(low)
		if err != nil {
			return 0, err
		}
		if !is || low == 0 {
			break
		}
		high, low = low, low-min(step, low)
	}
	for high-low > 1 {
		middle := low + (high-low)/2
		is, err := late(middle)
		if err != nil {
			return 0, err
		}
		if is {
			high = middle
		} else {
			low = middle
		}
	}
	return low, nil
}
