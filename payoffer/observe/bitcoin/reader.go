package bitcoin

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
)

// attempts is how often an endpoint is read again because its chain moved.
const attempts = 3

// errMoved says that the chain changed while it was read, or that the
// instances behind an endpoint are at different blocks.
var errMoved = errors.New("the chain moved")

// tip is the newest block; time is the block's, in Unix seconds.
type tip struct {
	height int64
	hash   string
	time   int64
}

// reader is an endpoint in one round: what it says of one history.
type reader struct {
	*endpoint
	network string // CAIP-2
	from    recalled
	// finalDepth is the depth at which a block is final.
	finalDepth int64
	// opened says that the newest block was read.
	opened bool
	tip    tip
	hashes map[int64]string
	// claims are what it says of transactions, by their ids.
	claims map[string]claim
	// index is that of the first address that it lists no payment to; paid says
	// that it lists one to the address that is searched, and first is the origin
	// that it finds.
	index uint32
	paid  bool
	first int64
	// listed counts the transactions that it listed, kept is the size of its claims in
	// bytes, and waited how long others that were done have waited for it.
	listed, kept int64
	waited       time.Duration
	// words are to be kept once the round is recorded, and odd are the lists that
	// contradict those of before.
	words words
	odd   map[string]list
}

// final is the height of the last final block; 0 while there is none.
func (r *reader) final() int64 { return max(0, r.tip.height-r.finalDepth+1) }

// steadily has work read from one history, anew when the chain moved meanwhile.
// What an endpoint contradicts itself in is compared with its last word from then
// on.
func (r *reader) steadily(ctx context.Context, work func(context.Context, *reader) error) error {
	// What pays, or may have moved, is read from one history alone.
	r.anew = len(r.from.rows) > 0 || r.shared.alone()
	left := attempts
	for left > 0 {
		if r.anew {
			left--
		}
		err := r.open(ctx)
		if err == nil {
			err = work(ctx, r)
		}
		if !errors.Is(err, errMoved) {
			return err
		}
		r.opened, r.anew = false, true
	}
	maps.Copy(r.endpoint.words.lists, r.odd)
	return r.fail(observe.ErrBadAnswer)
}

// open reads the newest block, and checks that the endpoint has the history
// that was read before.
func (r *reader) open(ctx context.Context) (err error) {
	if r.opened {
		return nil
	}
	r.listed, r.kept = 0, 0
	r.hashes, r.claims, r.odd = make(map[int64]string), make(map[string]claim), make(map[string]list)
	r.words = r.endpoint.words.clone()
	if err := r.ready(ctx, r.network); err != nil {
		return err
	}
	if r.tip.height, err = r.height(ctx); err != nil {
		return err
	}
	if r.tip.height < max(r.from.Height, r.from.reached) { // it knows less than we do
		return r.fail(observe.ErrLagging)
	}
	if r.tip.hash, err = r.at(ctx, r.tip.height); err != nil {
		return err
	}
	if r.tip.time, err = r.timeOf(ctx, r.tip.hash); err != nil {
		return err
	}
	r.words.tip = r.tip
	if r.from.found {
		anchor, err := r.at(ctx, r.from.Height)
		if err == nil && anchor != r.from.anchor {
			err = r.fail(observe.ErrHistory)
		}
		if err != nil {
			return err
		}
	}
	r.opened = true
	return nil
}

// timeOf is the time of the newest block; it is asked for once a block.
func (r *reader) timeOf(ctx context.Context, hash string) (int64, error) {
	if known := r.endpoint.words.tip; known.hash == hash {
		return known.time, nil
	}
	at, err := r.blockTime(ctx, hash)
	if errors.Is(err, errNotFound) {
		err = errMoved
	}
	return at, err
}

// at is the hash of the block at a height, the same for the whole reading.
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

// depth is how many blocks confirm a transaction, its own included; 0 in the
// mempool and above the tip. A block that is not on the best chain confirms
// nothing: then the answers contradict each other.
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

// unmoved checks that the tip is still on the best chain, and so that all was
// read from one history.
func (r *reader) unmoved(ctx context.Context) error {
	r.anew = r.anew || len(r.claims) > 0
	hash, err := r.blockAt(ctx, r.tip.height)
	if errors.Is(err, errNotFound) || err == nil && hash != r.tip.hash {
		return errMoved
	}
	return err
}
