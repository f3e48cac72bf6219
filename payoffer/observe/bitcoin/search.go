package bitcoin

import "context"

const searchAtOnce = 200

// search is the progress of the search for used addresses: those below next are used, and at is the next one to
// check.
type search struct {
	started, done bool
	next, at      uint32
}

// findIndex finds the current address, which is after every used one. It runs once in a process, because the ledger can
// be new or an old copy. A long search takes several cycles; done is false until it ends.
func (o *Observer) findIndex(ctx context.Context, v *view, k state) (index uint32, done bool, err error) {
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
		used, err := o.isUsed(ctx, v, s.at)
		if err != nil {
			return 0, false, err
		}
		if !v.quorum() {
			break // the next cycle checks it again
		}
		if s.at++; used {
			s.next = s.at
		}
	}
	o.memory.search = s
	if k.Index != nil && *k.Index > s.next {
		s.next = *k.Index
	}
	// Without enough hosts the ledger's index is used.
	return s.next, s.done || k.Index != nil && !v.quorum(), nil
}

// isUsed reports whether enough hosts list a transaction of the address at an index.
func (o *Observer) isUsed(ctx context.Context, v *view, index uint32) (bool, error) {
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
