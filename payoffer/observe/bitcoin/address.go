package bitcoin

import (
	"context"
	"encoding/hex"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
)

const (
	// gapLimit is how many unpaid addresses in a row a wallet looks through
	// before it stops (BIP-44).
	gapLimit = 20
	// slowEvery is how often addresses older than the last gapLimit are read.
	slowEvery = time.Hour
	// slowAtOnce is how many of them a round reads at least.
	slowAtOnce = 20
	// maxPages bounds the pages of one address: a list that never ends is none.
	maxPages = 2000
	// maxIndex is the last index that has a public address (BIP-32).
	maxIndex = 1<<31 - 1
	// searchAtOnce bounds the addresses that one round searches.
	searchAtOnce = 200
)

// watched is an address of the rail, and its script in hexadecimal.
type watched struct{ address, script string }

// watch derives the address at an index.
func (o *Observer) watch(index uint32) (watched, error) {
	if w, derived := o.derived[index]; derived {
		return w, nil
	}
	address, err := o.config.Rail.Address(index)
	if err != nil {
		return watched{}, err
	}
	script, err := o.config.Rail.ScriptPubKey(index)
	if err != nil {
		return watched{}, err
	}
	w := watched{address, hex.EncodeToString(script)}
	o.derived[index], o.scripts[w.script] = w, w
	return w, nil
}

// readAddresses reads what was paid to the addresses that are due.
func (o *Observer) readAddresses(ctx context.Context, r *reading) error {
	if !o.config.Rail.Extended() {
		above := r.origin
		if r.back < 0 {
			above = max(above, r.Height)
		}
		_, err := o.readAddress(ctx, r, 0, above)
		return err
	}
	oldest, err := o.advance(ctx, r)
	if err != nil {
		return err
	}
	return o.readSlowly(ctx, r, oldest)
}

// readAddress reads the payments to the address at an index above a height, if anything has
// changed there since it was read last.
func (o *Observer) readAddress(ctx context.Context, r *reading, index uint32, above int64) (stats, error) {
	w, err := o.watch(index)
	if err != nil {
		return stats{}, err
	}
	s, err := r.stats(ctx, w.address)
	if err != nil {
		return s, err
	}
	// Instances behind an endpoint may be behind each other, so that a count
	// may run ahead of its list: with each block all is read again.
	now, waiting := mark{r.endpoint, r.tip.hash, s}, r.waiting[w.address]
	if r.memory.marks[w.address] == now && !waiting {
		return s, nil
	}
	// The mempool comes first: what is confirmed in between is in both.
	if s.Mempool.Transactions > 0 || waiting {
		txs, err := r.mempool(ctx, w.address)
		if err != nil {
			return s, err
		}
		for _, tx := range txs {
			if err := o.sight(ctx, r, tx); err != nil {
				return s, err
			}
		}
	}
	if s.Chain.Transactions > 0 || waiting {
		if err := o.readChain(ctx, r, w, above); err != nil {
			return s, err
		}
	}
	r.memory.marks[w.address] = now
	return s, nil
}

// readChain reads the confirmed payments to an address, newest first, down to
// a height.
func (o *Observer) readChain(ctx context.Context, r *reading, w watched, above int64) error {
	after, height, listed := "", int64(maxHeight), make(map[string]bool)
	for range maxPages {
		txs, err := r.chain(ctx, w.address, after)
		if err != nil || len(txs) == 0 {
			return err
		}
		for _, tx := range txs {
			// Newest first, each once: everything else is no such list.
			if !tx.Status.Confirmed || tx.Status.Height > height || listed[tx.ID] {
				return errMoved
			}
			after, height, listed[tx.ID] = tx.ID, tx.Status.Height, true
			if height <= above {
				return nil
			}
			if err := o.sight(ctx, r, tx); err != nil {
				return err
			}
		}
	}
	return r.fail(observe.ErrBadAnswer)
}

// readSlowly reads some of the addresses below oldest: all of them in an hour.
func (o *Observer) readSlowly(ctx context.Context, r *reading, oldest uint32) error {
	m := &r.memory
	if !o.config.Now().Before(m.walkDue) {
		m.walking, m.walkDue = 0, o.config.Now().Add(slowEvery)
	}
	end := min(int64(m.walking)+max(slowAtOnce, int64(oldest)/int64(slowEvery/pollEvery)+1), int64(oldest))
	for ; int64(m.walking) < end; m.walking++ {
		if _, err := o.readAddress(ctx, r, m.walking, r.origin); err != nil {
			return err
		}
	}
	m.walked = m.walked || m.walking >= oldest
	return nil
}

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
