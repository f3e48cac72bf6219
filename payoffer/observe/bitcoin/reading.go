package bitcoin

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
)

const (
	// attempts is how often an endpoint is read again after its chain moved.
	attempts = 3
	// maxTransactions bounds what an endpoint lists in one cycle, because an endpoint can list without end.
	maxTransactions = 50_000
	// evictedAfter is how long a transaction must be unknown before its receipt is dropped. If it returns, so does
	// its receipt.
	evictedAfter = time.Hour
)

// errMoved means that the chain changed during the reading, or that the endpoint's servers are at different blocks.
var errMoved = errors.New("the chain moved")

// reading is what one endpoint shows in one cycle, in one history.
type reading struct {
	*endpoint
	*cycle
	tip     block
	hashes  map[int64]string
	reports map[string]report // by transaction
	// above is the height above which addresses are read, oldest the first one that is read in each cycle, and next the
	// first one without a payment.
	above  int64
	oldest uint32
	next   uint32
	listed int // transactions
}

// report is what an endpoint says of a transaction.
type report struct {
	tx  transaction // without a status in the mempool
	own bool        // it spends the operator's money
	// unknown means that the endpoint does not have it, and failed that it could not be asked.
	unknown, failed bool
}

// agrees reports whether two endpoints say the same. Not to know a transaction and to show it in the mempool is the same,
// because every mempool differs.
func (a report) agrees(b report) bool {
	if a.failed || b.failed || a.own != b.own || a.tx.Status != b.tx.Status {
		return false
	}
	return a.unknown || b.unknown || slices.Equal(a.tx.Outputs, b.tx.Outputs) &&
		slices.EqualFunc(a.tx.Inputs, b.tx.Inputs, func(a, b input) bool { return a.outpoint == b.outpoint })
}

// final returns the last block that can no longer be replaced.
func (r *reading) final() int64 {
	return max(0, r.tip.Height+1-max(minFinal, int64(r.config.Confirmations)+finalMargin))
}

// readStable reads one history, and again if the chain moved.
func (r *reading) readStable(ctx context.Context) error {
	for range attempts {
		r.listed, r.oldest, r.next, r.hashes, r.reports = 0, 0, 0, make(map[int64]string), make(map[string]report)
		err := r.readTip(ctx)
		if err == nil {
			r.witness.MarkResponded()
			err = r.readAll(ctx)
		}
		if !errors.Is(err, errMoved) {
			return err
		}
	}
	return r.fail(observe.ErrBadAnswer)
}

// readTip reads the newest block and checks that the endpoint has the history that was read before.
func (r *reading) readTip(ctx context.Context) error {
	if err := r.ready(ctx, r.config.Rail.CAIP2()); err != nil {
		return err
	}
	hash, err := r.tipHash(ctx)
	if r.tip = r.endpoint.tip; err == nil && hash != r.tip.ID {
		if r.tip, err = r.block(ctx, hash); isNotFound(err) {
			err = errMoved
		}
	}
	switch {
	case err != nil:
		return err
	case r.tip.Height < max(r.Height, r.reached): // it has lost blocks
		return r.fail(observe.ErrLagging)
	case r.anchor == "":
		return nil
	}
	if err = r.check(ctx, r.Height, r.anchor); err == errMoved {
		err = r.fail(observe.ErrHistory)
	}
	return err
}

// at returns the hash of the block at a height, the same during the whole reading.
func (r *reading) at(ctx context.Context, height int64) (hash string, err error) {
	if height == r.tip.Height {
		return r.tip.ID, nil
	}
	if hash = r.hashes[height]; hash != "" {
		return hash, nil
	}
	if hash, err = r.blockAt(ctx, height); isNotFound(err) {
		return "", errMoved // height is not above the tip
	}
	r.hashes[height] = hash
	return hash, err
}

// check checks that a block is on the best chain, as everything that is read.
func (r *reading) check(ctx context.Context, height int64, block string) error {
	hash, err := r.at(ctx, height)
	if err == nil && hash != block {
		err = errMoved
	}
	return err
}

// checkTip checks that the tip is still on the best chain, so that everything was read from one history.
func (r *reading) checkTip(ctx context.Context) error {
	hash, err := r.blockAt(ctx, r.tip.Height)
	if isNotFound(err) || err == nil && hash != r.tip.ID {
		return errMoved
	}
	return err
}

// readAll reads the addresses, and looks up receipts.
func (r *reading) readAll(ctx context.Context) error {
	if len(r.readings) == 0 {
		r.lookUps = r.dueRows()
	}
	if r.above = 0; !r.config.Rail.Extended() {
		if r.above = r.Height; len(r.readings) > 0 {
			r.above = min(r.Height, r.witnessed) // what no witness has read
		}
	}
	if err := r.advance(ctx); err != nil {
		return err
	}
	for i := range r.oldest {
		if i/slowAtOnce%slowCycles != r.swept%slowCycles {
			continue
		}
		if _, err := r.readAddress(ctx, i); err != nil {
			return err
		}
	}
	for _, row := range r.lookUps {
		if err := r.lookUp(ctx, row.Transaction); err != nil {
			return err
		}
	}
	return r.checkTip(ctx)
}

// reportOf returns that the endpoint shows a transaction.
func (r *reading) reportOf(ctx context.Context, tx transaction) (said report, err error) {
	if tx.Status.Height > r.tip.Height {
		tx.Status = status{}
	}
	if said.tx = tx; tx.Status.Confirmed {
		err = r.check(ctx, tx.Status.Height, tx.Status.Block)
	}
	if err == nil {
		said.own, err = r.spendsOwn(tx)
	}
	return said, err
}

// lookUp asks for a transaction, unless it was read already.
func (r *reading) lookUp(ctx context.Context, id string) error {
	if _, read := r.reports[id]; read {
		return nil
	}
	var said report
	tx, err := r.transaction(ctx, id)
	for _, row := range r.byTransaction[id] {
		if err == nil && !tx.has(row) && evidenceOf(row).Block > 0 {
			err = r.fail(observe.ErrBadAnswer) // the outputs of a transaction do not change
		}
	}
	switch {
	case err == nil:
		said, err = r.reportOf(ctx, tx)
	case isNotFound(err):
		said, err = report{unknown: true}, nil
	}
	if err == nil {
		r.reports[id] = said
	}
	return err
}
