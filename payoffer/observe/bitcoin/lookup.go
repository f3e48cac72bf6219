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
	// recheckAtOnce is how many unconfirmed payments a cycle looks up one by one, in turns. Esplora lists at most 50
	// of an address, and thousands must not exhaust the endpoint's limit.
	recheckAtOnce = 25
	// evictedAfter is how long a transaction must be unknown before its receipt is dropped. If it returns, so does
	// its receipt.
	evictedAfter = time.Hour
)

// report is an endpoint's answer about a transaction that pays this rail: its depth, or that it is unknown.
type report struct {
	tx    transaction // no status in the mempool
	depth int64
	own   bool     // it spends the operator's money
	gone  *absence // nil if it is shown
}

// absence is why a transaction is unknown: it was replaced or evicted. long means replaced, or after evictedAfter.
type absence struct {
	replaced, long bool
	// block is the height of the other transaction; 0 if it is unconfirmed.
	block int64
}

func (o *Observer) addReport(ctx context.Context, r *reader, tx transaction) error {
	depth, err := r.depth(ctx, tx.Status)
	if err != nil {
		return err
	}
	if depth == 0 {
		tx.Status = status{}
	}
	own, err := o.spendsOwn(ctx, r, tx)
	r.reports[tx.ID] = report{tx: tx, depth: depth, own: own}
	return err
}

// has reports whether a transaction has the output of a receipt.
func (t transaction) has(row ledger.Receipt) bool {
	name, ok := parseOutpoint(row.ExternalID)
	return ok && int64(name.Index) < int64(len(t.Outputs)) && t.Outputs[name.Index].Value == row.Amount
}

// recheck looks up the planned receipts that no address list had.
func (o *Observer) recheck(ctx context.Context, r *reader, p *plan) error {
	for _, row := range p.due {
		if _, read := r.reports[row.Transaction]; read {
			continue // possibly by another output
		}
		if err := o.lookUp(ctx, r, row); err != nil {
			return err
		}
	}
	maps.DeleteFunc(r.responses.absent, func(id string, _ time.Time) bool {
		c, read := r.reports[id]
		return read && c.gone == nil || p.byTransaction[id] == nil
	})
	return r.checkTip(ctx)
}

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
	return o.addReport(ctx, r, tx)
}

// missing handles a receipt whose transaction is unknown: it was replaced or evicted, or its block left the chain.
func (o *Observer) missing(ctx context.Context, r *reader, row ledger.Receipt) error {
	why, err := r.conflict(ctx, row)
	if err != nil {
		return err
	}
	since, known := r.responses.absent[row.Transaction]
	if !known {
		since = o.config.Now()
		r.responses.absent[row.Transaction] = since
	}
	why.long = why.replaced || o.config.Now().Sub(since) > evictedAfter
	r.reports[row.Transaction] = report{gone: &why}
	return nil
}

// conflict looks for another transaction that spends the inputs of a receipt's transaction.
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
