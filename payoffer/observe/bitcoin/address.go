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
)

// watched is an address of the rail, and its script in hexadecimal.
type watched struct {
	index           uint32
	address, script string
}

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
	w := watched{index, address, hex.EncodeToString(script)}
	o.derived[index], o.scripts[w.script] = w, w
	return w, nil
}

// readAddresses reads what was paid to the addresses that are due.
func (o *Observer) readAddresses(ctx context.Context, r *reading) error {
	if !o.config.Rail.Extended() {
		_, err := o.readAddress(ctx, r, 0, max(r.origin, r.Height))
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
