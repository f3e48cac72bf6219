package ledger

import (
	"context"
	"sync"
	"time"
)

const (
	// pulseEvery is how often a ledger is asked what is due.
	pulseEvery = 2 * time.Second
	// pulseWhole is how often it is asked for all that is due, and not only for what
	// became so since it was asked last: others may die with what they began.
	pulseWhole = 30 * time.Second
)

// Pulse asks a ledger what is due for all offers at once, and tells those who listen
// for one: so an offer at rest asks nothing. What other processes record shows too.
type Pulse struct {
	ledger *Ledger

	mu    sync.Mutex
	ears  map[string]map[*Ear]bool // by offer
	whole bool                     // somebody has not heard what was due before

	asked      time.Time // for all that is due
	until, seq int64     // up to which it was asked, in Unix seconds and in transitions
}

// Ear is called for one offer. A call returns at once.
type Ear struct {
	// Intents is called when an open intent or a claim is to be looked at, and
	// Transitions when there are some that a sink is not done with.
	Intents, Transitions func()
}

// NewPulse makes the pulse of a ledger, which may be unopened.
func NewPulse(l *Ledger) *Pulse { return &Pulse{ledger: l, ears: make(map[string]map[*Ear]bool)} }

// Listen has an ear hear of an offer, and first of all that is due already, until
// stop is called.
func (p *Pulse) Listen(offer string, e Ear) (stop func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.whole = true
	if p.ears[offer] == nil {
		p.ears[offer] = make(map[*Ear]bool)
	}
	p.ears[offer][&e] = true
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if delete(p.ears[offer], &e); len(p.ears[offer]) == 0 {
			delete(p.ears, offer)
		}
	}
}

// Run asks until ctx ends. It may be called again afterwards.
func (p *Pulse) Run(ctx context.Context) {
	tick := time.NewTicker(pulseEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		p.Beat(ctx)
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// Beat asks once, and tells. After an error of the ledger, which says so wherever it
// is needed, the same is asked again. It is not for concurrent use.
func (p *Pulse) Beat(ctx context.Context) {
	now := p.ledger.now()
	p.mu.Lock()
	whole, listened := p.whole || now.Sub(p.asked).Abs() >= pulseWhole, len(p.ears) > 0
	p.whole = false
	p.mu.Unlock()
	if !listened {
		return
	}
	p.ledger.order(ctx)
	var found []happening
	var err error
	if whole {
		_ = p.ledger.ForgetPayloads(ctx) // or the next time
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
		p.asked = now
	}
	for _, one := range found {
		p.seq = max(p.seq, one.seq)
		for e := range p.ears[one.offer] {
			if one.intents {
				e.Intents()
			} else {
				e.Transitions()
			}
		}
	}
}

// happening says that intents of an offer are due, or else that it has transitions
// up to one.
type happening struct {
	offer   string
	intents bool
	seq     int64
}

func scanHappening(row scanner) (h happening, err error) {
	err = row.Scan(&h.offer, &h.intents, &h.seq)
	return h, err
}

// dueOpen are the offers with open intents that nobody works on; they are few.
var dueOpen = `SELECT DISTINCT offer, TRUE AS intents, CAST(0 AS BIGINT) AS seq FROM intents
	WHERE ` + openDue("$1")

// allDue are the offers for which anything is due at a time (Unix seconds), and
// those with transitions that one of their sinks is not done with. The last row is
// the newest transition of all, of no offer. Of an account one claim is looked for:
// there may be many that nobody can prove.
func (l *Ledger) allDue(ctx context.Context, now int64) ([]happening, error) {
	return collect(ctx, l, scanHappening, dueOpen+`
		UNION ALL SELECT DISTINCT offer, TRUE, CAST(0 AS BIGINT) FROM accounts WHERE EXISTS (SELECT 1 FROM intents
			WHERE intents.offer = accounts.offer AND intents.account = accounts.account
				AND `+claimDue("$1")+`)
		UNION ALL SELECT DISTINCT offer, FALSE, CAST(0 AS BIGINT) FROM sinks
			WHERE EXISTS (SELECT 1 FROM transitions WHERE transitions.offer = sinks.offer AND transitions.seq > sinks.after_seq)
		UNION ALL SELECT '', FALSE, coalesce((SELECT max(seq) FROM transitions WHERE seq > 0), 0)`, now)
}

// newlyDue are the offers with open intents that are due, with claims that became so
// after a time, and with transitions after one.
func (l *Ledger) newlyDue(ctx context.Context, before, now, seq int64) ([]happening, error) {
	return collect(ctx, l, scanHappening, dueOpen+`
		UNION ALL SELECT DISTINCT offer, TRUE, CAST(0 AS BIGINT) FROM intents
			WHERE state = 'settled' AND evidence = 'facilitator' AND look_at > $2 AND look_at <= $1
		UNION ALL SELECT offer, FALSE, max(seq) FROM transitions WHERE seq > $3 GROUP BY offer`, now, before, seq)
}
