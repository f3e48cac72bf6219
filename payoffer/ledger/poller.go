package ledger

import (
	"context"
	"sync"
	"time"
)

const (
	// pollEvery is the interval of queries for work that became due since the last one.
	pollEvery = 2 * time.Second
	// pollAllEvery is the interval of queries for all due work, because another process
	// may have ended before it did its work.
	pollAllEvery = 30 * time.Second
)

// DuePoller polls a ledger for due work, of other processes too, and calls the listeners of
// the offers concerned. An idle offer needs no queries of its own.
type DuePoller struct {
	ledger *Ledger

	mu        sync.Mutex
	listeners map[string]map[*Callbacks]bool // by offer
	whole     bool                           // the next query is for all due work

	queriedAll time.Time // the time of the last query for all due work
	examined   time.Time // when the file was examined last; only for Run
	until, seq int64     // covered by the last query, in Unix seconds and transitions
}

// Callbacks has the callbacks of one offer, which must not block: Intents for open intents and
// claims that are due, Transitions for some that a subscriber has not processed.
type Callbacks struct{ Intents, Transitions func() }

// NewDuePoller returns the poller of a ledger, which may be unopened.
func NewDuePoller(l *Ledger) *DuePoller {
	return &DuePoller{ledger: l, listeners: make(map[string]map[*Callbacks]bool)}
}

// Listen adds callbacks of an offer until stop is called. They are also called for work
// that is already due.
func (p *DuePoller) Listen(offer string, e Callbacks) (stop func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.whole = true
	if p.listeners[offer] == nil {
		p.listeners[offer] = make(map[*Callbacks]bool)
	}
	p.listeners[offer][&e] = true
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if delete(p.listeners[offer], &e); len(p.listeners[offer]) == 0 {
			delete(p.listeners, offer)
		}
	}
}

// Run polls until ctx ends. It may be called again afterwards.
func (p *DuePoller) Run(ctx context.Context) {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	var examining sync.WaitGroup
	defer examining.Wait()
	for ctx.Err() == nil {
		p.Poll(ctx)
		if now := p.ledger.now(); now.Sub(p.examined).Abs() >= examineEvery && p.ledger.IsOpen() {
			p.examined = now
			examining.Go(func() { _ = p.ledger.Examine(ctx) }) // it logs damage; other errors are of tomorrow
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// Poll polls once. After an error of the ledger it polls for the same again. It is not
// for concurrent use.
func (p *DuePoller) Poll(ctx context.Context) {
	now := p.ledger.now()
	p.mu.Lock()
	whole, listened := p.whole || now.Sub(p.queriedAll).Abs() >= pollAllEvery, len(p.listeners) > 0
	p.whole = false
	p.mu.Unlock()
	if !listened {
		return
	}
	p.ledger.order(ctx)
	var found []dueWork
	var err error
	if whole {
		_ = p.ledger.DeletePayloads(ctx) // retried by the next query
		found, err = p.ledger.allDue(ctx, now.Unix())
	} else {
		found, err = p.ledger.newlyDue(ctx, p.until, now.Unix(), p.seq)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.whole = p.whole || whole
		return
	}
	if p.until = now.Unix(); whole {
		p.queriedAll = now
	}
	for _, one := range found {
		p.seq = max(p.seq, one.seq)
		for e := range p.listeners[one.offer] {
			if one.intents {
				e.Intents()
			} else {
				e.Transitions()
			}
		}
	}
}

// dueWork says that intents of an offer are due, or that it has transitions up to seq.
type dueWork struct {
	offer   string
	intents bool
	seq     int64
}

func scanDueWork(row scanner) (d dueWork, err error) {
	err = row.Scan(&d.offer, &d.intents, &d.seq)
	return d, err
}

// dueOpen selects the offers with open intents that are due.
var dueOpen = `SELECT DISTINCT offer, TRUE AS intents, CAST(0 AS BIGINT) AS seq FROM intents
	WHERE ` + openDue("$1")

// allDue returns all due work at a Unix second. The last row is the newest transition,
// without an offer. One claim of an account is enough, because there may be many.
func (l *Ledger) allDue(ctx context.Context, now int64) ([]dueWork, error) {
	return collect(ctx, l, scanDueWork, dueOpen+`
		UNION ALL SELECT DISTINCT offer, TRUE, CAST(0 AS BIGINT) FROM accounts WHERE EXISTS (SELECT 1 FROM intents
			WHERE intents.offer = accounts.offer AND intents.account = accounts.account
				AND `+claimDue("$1")+`)
		UNION ALL SELECT DISTINCT offer, FALSE, CAST(0 AS BIGINT) FROM subscribers
			WHERE EXISTS (SELECT 1 FROM transitions WHERE transitions.offer = subscribers.offer AND transitions.seq > subscribers.after_seq)
		UNION ALL SELECT '', FALSE, coalesce((SELECT max(seq) FROM transitions WHERE seq > 0), 0)`, now)
}

// newlyDue returns open intents that are due, claims that became due after the Unix second
// before, and transitions after seq.
func (l *Ledger) newlyDue(ctx context.Context, before, now, seq int64) ([]dueWork, error) {
	return collect(ctx, l, scanDueWork, dueOpen+`
		UNION ALL SELECT DISTINCT offer, TRUE, CAST(0 AS BIGINT) FROM intents
			WHERE state = 'settled' AND evidence = 'facilitator' AND poll_at > $2 AND poll_at <= $1
		UNION ALL SELECT offer, FALSE, max(seq) FROM transitions WHERE seq > $3 GROUP BY offer`, now, before, seq)
}

const (
	// payloadMargin is how long payloads are kept after their authorizations have ended:
	// longer than the error of a clock, or the time until a block is final.
	payloadMargin = 24 * time.Hour
	payloadBatch  = 500 // the number that is deleted at once
)

// DeletePayloads deletes the payloads of some decided intents whose authorizations have
// ended, because they are never sent again. The answers stay.
func (l *Ledger) DeletePayloads(ctx context.Context) error {
	return l.transact(ctx, func(_ context.Context, tx *transaction) error {
		tx.queue("deleting payloads", `
			UPDATE intents SET payload = $1, requirement = $1 WHERE id IN (
				SELECT id FROM intents WHERE length(payload) > 0 AND valid_before < $2 AND state <> 'settling' ORDER BY valid_before LIMIT $3)`,
			[]byte{}, l.now().Add(-payloadMargin).Unix(), payloadBatch)
		return nil
	})
}
