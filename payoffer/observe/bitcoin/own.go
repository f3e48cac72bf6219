package bitcoin

import (
	"cmp"
	"context"
	"encoding/hex"
	"slices"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// changeAhead is how far beyond the current address change addresses are derived: each outgoing payment uses one.
const changeAhead = 1000

// wallet is an account of this offer. index is that of its current address; external and internal are how far its chains
// are derived.
type wallet struct {
	rail                      *offer.Bitcoin
	index, external, internal uint32
}

// derive adds the wallet's scripts in hexadecimal, change included.
func (w *wallet) derive(scripts map[string]bool) error {
	external, internal := uint32(1), uint32(0)
	if w.rail.Extended() {
		external, internal = min(w.index+1+gapLimit, maxIndex), min(w.index+changeAhead, maxIndex)
	}
	add := func(next *uint32, end uint32, derive func(uint32) ([]byte, error)) error {
		for ; *next < end; *next++ {
			script, err := derive(*next)
			if err != nil {
				return err
			}
			scripts[hex.EncodeToString(script)] = true
		}
		return nil
	}
	return cmp.Or(add(&w.external, external, w.rail.ScriptPubKey), add(&w.internal, internal, w.rail.ChangeScript))
}

// loadWallets loads the offer's present and former accounts on this network. Money that moves between them is not a
// payment.
func (o *Observer) loadWallets(ctx context.Context) error {
	accounts, err := o.config.Ledger.Accounts(ctx, o.config.OfferID)
	if err != nil {
		return observe.ErrNoLedger
	}
	for _, account := range accounts {
		w, known := o.wallets[account.ID]
		if !known {
			rail, err := offer.ParseBitcoinAccount(account.ID, 0)
			if err != nil || rail.CAIP2() != o.config.Rail.CAIP2() {
				continue
			}
			w = &wallet{rail: rail}
			o.wallets[account.ID] = w
		}
		if !w.rail.Extended() {
			continue
		}
		cursor, found, err := observe.Cursor(ctx, o.config.Ledger, o.config.OfferID, account.ID)
		if err != nil {
			return err
		}
		if p, err := parsePosition(cursor); found && err == nil && p.Index != nil {
			w.index = max(w.index, *p.Index)
		}
	}
	return nil
}

// spendsOwn reports whether a transaction spends the operator's own money: then its outputs are change or a transfer.
func (o *Observer) spendsOwn(tx transaction) (bool, error) {
	for _, w := range o.wallets {
		if err := w.derive(o.own); err != nil {
			return false, err
		}
	}
	return slices.ContainsFunc(tx.Inputs, func(in input) bool { return o.scripts[in.Script] != "" || o.own[in.Script] }), nil
}
