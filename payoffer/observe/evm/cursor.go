package evm

import (
	"context"
	"strconv"

	"github.com/ethereum/go-ethereum/common"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
)

// anchor reads the cursor, which stands at a final block, and requires that
// the endpoints still show that block. While they show another one, nothing
// they say is recorded: history has changed, or this is another chain.
func (p *pass) anchor(ctx context.Context) error {
	cursor, found, err := observe.Cursor(ctx, p.config.Ledger, p.config.OfferID, p.account)
	if err != nil || !found || cursor.Position == "" {
		return err
	}
	if p.covered, err = strconv.ParseUint(cursor.Position, 10, 64); err != nil {
		return observe.ErrNoLedger
	}
	same, other, behind := 0, make(map[*reader]error), make(map[*reader]error)
	for _, r := range p.view.readers {
		b, err := r.blockOnce(ctx, p.covered)
		switch {
		case err != nil:
			behind[r] = err
		case b == nil:
			behind[r] = &observe.Error{Code: observe.ErrLagging, Host: r.host}
		case b.Hash == common.HexToHash(cursor.Anchor):
			same++
		default:
			other[r] = &observe.Error{Code: observe.ErrDisagree, Host: r.host}
		}
	}
	if len(other) >= p.view.need || same == 0 && len(other) > 0 {
		return &observe.Error{Code: observe.ErrHistory, Host: p.hosts()}
	}
	p.view.leaveOut(other)
	p.view.leaveOut(behind)
	return p.view.usable()
}

// origin is the last block whose money is not counted. The first time it is
// the head on which enough endpoints agree, unless one was configured.
func (p *pass) origin(ctx context.Context) (uint64, error) {
	first := int64(-1)
	switch {
	case p.config.FromBlock > 0:
		first = int64(p.config.FromBlock - 1)
	case p.view.quorum():
		first = int64(p.view.head)
	}
	origin, err := observe.Origin(ctx, p.config.Ledger, p.config.OfferID, p.account, first)
	if err == nil && origin < 0 {
		err = p.view.problem
	}
	return uint64(origin), err
}

// cursorAt makes the cursor at a final block, or none when that is no news or
// the endpoints do not agree on its hash.
func (p *pass) cursorAt(ctx context.Context, number uint64) *ledger.Cursor {
	if number <= p.covered {
		return nil
	}
	votes := make(map[common.Hash]int)
	for _, r := range p.view.readers {
		b, err := r.blockOnce(ctx, number)
		if err != nil || b == nil {
			continue
		}
		if votes[b.Hash]++; votes[b.Hash] >= p.view.need {
			return &ledger.Cursor{
				Offer: p.config.OfferID, Account: p.account, Position: strconv.FormatUint(number, 10), Anchor: b.Hash.Hex(), OKAt: p.config.Now().Unix(),
			}
		}
	}
	return nil
}
