package bitcoin

import (
	"cmp"
	"context"
	"encoding/hex"
	"maps"
	"slices"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
)

const (
	// gapLimit is how many unpaid addresses in a row a wallet searches (BIP-44).
	gapLimit = 20
	// Addresses older than the last gapLimit are read slowAtOnce in a cycle, and each again after slowCycles: an hour.
	slowAtOnce = 20
	slowCycles = uint32(time.Hour / pollEvery)
	// recheckAtOnce is how many unconfirmed payments a cycle looks up one by one, in turns. Esplora lists at most 50
	// of an address, and thousands must not exhaust the endpoint's limit.
	recheckAtOnce = 25
	// searchAtOnce is how many addresses an endpoint is asked for used ones in a cycle.
	searchAtOnce = 200
	// maxIndex is the last index that has a public address (BIP-32).
	maxIndex = 1<<31 - 1
	// disorder is more than a block's time can be behind that of an older block.
	disorder = 24 * time.Hour
)

// watch returns the rail's address at an index and recognizes its script from then on.
func (o *Observer) watch(index uint32) (string, error) {
	if address, derived := o.derived[index]; derived {
		return address, nil
	}
	address, err := o.config.Rail.Address(index)
	if err != nil {
		return "", err
	}
	script, err := o.config.Rail.ScriptPubKey(index)
	if err == nil {
		o.derived[index], o.scripts[hex.EncodeToString(script)] = address, address
	}
	return address, err
}

// dueRows returns the receipts to look up if no list has them: all that were in a block, and some of the others. A dropped
// one that returns is in the list of its address.
func (c *cycle) dueRows() (due []ledger.Receipt) {
	var turns []ledger.Receipt
	sorted := slices.SortedFunc(maps.Values(c.rows), func(a, b ledger.Receipt) int { return cmp.Compare(a.ExternalID, b.ExternalID) })
	for _, row := range sorted {
		switch {
		case row.Status == ledger.StatusDropped:
		case evidenceOf(row).Block > 0:
			due = append(due, row)
		default:
			turns = append(turns, row)
		}
	}
	for i := range min(recheckAtOnce, len(turns)) {
		due = append(due, turns[(c.turn*recheckAtOnce+i)%len(turns)])
	}
	return due
}

// search is an endpoint's progress in the search for used addresses: those below next are used, and at is the next one
// to check.
type search struct{ next, at uint32 }

// searchIndex finds the current address, which is after every used one. It searches once in a process, because the
// ledger can be new or an old copy. A long search takes several cycles.
func (r *reading) searchIndex(ctx context.Context) (uint32, error) {
	s, known := &r.search, uint32(0)
	if r.Index != nil {
		known = *r.Index
	}
	if s.at < known {
		*s = search{known, known}
	}
	for asked := 0; s.at < s.next+gapLimit; asked++ {
		if asked == searchAtOnce {
			return 0, r.fail(observe.ErrLagging)
		}
		address, err := r.watch(s.at)
		if err != nil {
			return 0, err
		}
		used, err := r.stats(ctx, address)
		if err != nil {
			return 0, err
		}
		if s.at++; used.chain > 0 {
			s.next = s.at
		}
	}
	return max(s.next, known), nil
}

// advance reads the current address and the last ones before it. After a payment to the current one it continues with the
// next one.
func (r *reading) advance(ctx context.Context) (err error) {
	last := uint32(0)
	if r.config.Rail.Extended() {
		if r.next, err = r.searchIndex(ctx); err != nil {
			return err
		}
		r.oldest, last = r.next-min(r.next, gapLimit), min(r.next+gapLimit, maxIndex)
	}
	for i := range last + 1 { // payments to all addresses are recognized by script
		if _, err := r.watch(i); err != nil {
			return err
		}
	}
	confirmed := int64(r.oldest) // one more than the last index with a confirmed payment
	for i := r.oldest; i <= r.next; i++ {
		s, err := r.readAddress(ctx, i)
		if err != nil {
			return err
		}
		if s.chain > 0 {
			confirmed = int64(i) + 1
		}
		// An unconfirmed payment can vanish and leave a gap. A wallet must still find the address behind the gaps.
		near := int64(i)+1 < confirmed+gapLimit
		if i == r.next && i < last && (s.chain > 0 || s.mempool > 0 && near) {
			r.next++
		}
	}
	return nil
}

// list is what an endpoint lists of an address: the transactions above a height and since a time, when block was the
// newest one.
type list struct {
	block        string
	stats        stats
	above, since int64
	listed       []report
}

// readAddress reads the payments to an address if anything has changed there since the last reading. Servers behind one
// endpoint can lag behind each other, so with each block everything is read again.
func (r *reading) readAddress(ctx context.Context, index uint32) (stats, error) {
	address := r.derived[index]
	s, err := r.stats(ctx, address)
	if err != nil || s == (stats{}) {
		return s, err
	}
	l, known := r.lists[address]
	if !known || l.block != r.tip.ID || l.stats != s || l.above > r.above || l.since > r.origin || s.mempool > 0 || r.undecided {
		l = list{block: r.tip.ID, stats: s, above: r.above, since: r.origin}
		if err := r.readList(ctx, address, &l); err != nil {
			return s, err
		}
		r.lists[address] = l
	}
	for _, said := range l.listed {
		r.reports[said.tx.ID] = said
	}
	return s, nil
}

// readList reads the transactions of an address, newest first, down to a height or a time. The confirmed ones must be as many as
// counted. The mempool comes first, so that a payment confirmed in between is in both lists.
func (r *reading) readList(ctx context.Context, address string, l *list) error {
	if l.stats.mempool > 0 {
		txs, err := r.transactions(ctx, address, "mempool")
		if err != nil {
			return err
		}
		for _, tx := range txs {
			if err := r.include(ctx, l, tx); err != nil {
				return err
			}
		}
	}
	page, height, listed := []string{"chain"}, int64(maxHeight), make(map[string]bool)
	for left := l.stats.chain; left > 0; {
		txs, err := r.transactions(ctx, address, page...)
		if err != nil {
			return err
		}
		if len(txs) == 0 {
			return errMoved
		}
		for _, tx := range txs {
			if !tx.Status.Confirmed || tx.Status.Height > height || listed[tx.ID] || left == 0 {
				return errMoved
			}
			if tx.Status.Height <= l.above || tx.Status.Time < l.since-seconds(disorder) {
				return nil
			}
			if err := r.include(ctx, l, tx); err != nil {
				return err
			}
			left--
			height, listed[tx.ID], page = tx.Status.Height, true, []string{"chain", tx.ID}
		}
	}
	return nil
}

// include adds a listed transaction if it pays this rail and is not older than the account.
func (r *reading) include(ctx context.Context, l *list, tx transaction) error {
	if r.listed++; r.listed > maxTransactions {
		return r.fail(observe.ErrBadAnswer)
	}
	if !slices.ContainsFunc(tx.Outputs, func(out output) bool { return r.scripts[out.Script] != "" }) || r.older(tx.Status) {
		return nil
	}
	said, err := r.reportOf(ctx, tx)
	if err == nil {
		l.listed = append(l.listed, said)
	}
	return err
}

// has reports whether a transaction has the output of a receipt.
func (t transaction) has(row ledger.Receipt) bool {
	name, ok := parseOutpoint(row.ExternalID)
	return ok && int64(name.Index) < int64(len(t.Outputs)) && t.Outputs[name.Index].Value == row.Amount
}
