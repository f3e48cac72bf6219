package bitcoin

import (
	"context"
	"encoding/hex"
	"slices"
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
	// maxTransactions bounds what an endpoint lists in one round, and maxKept the
	// size of what is kept of it, in bytes. It is its word that there is so much, and
	// all sites of the server share the memory.
	maxTransactions, maxKept = 50_000, 64 << 20
	// maxIndex is the last index that has a public address (BIP-32).
	maxIndex = 1<<31 - 1
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

// watchUpTo derives the addresses up to an index, so that money of every one is
// known by its script.
func (o *Observer) watchUpTo(last uint32) error {
	for i := range last + 1 {
		if _, err := o.watch(i); err != nil {
			return err
		}
	}
	return nil
}

// readAddresses reads what was paid to the addresses of the plan.
func (o *Observer) readAddresses(ctx context.Context, r *reader, p *plan) error {
	if err := o.advance(ctx, r, p); err != nil {
		return err
	}
	for i := p.walkFrom; i < p.walkTo; i++ {
		if _, err := o.readAddress(ctx, r, p, i); err != nil {
			return err
		}
	}
	return nil
}

// advance reads the current address and the last ones before it, and moves on
// to the next address where a payment to the current one is listed.
func (o *Observer) advance(ctx context.Context, r *reader, p *plan) error {
	r.index = p.index
	// confirmed is one more than the last index with a confirmed payment. What
	// lies before the oldest one is too far away to matter.
	confirmed := int64(p.oldest)
	for i := p.oldest; i <= r.index; i++ {
		l, err := o.readAddress(ctx, r, p, i)
		if err != nil {
			return err
		}
		if l.confirmed {
			confirmed = int64(i) + 1
		}
		// A payment in the mempool may vanish and leave a gap. A row of gaps
		// must not take the address out of the wallet's sight.
		near := int64(i)+1 < confirmed+gapLimit
		if i == r.index && i < p.last && (l.confirmed || l.used && near) {
			r.index++
		}
	}
	return nil
}

// readAddress reads the payments to the address at an index, if anything has
// changed there since it was read last.
func (o *Observer) readAddress(ctx context.Context, r *reader, p *plan, index uint32) (list, error) {
	w := o.derived[index]
	s, err := r.stats(ctx, w.address)
	if err != nil {
		return list{}, err
	}
	// Instances behind an endpoint may be behind each other: with each block all is
	// read again.
	prev, known := r.words.lists[w.address]
	waiting := p.waiting[w.address]
	if !r.anew && s != (stats{}) && !(known && prev.stats == s) {
		return list{}, errMoved // what is new here may be newer than what others heard of the tip
	}
	if known && !waiting && prev.block == r.tip.hash && prev.stats == s && prev.above <= p.above {
		return prev, nil
	}
	l := list{block: r.tip.hash, stats: s, above: p.above, final: r.final()}
	// The mempool comes first: what is confirmed in between is in both.
	if s.Mempool.Transactions > 0 || waiting {
		txs, err := r.mempool(ctx, w.address)
		if err != nil {
			return list{}, err
		}
		if err := r.list(txs); err != nil {
			return list{}, err
		}
		for _, tx := range txs {
			l.used = l.used || tx.pays(w.script)
			if err := o.ours(ctx, r, tx); err != nil {
				return list{}, err
			}
		}
	}
	if s.Chain.Transactions > 0 || waiting {
		if err := o.readChain(ctx, r, w, &l); err != nil {
			return list{}, err
		}
	}
	if known && !l.follows(prev) {
		l.block = ""
		r.odd[w.address] = l
		return list{}, errMoved
	}
	r.words.lists[w.address] = l
	return l, nil
}

// readChain reads the confirmed payments to an address, newest first, down to
// a height. A list that is shorter or longer than it was counted is none.
func (o *Observer) readChain(ctx context.Context, r *reader, w watched, l *list) error {
	after, height, listed := "", int64(maxHeight), make(map[string]bool)
	for range maxPages {
		txs, err := r.chain(ctx, w.address, after)
		if err != nil {
			return err
		}
		if len(txs) == 0 {
			return l.end(0)
		}
		if err := r.list(txs); err != nil {
			return err
		}
		for _, tx := range txs {
			// Newest first, each once: everything else is no such list.
			if !tx.Status.Confirmed || tx.Status.Height > height || listed[tx.ID] {
				return errMoved
			}
			after, height, listed[tx.ID] = tx.ID, tx.Status.Height, true
			l.confirmed = l.confirmed || tx.touches(w.script)
			if height <= l.above {
				return l.end(1)
			}
			l.heights = append(l.heights, height)
			if err := o.ours(ctx, r, tx); err != nil {
				return err
			}
		}
	}
	return r.fail(observe.ErrBadAnswer)
}

// list counts what the endpoint lists.
func (r *reader) list(txs []transaction) error {
	if r.listed += int64(len(txs)); r.listed > maxTransactions {
		return r.fail(observe.ErrBadAnswer)
	}
	return nil
}

// end ends a list, of which some transactions up to the height above were seen: no
// fewer than that are left of those that were counted, and none where the whole of
// it was listed.
func (l *list) end(seen int64) error {
	l.older = l.stats.Chain.Transactions - int64(len(l.heights))
	if l.older < seen || seen == 0 && l.older > 0 {
		return errMoved
	}
	return nil
}

// ours takes a transaction into the reading, if it pays this rail.
func (o *Observer) ours(ctx context.Context, r *reader, tx transaction) error {
	for _, out := range tx.Outputs {
		if _, ours := o.scripts[out.Script]; ours {
			return o.claim(ctx, r, tx)
		}
	}
	return nil
}

// pays reports whether an output of the transaction has a script.
func (t transaction) pays(script string) bool {
	return slices.ContainsFunc(t.Outputs, func(o output) bool { return o.Script == script })
}

// touches reports whether the transaction pays to a script, or spends from it.
func (t transaction) touches(script string) bool {
	return t.pays(script) || slices.ContainsFunc(t.Inputs, func(i input) bool { return i.Script == script })
}
