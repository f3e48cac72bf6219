package bitcoin

import "context"

// searchAtOnce bounds the addresses that one round searches.
const searchAtOnce = 200

// search is how far the chain was searched for used addresses: those below
// next are taken, and at is the first that was not looked at.
type search struct {
	started, done bool
	next, at      uint32
}

// restore finds the index of the current address, past every one that was paid
// to, once a process: the ledger may be new, or restored from an old copy. A long
// search takes several rounds. done is false while nothing can be read before it
// goes on.
func (o *Observer) restore(ctx context.Context, v *view, k recalled) (index uint32, done bool, err error) {
	s := o.memory.search
	if !s.started {
		s.started = true
		if k.Index != nil {
			s.next, s.at = *k.Index, *k.Index
		}
	}
	for range searchAtOnce {
		if s.done = s.at >= s.next+gapLimit; s.done || !v.quorum() {
			break
		}
		used, err := o.used(ctx, v, s.at)
		if err != nil {
			return 0, false, err
		}
		if !v.quorum() {
			break // it is looked at again
		}
		if s.at++; used {
			s.next = s.at
		}
	}
	o.memory.search = s
	if k.Index != nil && *k.Index > s.next {
		s.next = *k.Index
	}
	// The ledger's word is good enough for as long as there is no other.
	return s.next, s.done || k.Index != nil && !v.quorum(), nil
}

// used reports whether enough hosts list a transaction of the address at an index.
func (o *Observer) used(ctx context.Context, v *view, index uint32) (bool, error) {
	w, err := o.watch(index)
	if err != nil {
		return false, err
	}
	err = v.each(ctx, func(ctx context.Context, r *reader) error {
		r.paid = false
		s, err := r.stats(ctx, w.address)
		if err != nil || s.Chain.Transactions == 0 {
			return err
		}
		txs, err := r.chain(ctx, w.address, "")
		if err == nil && len(txs) == 0 {
			return errMoved
		}
		for _, tx := range txs {
			r.paid = r.paid || tx.touches(w.script)
		}
		return err
	})
	if err != nil {
		return false, err
	}
	_, paid := agreed(v, func(r *reader) (bool, bool) { return true, r.paid })
	return paid, nil
}
