package bitcoin

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
)

// attempts is how often an endpoint is read again after its chain moved.
const attempts = 3

// errMoved means that the chain changed during the reading, or that the endpoint's servers are at different blocks.
var errMoved = errors.New("the chain moved")

type tip struct {
	height int64
	hash   string
	time   int64
}

// reader is an endpoint in one cycle, reading one history.
type reader struct {
	*endpoint
	network    string // CAIP-2
	from       state
	finalDepth int64
	tipRead    bool
	tip        tip
	hashes     map[int64]string
	reports    map[string]report
	// index is the first address without a listed payment; paid and first are the results of isUsed and before.
	index uint32
	paid  bool
	first int64
	// listed counts the listed transactions, and waited is how long the other hosts have waited for this one.
	listed int64
	waited time.Duration
	// responses are stored if the cycle is recorded. contradictory has the lists that contradict earlier ones.
	responses     responses
	contradictory map[string]list
}

func (r *reader) final() int64 { return max(0, r.tip.height-r.finalDepth+1) }

// readStable runs work on one history, and again if the chain moved. A contradictory list replaces the earlier one.
func (r *reader) readStable(ctx context.Context, work func(context.Context, *reader) error) error {
	// Payments and reorganizations are read without shared responses.
	r.fresh = len(r.from.rows) > 0 || r.shared.unshared()
	left := attempts
	for left > 0 {
		if r.fresh {
			left--
		}
		err := r.readTip(ctx)
		if err == nil {
			err = work(ctx, r)
		}
		if !errors.Is(err, errMoved) {
			return err
		}
		r.tipRead, r.fresh = false, true
	}
	maps.Copy(r.endpoint.responses.lists, r.contradictory)
	return r.fail(observe.ErrBadAnswer)
}

// readTip reads the newest block and checks that the endpoint has the history that was read before.
func (r *reader) readTip(ctx context.Context) (err error) {
	if r.tipRead {
		return nil
	}
	r.listed = 0
	r.hashes, r.reports, r.contradictory = make(map[int64]string), make(map[string]report), make(map[string]list)
	r.responses = r.endpoint.responses.clone()
	if err := r.ready(ctx, r.network); err != nil {
		return err
	}
	if r.tip.height, err = r.height(ctx); err != nil {
		return err
	}
	if r.tip.height < max(r.from.Height, r.from.reached) { // it has lost blocks
		return r.fail(observe.ErrLagging)
	}
	if r.tip.hash, err = r.at(ctx, r.tip.height); err != nil {
		return err
	}
	if r.tip.time, err = r.timeOf(ctx, r.tip.hash); err != nil {
		return err
	}
	r.responses.tip = r.tip
	if r.from.found {
		anchor, err := r.at(ctx, r.from.Height)
		if err == nil && anchor != r.from.anchor {
			err = r.fail(observe.ErrHistory)
		}
		if err != nil {
			return err
		}
	}
	r.tipRead = true
	return nil
}

func (r *reader) timeOf(ctx context.Context, hash string) (int64, error) {
	if known := r.endpoint.responses.tip; known.hash == hash {
		return known.time, nil
	}
	at, err := r.blockTime(ctx, hash)
	if errors.Is(err, errNotFound) {
		err = errMoved
	}
	return at, err
}

// at returns the hash of the block at a height, the same during the whole reading.
func (r *reader) at(ctx context.Context, height int64) (string, error) {
	if hash, read := r.hashes[height]; read {
		return hash, nil
	}
	hash, err := r.blockAt(ctx, height)
	if errors.Is(err, errNotFound) {
		return "", errMoved // height is not above the tip
	}
	if err == nil {
		r.hashes[height] = hash
	}
	return hash, err
}

// depth returns a transaction's confirmations; 0 in the mempool and above the tip. A block that is not on the best
// chain means that the chain moved.
func (r *reader) depth(ctx context.Context, s status) (int64, error) {
	if !s.Confirmed || s.Height > r.tip.height {
		return 0, nil
	}
	hash, err := r.at(ctx, s.Height)
	if err == nil && hash != s.Block {
		err = errMoved
	}
	return r.tip.height - s.Height + 1, err
}

// checkTip checks that the tip is still on the best chain, so that everything was read from one history.
func (r *reader) checkTip(ctx context.Context) error {
	r.fresh = r.fresh || len(r.reports) > 0
	hash, err := r.blockAt(ctx, r.tip.height)
	if errors.Is(err, errNotFound) || err == nil && hash != r.tip.hash {
		return errMoved
	}
	return err
}
