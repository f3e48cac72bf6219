package bitcoin

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

const (
	// rowsAtOnce bounds the dropped receipts that one cycle follows.
	rowsAtOnce = 1000
	// maxUnconfirmed bounds the unconfirmed payments of a day, because they cost almost nothing to invent. Further
	// ones are recorded when they are mined. maxUnverified bounds those that too few hosts show.
	maxUnconfirmed, maxUnverified = 500, 100
)

// droppedFor is how long a dropped payment still counts towards maxUnconfirmed.
const droppedFor = 24 * time.Hour

// state is what the ledger contains when a cycle begins.
type state struct {
	position
	found   bool
	account ledger.Account
	// origin is the block after which payments count; -1 while unknown.
	origin int64
	// reached is the highest block that contains a payment.
	reached int64
	rows    map[string]ledger.Receipt // not final, by external id
	// waiting contains the addresses with payments that the chain may still change.
	waiting map[string]bool
	// all says that rows are all receipts that are not final.
	all bool
	// unconfirmed counts the payments of a day that are not in a block, unverified those that too few hosts show.
	unconfirmed, unverified int
}

// reading is what enough hosts show in one cycle.
type reading struct {
	*plan
	tip          tip
	stale        bool
	next         position
	depths       map[string]int64              // of transactions
	own          map[string]bool               // spends the operator's money
	decided      map[string]bool               // enough hosts agree
	observations map[string]ledger.Observation // by external id
	// open are the undecided transactions.
	open []transaction
}

// Poll runs one cycle: it reads all endpoints, and commits what enough hosts show. The error is an *observe.Error:
// the first problem that prevented a complete reading. Cycles do not overlap.
func (o *Observer) Poll(ctx context.Context) error {
	o.cycle.Lock()
	defer o.cycle.Unlock()
	o.busy = false
	v, r, err := o.observe(ctx)
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return o.updateHealth(v, r, err)
}

// observe returns a nil reading while the chain is searched for used addresses.
func (o *Observer) observe(ctx context.Context) (*view, *reading, error) {
	if err := o.storeQuotes(ctx); err != nil {
		return nil, nil, err
	}
	k, err := o.loadState(ctx)
	if err == nil {
		err = o.lowerOrigin(ctx, &k)
	}
	if err != nil {
		return nil, nil, err
	}
	o.busy = len(k.rows) > 0
	v := o.newView(k)
	if err := v.each(ctx, func(context.Context, *reader) error { return nil }); err != nil {
		return v, nil, err
	}
	p, err := o.plan(ctx, v, k)
	if err != nil || p == nil {
		o.busy = o.busy || err == nil
		return v, nil, err
	}
	err = v.each(ctx, func(ctx context.Context, r *reader) error { return o.readPlan(ctx, r, p) })
	if err != nil {
		return v, nil, err
	}
	for _, r := range v.readers {
		r.witness.Update(nil, v.now) // it was read completely
	}
	v.countAwaited()
	r, err := o.join(ctx, v, p)
	if err == nil {
		o.busy = o.busy || len(r.observations) > 0 // a new payment can still change
		err = o.commit(ctx, v, r)
	}
	return v, r, err
}

// join merges the endpoints' reports into one reading.
func (o *Observer) join(ctx context.Context, v *view, p *plan) (*reading, error) {
	r := &reading{
		plan: p, next: p.position, depths: make(map[string]int64), own: make(map[string]bool),
		decided: make(map[string]bool), observations: make(map[string]ledger.Observation),
	}
	newest, enough := v.tip()
	r.tip, r.stale = newest, enough && o.config.Now().Unix()-newest.time > int64(staleAfter/time.Second)
	v.partial = v.partial || !enough
	decisions, disputed := make(map[string]decision), int64(maxHeight)+1
	for _, reader := range v.readers {
		for id := range reader.reports {
			if _, done := decisions[id]; done {
				continue
			}
			d := v.tally(id).decide(p.byTransaction[id], int64(o.config.Confirmations))
			if d.disputed > 0 {
				disputed = min(disputed, d.disputed)
			}
			if decisions[id] = d; d.outvoted {
				v.addProblem(&observe.Error{Code: d.problem, Host: v.names()})
			} else if d.problem != "" {
				v.markPartial(d.problem)
			}
		}
	}
	if !v.listsAgree(p.above) {
		v.markPartial(observe.ErrDisagree)
		disputed = 0
	}
	if enough {
		o.advancePosition(ctx, v, r, disputed)
	}
	for _, id := range slices.Sorted(maps.Keys(decisions)) {
		if err := o.apply(ctx, r, id, decisions[id]); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// advancePosition moves the position to the last final block below all disputed ones, and to the first address for
// which enough hosts list no payment.
func (o *Observer) advancePosition(ctx context.Context, v *view, r *reading, disputed int64) {
	above := int64(-1)
	if r.found {
		above = r.Height
	}
	if height, hash, ok := v.anchor(ctx, above, disputed); ok {
		r.next.Height, r.next.anchor = height, hash
	} else if due, ok := reached(v, func(r *reader) (int64, bool) { return r.final(), true }); ok && min(due, disputed-1) > above {
		v.markPartial(observe.ErrDisagree)
	}
	if index, ok := reached(v, func(r *reader) (int64, bool) { return int64(r.index), true }); ok && o.config.Rail.Extended() {
		next := uint32(index)
		r.next.Index = &next
	}
}

// apply adds a decision to the reading.
func (o *Observer) apply(ctx context.Context, r *reading, id string, d decision) error {
	rows := r.byTransaction[id]
	if d.shown != nil {
		tx := *d.shown
		if d.depth == 0 {
			tx.Status = status{}
		}
		if r.depths[id] = d.depth; tx.Status.Height > r.next.Height {
			r.depths[id] = min(d.depth, o.final()-1) // no block above the anchor is final
		}
		r.own[id], r.decided[id] = d.own, d.decided
		if err := o.observeOutputs(ctx, r, tx); err != nil {
			return err
		}
		if d.state = ""; d.decided {
			d.state, d.cause = ledger.StatusDropped, "evicted" // outputs that it does not have
		}
	}
	for _, row := range rows {
		_, shown := r.observations[row.ExternalID]
		shown = shown || d.shown != nil && d.shown.has(row) // also if its address is not derived
		if d.state != "" && !shown && (row.Status != ledger.StatusDropped || d.cause == "replaced") {
			r.observations[row.ExternalID] = *restated(row, d, r.next.Height)
		}
	}
	if !d.decided && d.shown != nil {
		r.open = append(r.open, *d.shown)
	}
	return nil
}

// restated returns the new state of a receipt whose transaction is not shown.
func restated(row ledger.Receipt, d decision, final int64) *ledger.Observation {
	s := observe.Restated(row, d.state, d.cause)
	if d.state == ledger.StatusDropped {
		s.Final = d.replaced > 0 && d.replaced <= final
		return s
	}
	if row.Own {
		s.State = ledger.StatusMoved
	}
	proof := evidenceOf(row)
	proof.Block, proof.BlockHash = 0, ""
	s.Evidence = offer.JSON(proof)
	return s
}

// commit records the reading, and the cursor if enough hosts were read.
func (o *Observer) commit(ctx context.Context, v *view, r *reading) error {
	var cursor *ledger.Cursor
	if r.next.anchor != "" && v.quorum() {
		// Another instance may have read further.
		stored, _, err := o.position(ctx)
		if err != nil {
			return err
		}
		r.next = r.next.merge(stored)
		cursor = o.cursor(r.next, r.origin)
	}
	inOrder := slices.SortedFunc(maps.Values(r.observations), func(a, b ledger.Observation) int { // as the money moved
		return cmp.Or(cmp.Compare(a.OccurredAt, b.OccurredAt), cmp.Compare(a.ExternalID, b.ExternalID))
	})
	for part := range slices.Chunk(inOrder, recordAtOnce) {
		if err := o.record(ctx, nil, part); err != nil {
			return err
		}
	}
	if err := o.record(ctx, cursor, nil); err != nil {
		return err
	}
	o.remember(v, r)
	if cursor == nil {
		return nil
	}
	o.memory = r.memory
	if r.next.Index == nil {
		return nil
	}
	return o.publish(*r.next.Index)
}

// recordAtOnce bounds the payments of one ledger transaction, which blocks all other rails. The cursor is stored
// last.
const recordAtOnce = 200

func (o *Observer) record(ctx context.Context, cursor *ledger.Cursor, observations []ledger.Observation) error {
	refused, err := observe.Record(ctx, o.config.Ledger, cursor, observations...)
	for _, s := range refused {
		o.config.Logger.Error("bitcoin payment cannot be recorded", "payment", s.ExternalID, "hint", "look the transaction up and report this as a bug")
	}
	return err
}

// remember stores the endpoints' responses. Undecided transactions are read again from all endpoints.
func (o *Observer) remember(v *view, r *reading) {
	for _, reader := range v.readers {
		reader.endpoint.responses = reader.responses
	}
	for _, tx := range r.open {
		for _, out := range tx.Outputs {
			for _, e := range o.endpoints {
				if l, read := e.responses.lists[o.scripts[out.Script].address]; read {
					l.block = ""
					e.responses.lists[o.scripts[out.Script].address] = l
				}
			}
		}
	}
}

func (o *Observer) loadState(ctx context.Context) (k state, err error) {
	if k.account, err = observe.Account(ctx, o.config.Ledger, o.config.OfferID, o.config.Rail.Account()); err != nil {
		return state{}, err
	}
	if k.origin, err = observe.Position(k.account.Origin); err != nil {
		return state{}, err
	}
	// This is read after the origin. Otherwise it could be from before the origin was lowered.
	if k.position, k.found, err = o.position(ctx); err != nil {
		return state{}, err
	}
	if err := o.loadWallets(ctx); err != nil {
		return state{}, err
	}
	rows, err := o.unfinal(ctx)
	if err != nil {
		return state{}, err
	}
	k.all = len(rows) < rowsAtOnce || rows[len(rows)-1].Status != ledger.StatusDropped
	k.rows = make(map[string]ledger.Receipt, len(rows))
	k.waiting = make(map[string]bool)
	for _, row := range rows {
		k.rows[row.ExternalID] = row
		proof, dropped := evidenceOf(row), row.Status == ledger.StatusDropped
		if dropped && o.config.Now().Unix()-row.UpdatedAt <= seconds(droppedFor) || !dropped && proof.Block == 0 {
			k.admit(proof.First > 0)
		}
		if dropped {
			continue
		}
		k.reached = max(k.reached, proof.Block)
		if !k.isFinal(proof) {
			k.waiting[proof.Address] = true
		}
	}
	return k, nil
}

// unfinal returns all receipts that are not final, except for some dropped ones.
func (o *Observer) unfinal(ctx context.Context) ([]ledger.Receipt, error) {
	for limit := rowsAtOnce; ; limit *= 2 {
		rows, err := o.config.Ledger.Unfinal(ctx, o.config.OfferID, o.config.Rail.Account(), limit)
		if err != nil {
			return nil, observe.ErrNoLedger
		}
		if len(rows) < limit || rows[limit-1].Status == ledger.StatusDropped {
			return rows, nil
		}
	}
}

// admit counts an unconfirmed payment and reports whether there is room for it. sure means that enough hosts show it.
func (k *state) admit(sure bool) (room bool) {
	if !sure {
		k.unverified++
		return k.unverified <= maxUnverified
	}
	k.unconfirmed++
	return k.unconfirmed <= maxUnconfirmed
}
