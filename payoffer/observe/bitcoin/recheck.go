package bitcoin

import (
	"context"
	"errors"
	"maps"
	"slices"
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

// recheck looks up the receipts that no address list had. Those that stood in
// a block are all looked up: they count, or are about to.
func (o *Observer) recheck(ctx context.Context, r *reading) error {
	var due, turns []string
	for _, id := range slices.Sorted(maps.Keys(r.rows)) {
		row := r.rows[id]
		_, read := r.sightings[id]
		switch {
		case read:
			delete(r.memory.absent, id)
		case row.Status == ledger.StatusDropped:
			// It is found by its address if it returns, and once a block it is
			// asked whether it can.
			if r.tip.hash != o.tip.hash {
				turns = append(turns, id)
			}
		case r.deep(evidenceOf(row)) && !row.Own && !o.valued(ctx, row):
			// The chain is done with it, and nobody knows its value yet.
		case evidenceOf(row).Block > 0:
			due = append(due, id)
		default:
			turns = append(turns, id)
		}
	}
	for i := range min(recheckAtOnce, len(turns)) {
		due = append(due, turns[(r.memory.turn*recheckAtOnce+i)%len(turns)])
	}
	for _, id := range due {
		if _, read := r.sightings[id]; read {
			continue // another output of the same transaction brought it
		}
		if err := o.lookUp(ctx, r, r.rows[id]); err != nil {
			return err
		}
	}
	return nil
}

// lookUp reads the transaction of a receipt.
func (o *Observer) lookUp(ctx context.Context, r *reading, row ledger.Receipt) error {
	tx, err := r.transaction(ctx, row.Transaction)
	if errors.Is(err, errNotFound) {
		return o.missing(ctx, r, row)
	}
	if err != nil {
		return err
	}
	delete(r.memory.absent, row.ExternalID)
	if err := o.sight(ctx, r, tx); err != nil {
		return err
	}
	if _, read := r.sightings[row.ExternalID]; !read {
		return r.fail(observe.ErrBadAnswer) // the outputs of a transaction do not change
	}
	return nil
}

// missing is a receipt whose transaction the endpoint does not know: it was
// replaced, or pushed out of the mempool, or its block left the chain.
func (o *Observer) missing(ctx context.Context, r *reading, row ledger.Receipt) error {
	conflict, final, err := r.conflict(ctx, row, o.final())
	if err != nil {
		return err
	}
	if conflict {
		s := observe.Restated(row, ledger.StatusDropped, "replaced")
		s.Final = final
		r.sightings[row.ExternalID] = *s
		return nil
	}
	if row.Status == ledger.StatusDropped {
		return nil
	}
	since, known := r.memory.absent[row.ExternalID]
	if !known {
		since = o.config.Now()
		r.memory.absent[row.ExternalID] = since
	}
	if o.config.Now().Sub(since) > evictedAfter && o.absentElsewhere(ctx, r, row.Transaction) {
		r.sightings[row.ExternalID] = *observe.Restated(row, ledger.StatusDropped, "evicted")
		return nil
	}
	s := observe.Restated(row, ledger.StatusSeen, "reorg")
	if row.Own {
		s.State = ledger.StatusMoved
	}
	proof := evidenceOf(row)
	proof.Block, proof.BlockHash = 0, ""
	s.Evidence = observe.Evidence(proof)
	r.sightings[row.ExternalID] = *s
	return nil
}

// conflict reports whether another transaction spends what a receipt's
// transaction spends, and whether that one is final.
func (r *reading) conflict(ctx context.Context, row ledger.Receipt, final int64) (found, deep bool, err error) {
	for _, text := range evidenceOf(row).Inputs {
		in, ok := parseOutpoint(text)
		if !ok {
			continue
		}
		s, err := r.spender(ctx, in)
		if err != nil {
			return false, false, err
		}
		if !s.Spent || s.Transaction == row.Transaction {
			continue
		}
		depth, err := r.depth(ctx, s.Status)
		return true, depth >= final, err
	}
	return false, false, nil
}

func parseOutpoint(text string) (outpoint, bool) {
	txid, index, found := strings.Cut(text, ":")
	n, err := strconv.ParseUint(index, 10, 32)
	return outpoint{txid, uint32(n)}, found && err == nil && hash256.MatchString(txid)
}

// absentElsewhere reports whether another endpoint does not know a transaction
// either. Without another endpoint there is nobody to ask.
func (o *Observer) absentElsewhere(ctx context.Context, r *reading, txid string) bool {
	for _, e := range o.endpoints {
		if e == r.endpoint || e.due.After(o.config.Now()) || e.ready(ctx, o.config.Rail.CAIP2()) != nil {
			continue
		}
		_, err := e.transaction(ctx, txid)
		if err == nil || errors.Is(err, errNotFound) {
			return err != nil
		}
	}
	return len(o.endpoints) == 1
}
