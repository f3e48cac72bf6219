package bitcoin

import (
	"context"
	"encoding/hex"
	"slices"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
)

const (
	// gapLimit is how many unpaid addresses in a row a wallet searches (BIP-44).
	gapLimit = 20
	// slowEvery is how often addresses older than the last gapLimit are read, at least slowAtOnce in a cycle.
	slowEvery  = time.Hour
	slowAtOnce = 20
	// maxTransactions bounds what an endpoint lists in one cycle, because an endpoint can list without end.
	maxTransactions = 50_000
	// maxIndex is the last index that has a public address (BIP-32).
	maxIndex = 1<<31 - 1
)

// watched is an address of the rail and its script in hexadecimal.
type watched struct{ address, script string }

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

// watchUpTo derives the addresses up to an index, so that payments to all of them are recognized by script.
func (o *Observer) watchUpTo(last uint32) error {
	for i := range last + 1 {
		if _, err := o.watch(i); err != nil {
			return err
		}
	}
	return nil
}

// readPlan reads the planned addresses and receipts from one endpoint.
func (o *Observer) readPlan(ctx context.Context, r *reader, p *plan) error {
	if err := o.advance(ctx, r, p); err != nil {
		return err
	}
	for i := p.sweepFrom; i < p.sweepTo; i++ {
		if _, err := o.readAddress(ctx, r, p, i); err != nil {
			return err
		}
	}
	return o.recheck(ctx, r, p)
}

// advance reads the current address and the last ones before it. After a payment to the current one it
// continues with the next one.
func (o *Observer) advance(ctx context.Context, r *reader, p *plan) error {
	r.index = p.index
	// confirmed is one more than the last index with a confirmed payment.
	confirmed := int64(p.oldest)
	for i := p.oldest; i <= r.index; i++ {
		l, err := o.readAddress(ctx, r, p, i)
		if err != nil {
			return err
		}
		if l.confirmed {
			confirmed = int64(i) + 1
		}
		// An unconfirmed payment can vanish and leave a gap. A wallet must still find the address behind the gaps.
		near := int64(i)+1 < confirmed+gapLimit
		if i == r.index && i < p.last && (l.confirmed || l.used && near) {
			r.index++
		}
	}
	return nil
}

// readAddress reads the payments to an address if anything has changed there since the last reading.
func (o *Observer) readAddress(ctx context.Context, r *reader, p *plan, index uint32) (list, error) {
	w := o.derived[index]
	s, err := r.stats(ctx, w.address)
	if err != nil {
		return list{}, err
	}
	// Servers behind one endpoint can lag behind each other, so with each block everything is read again.
	prev, known := r.responses.lists[w.address]
	waiting := p.waiting[w.address]
	if !r.fresh && s != (stats{}) && !(known && prev.stats == s) {
		return list{}, errMoved // the change may be newer than the shared tip
	}
	if known && !waiting && prev.block == r.tip.hash && prev.stats == s && prev.above <= p.above {
		return prev, nil
	}
	l := list{block: r.tip.hash, stats: s, above: p.above, final: r.final()}
	// The mempool comes first, so that a payment confirmed in between is in both lists.
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
			if err := o.addIfOurs(ctx, r, tx); err != nil {
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
		r.contradictory[w.address] = l
		return list{}, errMoved
	}
	r.responses.lists[w.address] = l
	return l, nil
}

// readChain reads the confirmed payments to an address, newest first, down to a height. The number of transactions
// must match the count.
func (o *Observer) readChain(ctx context.Context, r *reader, w watched, l *list) error {
	after, height, listed := "", int64(maxHeight), make(map[string]bool)
	for {
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
			if !tx.Status.Confirmed || tx.Status.Height > height || listed[tx.ID] {
				return errMoved
			}
			after, height, listed[tx.ID] = tx.ID, tx.Status.Height, true
			l.confirmed = l.confirmed || tx.touches(w.script)
			if height <= l.above {
				return l.end(1)
			}
			l.heights = append(l.heights, height)
			if err := o.addIfOurs(ctx, r, tx); err != nil {
				return err
			}
		}
	}
}

// list bounds what the endpoint lists.
func (r *reader) list(txs []transaction) error {
	if r.listed += int64(len(txs)); r.listed > maxTransactions {
		return r.fail(observe.ErrBadAnswer)
	}
	return nil
}

// end completes a list. seen is the number of known transactions below the part that was read. At least as many of the
// counted ones must be left. If seen is 0, the whole list was read, and none may be left.
func (l *list) end(seen int64) error {
	l.older = l.stats.Chain.Transactions - int64(len(l.heights))
	if l.older < seen || seen == 0 && l.older > 0 {
		return errMoved
	}
	return nil
}

// addIfOurs reports a transaction that pays this rail.
func (o *Observer) addIfOurs(ctx context.Context, r *reader, tx transaction) error {
	for _, out := range tx.Outputs {
		if _, ours := o.scripts[out.Script]; ours {
			return o.addReport(ctx, r, tx)
		}
	}
	return nil
}

func (t transaction) pays(script string) bool {
	return slices.ContainsFunc(t.Outputs, func(o output) bool { return o.Script == script })
}

// touches reports whether the transaction pays to a script or spends from it.
func (t transaction) touches(script string) bool {
	return t.pays(script) || slices.ContainsFunc(t.Inputs, func(i input) bool { return i.Script == script })
}
