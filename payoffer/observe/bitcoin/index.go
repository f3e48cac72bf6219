package bitcoin

import (
	"context"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
)

const (
	// maxIndex is the last index that has a public address (BIP-32).
	maxIndex = 1<<31 - 1
	// searchAtOnce bounds the addresses that one round searches.
	searchAtOnce = 200
)

// search is how far the chain was searched for used addresses: those below
// next are taken, and at is the first that was not looked at.
type search struct {
	started, done bool
	next, at      uint32
}

// restore raises the index of the current address past every one that was paid
// to, once a process: the ledger may be new, or restored from an old copy. A long
// search takes several rounds.
func (o *Observer) restore(ctx context.Context, r *reading) error {
	if !o.config.Rail.Extended() {
		return nil
	}
	s := r.memory.search
	if !s.started {
		s.started = true
		if r.Index != nil {
			s.next, s.at = *r.Index, *r.Index
		}
	}
	for range searchAtOnce {
		if s.done = s.at >= s.next+gapLimit; s.done {
			break
		}
		w, err := o.watch(s.at)
		if err != nil {
			return err
		}
		found, err := r.stats(ctx, w.address)
		if err != nil {
			return err
		}
		if s.at++; found.Chain.Transactions > 0 {
			s.next = s.at
		}
	}
	r.memory.search = s
	if r.restoring = !s.done; r.restoring {
		o.search = s
	} else if r.Index == nil || *r.Index < s.next {
		r.Index = &s.next
	}
	return nil
}

// advance reads the current address and the last ones before it, and moves on
// to the next address when the current one was paid to. It returns the oldest
// index that was read.
func (o *Observer) advance(ctx context.Context, r *reading) (oldest uint32, err error) {
	index := *r.Index
	for i := range index { // money of every address is known by its script
		if _, err := o.watch(i); err != nil {
			return 0, err
		}
	}
	oldest = index - min(index, gapLimit)
	// confirmed is one more than the last index with a confirmed payment. What
	// lies before the oldest one is too far away to matter.
	confirmed := int64(oldest)
	for i := oldest; i <= index; i++ {
		if i == oldest+searchAtOnce {
			return 0, r.fail(observe.ErrBadAnswer) // every address cannot be used
		}
		s, err := o.readAddress(ctx, r, i, r.origin)
		if err != nil {
			return 0, err
		}
		if s.Chain.Transactions > 0 {
			confirmed = int64(i) + 1
		}
		// A payment in the mempool may vanish and leave a gap. A row of gaps
		// must not take the address out of the wallet's sight.
		near := int64(i)+1 < confirmed+gapLimit
		if i == index && i < maxIndex && (s.Chain.Transactions > 0 || s.Mempool.Transactions > 0 && near) {
			index++
		}
	}
	r.next.Index = &index
	return oldest, nil
}
