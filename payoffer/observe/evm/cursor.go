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
	cursor, found, err := p.rows.Cursor(ctx, p.offerID, p.usdc.Account())
	if err != nil {
		return errLedger
	}
	if !found || cursor.Position == "" {
		return nil
	}
	if p.covered, err = strconv.ParseUint(cursor.Position, 10, 64); err != nil {
		return errLedger
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
	first := ""
	switch {
	case p.fromBlock > 0:
		first = strconv.FormatUint(p.fromBlock-1, 10)
	case p.view.quorum():
		first = strconv.FormatUint(p.view.head, 10)
	}
	stored, err := p.rows.SetOrigin(ctx, p.offerID, p.usdc.Account(), first)
	if err != nil {
		return 0, errLedger
	}
	if stored == "" {
		return 0, p.view.problem
	}
	origin, err := strconv.ParseUint(stored, 10, 64)
	if err != nil {
		return 0, errLedger
	}
	return origin, nil
}

// cursorAt makes the cursor at a final block, or none when that is no news or
// the endpoints do not agree on its hash.
func (p *pass) cursorAt(ctx context.Context, number uint64) *ledger.Cursor {
	if number <= p.covered || !p.view.quorum() {
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
				Offer: p.offerID, Account: p.usdc.Account(), Position: strconv.FormatUint(number, 10), Anchor: b.Hash.Hex(), OKAt: p.now().Unix(),
			}
		}
	}
	return nil
}
