package bitcoin

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
)

const (
	// rowsAtOnce bounds the receipts that one round follows, beside all that are seen or
	// count.
	rowsAtOnce = 1000
	// maxUnconfirmed bounds those of a day that are not in a block: they may be made up
	// for next to nothing. Beyond it no more are recorded before they are mined. maxUnsure
	// bounds those that too few hosts show, beside them: these keep no others out.
	maxUnconfirmed, maxUnsure = 500, 100
)

// crowdsFor is for how long one that was dropped takes the place of another: whoever
// makes them up fills the ledger no faster, and keeps nobody's quote out for good.
const crowdsFor = 24 * time.Hour

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
	// places are those payments, by the first output that they spend, and their id.
	places map[string]map[string]placeholder
	// all says that there are no others than rows.
	all bool
	// unconfirmed counts those of a day that are in no block, and unsure those that
	// too few hosts show, beside them.
	unconfirmed, unsure int
}

// reading is what the endpoints say in one round, by the word of enough hosts.
type reading struct {
	*plan
	tip       tip
	stale     bool
	next      position
	depths    map[string]int64           // of transactions
	own       map[string]bool            // those that spend the operator's money
	decided   map[string]bool            // those that enough hosts show
	sightings map[string]ledger.Sighting // by external id
	// open are the transactions that were not decided on.
	open []transaction
}

// Round observes once: it reads from all endpoints, and commits what enough of
// their hosts say. An error is an *observe.Error: the first problem because of
// which not all is known. Rounds do not overlap.
func (o *Observer) Round(ctx context.Context) error {
	o.round.Lock()
	defer o.round.Unlock()
	o.busy = false
	v, r, err := o.observe(ctx)
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return o.report(v, r, err)
}

// observe makes a round; the reading is nil while the chain is searched.
func (o *Observer) observe(ctx context.Context) (*view, *reading, error) {
	if err := o.keepQuotes(ctx); err != nil {
		return nil, nil, err
	}
	k, err := o.recall(ctx)
	if err != nil {
		return nil, nil, err
	}
	if lowered, err := o.lowerOrigin(ctx, k.origin); err != nil {
		return nil, nil, err
	} else if lowered {
		if k, err = o.recall(ctx); err != nil {
			return nil, nil, err
		}
	}
	o.busy = len(k.rows) > 0
	v := o.look(k)
	if err := v.each(ctx, func(context.Context, *reader) error { return nil }); err != nil {
		return v, nil, err
	}
	p, err := o.plan(ctx, v, k)
	if err != nil || p == nil {
		o.busy = o.busy || err == nil
		return v, nil, err
	}
	err = v.each(ctx, func(ctx context.Context, r *reader) error { return o.read(ctx, r, p) })
	if err != nil {
		return v, nil, err
	}
	for _, r := range v.readers {
		r.witness.Note(nil, v.now) // all of it was read
	}
	v.weigh()
	r, err := o.join(ctx, v, p)
	if err == nil {
		o.busy = o.busy || len(r.sightings) > 0 // a new payment is followed at once
		err = o.commit(ctx, v, r)
	}
	return v, r, err
}

// read reads from one endpoint what the plan wants.
func (o *Observer) read(ctx context.Context, r *reader, p *plan) error {
	if err := o.readAddresses(ctx, r, p); err != nil {
		return err
	}
	if err := o.recheck(ctx, r, p); err != nil {
		return err
	}
	return r.unmoved(ctx)
}

// join makes one reading of what the endpoints say.
func (o *Observer) join(ctx context.Context, v *view, p *plan) (*reading, error) {
	r := &reading{plan: p, next: p.position, depths: make(map[string]int64), own: make(map[string]bool), decided: make(map[string]bool), sightings: make(map[string]ledger.Sighting)}
	newest, enough := v.tip()
	r.tip, r.stale = newest, enough && o.config.Now().Unix()-newest.time > int64(staleAfter/time.Second)
	v.partial = v.partial || !enough
	verdicts, disputed := make(map[string]verdict), int64(maxHeight)+1
	for _, reader := range v.readers {
		for id := range reader.claims {
			if _, done := verdicts[id]; done {
				continue
			}
			d := v.tally(id).decide(p.byTransaction[id], int64(o.config.Confirmations))
			if d.disputed > 0 {
				disputed = min(disputed, d.disputed)
			}
			if verdicts[id] = d; d.tolerated {
				v.trouble(&observe.Error{Code: d.problem, Host: v.names()})
			} else if d.problem != "" {
				v.unsure(d.problem)
			}
		}
	}
	if !v.listsAgree(p.above) {
		v.unsure(observe.ErrDisagree)
		disputed = 0
	}
	if enough {
		o.move(ctx, v, r, disputed)
	}
	for _, id := range slices.Sorted(maps.Keys(verdicts)) {
		if err := o.apply(ctx, r, id, verdicts[id]); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// move moves the position: up to the last final block that enough hosts show the
// same and that is below all that is disputed, and to the first address that enough
// hosts list no payment to.
func (o *Observer) move(ctx context.Context, v *view, r *reading, disputed int64) {
	above := int64(-1)
	if r.found {
		above = r.Height
	}
	if height, hash, ok := v.anchor(ctx, above, disputed); ok {
		r.next.Height, r.next.anchor = height, hash
	} else if due, ok := reached(v, func(r *reader) (int64, bool) { return r.final(), true }); ok && min(due, disputed-1) > above {
		v.unsure(observe.ErrDisagree)
	}
	if index, ok := reached(v, func(r *reader) (int64, bool) { return int64(r.index), true }); ok && o.config.Rail.Extended() {
		next := uint32(index)
		r.next.Index = &next
	}
}

// apply takes a verdict into the reading.
func (o *Observer) apply(ctx context.Context, r *reading, id string, d verdict) error {
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
		if err := o.sight(ctx, r, tx); err != nil {
			return err
		}
		if d.state = ""; d.decided {
			d.state, d.cause = ledger.StatusDropped, "evicted" // what it has no output for
		}
	}
	for _, row := range rows {
		_, shown := r.sightings[row.ExternalID]
		shown = shown || d.shown != nil && d.shown.has(row) // also where its address is not derived
		if d.state != "" && !shown && (row.Status != ledger.StatusDropped || d.cause == "replaced") {
			r.sightings[row.ExternalID] = *restated(row, d, r.next.Height)
		}
	}
	if !d.decided && d.shown != nil {
		r.open = append(r.open, *d.shown)
	}
	return nil
}

// restated is what a verdict says of a receipt whose transaction is not shown.
func restated(row ledger.Receipt, d verdict, final int64) *ledger.Sighting {
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
	s.Evidence = observe.Evidence(proof)
	return s
}

// commit keeps what was read, with the cursor that covers it where enough hosts
// have read it.
func (o *Observer) commit(ctx context.Context, v *view, r *reading) error {
	var cursor *ledger.Cursor
	if r.next.anchor != "" && v.quorum() {
		// Another instance may have read further meanwhile.
		stored, found, err := o.position(ctx)
		if err != nil {
			return err
		}
		if found {
			r.next = r.next.later(stored)
		}
		if found || !r.found { // else another instance lowered the origin meanwhile
			cursor = o.cursor(r.next)
		}
	}
	inOrder := slices.SortedFunc(maps.Values(r.sightings), func(a, b ledger.Sighting) int { // in which the money moved
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

// recordAtOnce bounds the payments of one transaction of the ledger, behind which
// all other rails wait. The position that covers them is stored after the last.
const recordAtOnce = 200

// record stores what was seen, and the cursor that covers it; nil for none.
func (o *Observer) record(ctx context.Context, cursor *ledger.Cursor, sightings []ledger.Sighting) error {
	refused, err := observe.Record(ctx, o.config.Ledger, cursor, sightings...)
	for _, s := range refused {
		o.config.Logger.Error("a payment cannot be recorded; check it by hand", "payment", s.ExternalID)
	}
	return err
}

// remember keeps what the endpoints said. What was left open is read from all of
// them again.
func (o *Observer) remember(v *view, r *reading) {
	for _, reader := range v.readers {
		reader.endpoint.words = reader.words
	}
	for _, tx := range r.open {
		for _, out := range tx.Outputs {
			for _, e := range o.endpoints {
				if l, read := e.words.lists[o.scripts[out.Script].address]; read {
					l.block = ""
					e.words.lists[o.scripts[out.Script].address] = l
				}
			}
		}
	}
}

// recall reads from the ledger what a round starts from.
func (o *Observer) recall(ctx context.Context) (k recalled, err error) {
	if k.position, k.found, err = o.position(ctx); err != nil {
		return recalled{}, err
	}
	if k.beginning, err = o.beginning(ctx); err != nil {
		return recalled{}, err
	}
	if err := o.recallWallets(ctx); err != nil {
		return recalled{}, err
	}
	rows, err := o.unfinal(ctx)
	if err != nil {
		return recalled{}, err
	}
	k.all = len(rows) < rowsAtOnce || rows[len(rows)-1].Status != ledger.StatusDropped
	k.rows = make(map[string]ledger.Receipt, len(rows))
	k.waiting, k.places = make(map[string]bool), make(map[string]map[string]placeholder)
	for _, row := range rows {
		k.rows[row.ExternalID] = row
		proof, dropped := evidenceOf(row), row.Status == ledger.StatusDropped
		k.remember(row, proof)
		if dropped && o.config.Now().Unix()-row.UpdatedAt <= seconds(crowdsFor) || !dropped && proof.Block == 0 {
			k.crowd(proof.First > 0)
		}
		if dropped {
			continue
		}
		k.reached = max(k.reached, proof.Block)
		if !k.deep(proof) {
			k.waiting[proof.Address] = true
		}
	}
	return k, nil
}

// unfinal reads all receipts that are not final, but for some that are dropped: none of
// those that count is left alone for the number of others.
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

// crowd adds an unconfirmed payment, which enough hosts have shown or not, if there is
// room for one.
func (k *recalled) crowd(sure bool) (room bool) {
	if !sure {
		k.unsure++
		return k.unsure <= maxUnsure
	}
	k.unconfirmed++
	return k.unconfirmed <= maxUnconfirmed
}
