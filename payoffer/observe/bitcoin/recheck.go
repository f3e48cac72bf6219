package bitcoin

import (
	"context"
	"errors"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
)

const (
	// recheckAtOnce is how many unconfirmed payments a round looks up one by
	// one; they take turns. Esplora lists no more than 50 of an address, and
	// whoever makes thousands must not use up the endpoint's patience.
	recheckAtOnce = 25
	// evictedAfter is how long a transaction is to be unknown before it is
	// given up. It may return: then so does its receipt.
	evictedAfter = time.Hour
)

// claim is what an endpoint says of a transaction that pays this rail: it shows
// it, confirmed by so many blocks, or it does not know it.
type claim struct {
	tx    transaction // without a status in the mempool
	depth int64
	own   bool     // it spends the operator's money
	gone  *absence // nil where it is shown
}

// absence is why a transaction is not known: another one spends what it spends, or
// it is known no more, for long or not.
type absence struct {
	replaced, long bool
	// block is where the other one stands; 0 where it is in none.
	block int64
}

// claim takes a transaction into the reading.
func (o *Observer) claim(ctx context.Context, r *reader, tx transaction) error {
	depth, err := r.depth(ctx, tx.Status)
	if err != nil {
		return err
	}
	if depth == 0 {
		tx.Status = status{}
	}
	if _, again := r.claims[tx.ID]; !again {
		r.kept += tx.size()
	}
	if r.kept > maxKept {
		return r.fail(observe.ErrBadAnswer)
	}
	own, err := o.own(ctx, r, tx)
	r.claims[tx.ID] = claim{tx: tx, depth: depth, own: own}
	return err
}

// size is about how much memory a transaction takes, in bytes.
func (t transaction) size() (n int64) {
	const hash, each = 64, 100 // of a text in hexadecimal, and of a value with what points to it
	for _, in := range t.Inputs {
		n += int64(each + hash + len(in.Script))
	}
	for _, out := range t.Outputs {
		n += int64(each + len(out.Script))
	}
	return n + each + 2*hash
}

// has reports whether a transaction has the output of a receipt.
func (t transaction) has(row ledger.Receipt) bool {
	name, ok := parseOutpoint(row.ExternalID)
	return ok && int64(name.Index) < int64(len(t.Outputs)) && t.Outputs[name.Index].Value == row.Amount
}

// recheck looks up the receipts of the plan that no address list had.
func (o *Observer) recheck(ctx context.Context, r *reader, p *plan) error {
	for _, row := range p.due {
		if _, read := r.claims[row.Transaction]; read {
			continue // also where another output of the same transaction brought it
		}
		if err := o.lookUp(ctx, r, row); err != nil {
			return err
		}
	}
	maps.DeleteFunc(r.words.absent, func(id string, _ time.Time) bool {
		c, read := r.claims[id]
		return read && c.gone == nil || p.byTransaction[id] == nil
	})
	return nil
}

// lookUp reads the transaction of a receipt.
func (o *Observer) lookUp(ctx context.Context, r *reader, row ledger.Receipt) error {
	tx, err := r.transaction(ctx, row.Transaction)
	if errors.Is(err, errNotFound) {
		return o.missing(ctx, r, row)
	}
	if err != nil {
		return err
	}
	if !tx.has(row) && evidenceOf(row).Block > 0 {
		return r.fail(observe.ErrBadAnswer) // the outputs of a transaction do not change
	}
	return o.claim(ctx, r, tx)
}

// missing is a receipt whose transaction the endpoint does not know: it was
// replaced, or pushed out of the mempool, or its block left the chain.
func (o *Observer) missing(ctx context.Context, r *reader, row ledger.Receipt) error {
	why, err := r.conflict(ctx, row)
	if err != nil {
		return err
	}
	since, known := r.words.absent[row.Transaction]
	if !known {
		since = o.config.Now()
		r.words.absent[row.Transaction] = since
	}
	why.long = why.replaced || o.config.Now().Sub(since) > evictedAfter
	r.claims[row.Transaction] = claim{gone: &why}
	return nil
}

// conflict says whether another transaction spends what a receipt's transaction
// spends, and whether that one is final.
func (r *reader) conflict(ctx context.Context, row ledger.Receipt) (why absence, err error) {
	for _, text := range evidenceOf(row).Inputs {
		in, ok := parseOutpoint(text)
		if !ok {
			continue
		}
		s, err := r.spender(ctx, in)
		if err != nil {
			return why, err
		}
		if !s.Spent || s.Transaction == row.Transaction {
			continue
		}
		depth, err := r.depth(ctx, s.Status)
		if depth > 0 {
			why.block = s.Status.Height
		}
		why.replaced = true
		return why, err
	}
	return why, nil
}

func parseOutpoint(text string) (outpoint, bool) {
	txid, index, found := strings.Cut(text, ":")
	n, err := strconv.ParseUint(index, 10, 32)
	return outpoint{txid, uint32(n)}, found && err == nil && hash256.MatchString(txid)
}
