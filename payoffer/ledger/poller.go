package ledger

import (
	"context"
	"strconv"
	"sync"
	"time"
)

const (
	// pollEvery is the interval of queries for due work.
	pollEvery = 2 * time.Second
	// deleteEvery is the interval of DeletePayloads.
	deleteEvery = 30 * time.Second
)

// DuePoller polls a ledger for due work, of other processes too, and calls the listeners of
// the offers concerned. An idle offer needs no queries of its own.
type DuePoller struct {
	ledger    *Ledger
	mu        sync.Mutex
	listeners map[*Callbacks]string // their offers

	deleted, examined time.Time // of the last DeletePayloads and Examine
}

// Callbacks has the callbacks of one offer, which must not block: Intents for open intents and
// claims that are due, Transitions for some that a subscriber has not processed.
type Callbacks struct{ Intents, Transitions func() }

// NewDuePoller returns the poller of a ledger, which may be unopened.
func NewDuePoller(l *Ledger) *DuePoller {
	return &DuePoller{ledger: l, listeners: make(map[*Callbacks]string)}
}

// Listen adds callbacks of an offer until stop is called. They are also called for work
// that is already due.
func (d *DuePoller) Listen(offer string, e Callbacks) (stop func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.listeners[&e] = offer
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.listeners, &e)
	}
}

// Run polls until ctx ends. It may be called again afterwards.
func (d *DuePoller) Run(ctx context.Context) {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	var examining sync.WaitGroup
	defer examining.Wait()
	for ctx.Err() == nil {
		d.Poll(ctx)
		if now := d.ledger.now(); now.Sub(d.examined).Abs() >= examineEvery && d.ledger.IsOpen() {
			d.examined = now
			examining.Go(func() { _ = d.ledger.Examine(ctx) }) // it logs damage; other errors are of tomorrow
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// Poll calls the listeners of all offers with due work, until it is done: another process may
// have ended before it did its work. It is not for concurrent use.
func (d *DuePoller) Poll(ctx context.Context) {
	d.mu.Lock()
	listened := len(d.listeners) > 0
	d.mu.Unlock()
	if !listened {
		return
	}
	now := d.ledger.now()
	if now.Sub(d.deleted).Abs() >= deleteEvery && d.ledger.DeletePayloads(ctx) == nil {
		d.deleted = now
	}
	found, err := collect(ctx, d.ledger, scanDueWork, selectDueWork, now.Unix())
	if err != nil {
		return // the next poll finds the same
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, one := range found {
		for e, offer := range d.listeners {
			switch {
			case offer != one.offer:
			case one.intents:
				e.Intents()
			default:
				e.Transitions()
			}
		}
	}
}

// dueWork says that an offer has due intents, or transitions that a subscriber has not processed.
type dueWork struct {
	offer   string
	intents bool
}

func scanDueWork(row scanner) (d dueWork, err error) {
	err = row.Scan(&d.offer, &d.intents)
	return d, err
}

// selectDueWork selects all due work at a Unix second. One due claim of an account is enough,
// because there may be many: the index has the first and the last one.
var selectDueWork = `SELECT offer, TRUE FROM intents WHERE ` + openDue("$1") + `
	UNION SELECT offer, TRUE FROM accounts a WHERE (SELECT min(poll_at) ` + claimsOf + `) <= $1
		OR (SELECT max(poll_at) ` + claimsOf + `) > $1 + ` + strconv.Itoa(int(2*longestClaim/time.Second)) + `
	UNION SELECT offer, FALSE FROM subscribers
		WHERE EXISTS (SELECT 1 FROM transitions WHERE transitions.offer = subscribers.offer AND transitions.seq > subscribers.after_seq)`

const claimsOf = `FROM intents i WHERE i.offer = a.offer AND i.account = a.account AND i.state = 'settled' AND i.evidence = 'facilitator'`

const (
	// payloadMargin is how long payloads are kept after their authorizations have ended:
	// longer than the error of a clock, or the time until a block is final.
	payloadMargin = 24 * time.Hour
	payloadBatch  = 500 // the number that is deleted at once
)

// DeletePayloads deletes the payloads of some decided intents whose authorizations have
// ended, because they are never sent again. The answers stay.
func (l *Ledger) DeletePayloads(ctx context.Context) error {
	_, err := l.writeStatement(ctx, "deleting payloads", `
		UPDATE intents SET payload = $1, requirement = $1 WHERE id IN (
			SELECT id FROM intents WHERE length(payload) > 0 AND valid_before < $2 AND state <> 'settling'
			ORDER BY valid_before LIMIT $3`+l.dialect.forUpdate()+l.dialect.skipLocked()+`)`,
		[]byte{}, l.now().Add(-payloadMargin).Unix(), payloadBatch)
	return err
}
