package bitcoin

import (
	"context"
	"encoding/hex"
	"errors"
	"sync"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

const (
	// changeAhead is how far beyond the current address change addresses are derived: each outgoing payment uses one.
	changeAhead = 1000
	// maxPrevious is how many previous transactions are looked up if the endpoint does not tell what is spent.
	maxPrevious = 25
)

// wallet has the scripts of an account of this offer, change included.
type wallet struct {
	rail *offer.Bitcoin

	mu sync.Mutex // guards the fields below, which all readers share
	// index is that of the current address; external and internal are how far the chains are derived.
	index              uint32
	external, internal uint32
	scripts            map[string]bool
}

// has reports whether a script is the wallet's.
func (w *wallet) has(script string) (bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	end := w.index + 1 // a single address has only the first
	if w.rail.Extended() {
		end += gapLimit
	}
	if err := w.derive(&w.external, min(end, maxIndex), w.rail.ScriptPubKey); err != nil {
		return false, err
	}
	if w.rail.Extended() {
		if err := w.derive(&w.internal, min(w.index+changeAhead, maxIndex), w.rail.ChangeScript); err != nil {
			return false, err
		}
	}
	return w.scripts[script], nil
}

func (w *wallet) derive(from *uint32, end uint32, script func(uint32) ([]byte, error)) error {
	for ; *from < end; *from++ {
		derived, err := script(*from)
		if err != nil {
			return err
		}
		w.scripts[hex.EncodeToString(derived)] = true
	}
	return nil
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
			w = &wallet{rail: rail, scripts: make(map[string]bool)}
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
func (o *Observer) spendsOwn(ctx context.Context, r *reader, tx transaction) (bool, error) {
	looked := 0
	for _, in := range tx.Inputs {
		if !in.HasScript && in.Transaction != nothing && looked < maxPrevious {
			looked++
			previous, err := r.transaction(ctx, in.Transaction)
			if errors.Is(err, errNotFound) || err == nil && int(in.Index) >= len(previous.Outputs) {
				return false, r.fail(observe.ErrBadAnswer) // a spent output exists
			}
			if err != nil {
				return false, err
			}
			in.Script = previous.Outputs[in.Index].Script
		}
		if _, ours := o.scripts[in.Script]; ours {
			return true, nil
		}
		for _, w := range o.wallets {
			if ours, err := w.has(in.Script); err != nil || ours {
				return ours, err
			}
		}
	}
	return false, nil
}
