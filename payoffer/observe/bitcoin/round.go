package bitcoin

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/source"
)

const (
	// rowsAtOnce bounds the receipts that one round follows. Those that are not
	// in a block may be made up for next to nothing: with maxUnconfirmed of them
	// no more are recorded before they are mined, so that those that count
	// always find their place.
	rowsAtOnce, maxUnconfirmed = 1000, 500
	// attempts is how often a round starts again because the chain moved.
	attempts = 3
)

// errMoved says that the chain changed while it was read, or that the
// instances behind an endpoint are at different blocks.
var errMoved = errors.New("the chain moved")

// tip is the newest block; time is the block's, in Unix seconds.
type tip struct {
	height int64
	hash   string
	time   int64
}

// recalled is what a round starts from.
type recalled struct {
	position
	beginning
	found bool
	// reached is the highest block that a payment stands in.
	reached int64
	rows    map[string]ledger.Receipt // those that are not final, by external id
	// waiting are the addresses with payments that the chain may still change.
	waiting map[string]bool
	// crowded says that maxUnconfirmed was reached.
	crowded bool
}

// reading is what one endpoint says in one round.
type reading struct {
	*endpoint
	recalled
	tip       tip
	stale     bool
	restoring bool
	next      position
	hashes    map[int64]string
	sightings map[string]ledger.Sighting // by external id
	memory    memory                     // to be kept once it is committed
}

// Round observes once: it reads from the first endpoint that answers well and
// commits what it read. An error is an *observe.Error. Rounds do not overlap.
func (o *Observer) Round(ctx context.Context) error {
	o.round.Lock()
	defer o.round.Unlock()
	r, err := o.observe(ctx)
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	o.report(r, err)
	return err
}

func (o *Observer) observe(ctx context.Context) (*reading, error) {
	if err := o.keepQuotes(ctx); err != nil {
		return nil, err
	}
	k, err := o.recall(ctx)
	if err != nil {
		return nil, err
	}
	r, err := o.ask(ctx, k)
	if err != nil || r.restoring {
		return r, err
	}
	return r, o.commit(ctx, r)
}

// recall reads from the ledger what a round starts from.
func (o *Observer) recall(ctx context.Context) (k recalled, err error) {
	if k.position, k.found, err = o.position(ctx); err != nil {
		return recalled{}, err
	}
	if k.beginning, err = o.beginning(ctx); err != nil {
		return recalled{}, err
	}
	rows, err := o.config.Ledger.Unfinal(ctx, o.config.OfferID, o.config.Rail.Account(), rowsAtOnce)
	if err != nil {
		return recalled{}, observe.ErrNoLedger
	}
	k.rows = make(map[string]ledger.Receipt, len(rows))
	k.waiting = make(map[string]bool)
	unconfirmed := 0
	for _, row := range rows {
		k.rows[row.ExternalID] = row
		proof, dropped := evidenceOf(row), row.Status == ledger.StatusDropped
		if dropped || proof.Block == 0 {
			unconfirmed++
		}
		if dropped {
			continue
		}
		k.reached = max(k.reached, proof.Block)
		if !k.deep(proof) {
			k.waiting[proof.Address] = true
		}
	}
	k.crowded = unconfirmed >= maxUnconfirmed
	return k, nil
}

// ask reads from the endpoints in order until one answers well. One whose
// newest block is old is believed only if no other has a newer one.
func (o *Observer) ask(ctx context.Context, k recalled) (best *reading, last error) {
	for _, e := range o.endpoints {
		if e.due.After(o.config.Now()) {
			if last == nil {
				last = e.last
			}
			continue
		}
		r, err := o.read(ctx, e, k)
		if ctx.Err() != nil || source.Code(err) == observe.ErrLedger {
			return nil, err
		}
		e.note(err)
		if err != nil {
			last = err
			continue
		}
		if !r.stale {
			return r, nil
		}
		if best == nil || r.tip.height > best.tip.height {
			best = r
		}
	}
	if best != nil {
		return best, nil
	}
	return nil, last
}

// read reads from one endpoint, anew when the chain moved meanwhile.
func (o *Observer) read(ctx context.Context, e *endpoint, k recalled) (*reading, error) {
	if err := e.ready(ctx, o.config.Rail.CAIP2()); err != nil {
		return nil, err
	}
	for range attempts {
		r, err := o.attempt(ctx, e, k)
		if !errors.Is(err, errMoved) {
			return r, err
		}
	}
	return nil, e.fail(observe.ErrBadAnswer)
}

func (o *Observer) attempt(ctx context.Context, e *endpoint, k recalled) (*reading, error) {
	r := &reading{
		endpoint: e, recalled: k, hashes: make(map[int64]string), sightings: make(map[string]ledger.Sighting),
		memory: o.memory.clone(),
	}
	for _, step := range []func(context.Context, *reading) error{
		o.open, o.begin, o.restore, o.readAddresses, o.recheck, o.close,
	} {
		if err := step(ctx, r); err != nil || r.restoring {
			return r, err
		}
	}
	return r, nil
}

// open reads the newest block, and checks that the endpoint has the history
// that was read before.
func (o *Observer) open(ctx context.Context, r *reading) (err error) {
	if r.tip.height, err = r.height(ctx); err != nil {
		return err
	}
	if r.tip.height < max(r.Height, r.reached) { // it knows less than we do
		return r.fail(observe.ErrLagging)
	}
	if r.tip.hash, err = r.at(ctx, r.tip.height); err != nil {
		return err
	}
	if r.tip.time, err = r.memory.blockTime(ctx, r.endpoint, r.tip.hash); err != nil {
		return err
	}
	r.stale = o.config.Now().Unix()-r.tip.time > int64(staleAfter/time.Second)
	if !r.found {
		return nil
	}
	anchor, err := r.at(ctx, r.Height)
	if err == nil && anchor != r.anchor {
		return r.fail(observe.ErrHistory)
	}
	return err
}

// at is the hash of the block at a height, the same for the whole reading.
func (r *reading) at(ctx context.Context, height int64) (string, error) {
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
func (r *reading) depth(ctx context.Context, s status) (int64, error) {
	if !s.Confirmed || s.Height > r.tip.height {
		return 0, nil
	}
	hash, err := r.at(ctx, s.Height)
	if err == nil && hash != s.Block {
		err = errMoved
	}
	return r.tip.height - s.Height + 1, err
}

// close checks that all was read from one history, and moves the position up to
// the last final block.
func (o *Observer) close(ctx context.Context, r *reading) (err error) {
	if err := r.unmoved(ctx); err != nil {
		return err
	}
	r.memory.tip = r.tip
	height := max(0, r.tip.height-o.final()+1)
	if r.found && height <= r.Height {
		r.next.Height, r.next.anchor = r.Height, r.anchor
		return nil
	}
	r.next.Height = height
	r.next.anchor, err = r.at(ctx, height)
	return err
}

// commit keeps what was read, with the cursor that covers it.
func (o *Observer) commit(ctx context.Context, r *reading) error {
	// Another instance may have read further meanwhile.
	stored, found, err := o.position(ctx)
	if err != nil {
		return err
	}
	if found {
		r.next = r.next.later(stored)
	}
	cursor := o.cursor(r.next)
	if r.back >= 0 && r.memory.walked {
		// Another instance may have lowered the origin further meanwhile.
		now, err := o.beginning(ctx)
		if err != nil {
			return err
		}
		if now.origin == r.origin {
			cursor.Back = new(string)
		}
	}
	inOrder := slices.SortedFunc(maps.Values(r.sightings), func(a, b ledger.Sighting) int { // in which the money moved
		return cmp.Or(cmp.Compare(a.OccurredAt, b.OccurredAt), cmp.Compare(a.ExternalID, b.ExternalID))
	})
	refused, err := observe.Record(ctx, o.config.Ledger, &cursor, inOrder...)
	if err != nil {
		return err
	}
	for _, s := range refused {
		o.config.Logger.Error("a payment cannot be recorded; check it by hand", "payment", s.ExternalID)
	}
	o.memory = r.memory
	if r.next.Index == nil {
		return nil
	}
	return o.publish(*r.next.Index)
}
