package card

import (
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
)

// state is what Health tells.
type state struct {
	heardAt    int64 // when a genuine delivery last arrived, in Unix seconds
	ledgerDown bool  // the last delivery could not be committed
	// readAt is when the API was last read to its end, covering everything up
	// to through, both in Unix seconds; through is by the processor's clock.
	readAt, through int64
}

func (o *Observer) update(change func(*state)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	change(&o.state)
}

// heard notes that a genuine delivery was dealt with, by a commit to the ledger
// or without one.
func (o *Observer) heard(committed bool) {
	now := o.now().Unix()
	o.update(func(s *state) {
		s.heardAt = now
		s.ledgerDown = s.ledgerDown && !committed
	})
}

// Health tells how well the rail is observed. Webhooks alone are partial, for
// a lost one is never noticed. With a key the rail is whole while the last
// reading of the API succeeded; until then it is partial with webhooks, and
// blind without.
func (o *Observer) Health() observe.Health {
	o.mu.Lock()
	s := o.state
	o.mu.Unlock()
	failure, current := o.loop.Last()
	h := observe.Health{Rail: o.money.rail, Source: "webhook", Partial: true, At: s.heardAt, LastError: failure}
	if o.provider != nil {
		h.Source, h.At = "provider", s.readAt
		h.Partial = !current
		h.Blind = !current && o.secret == ""
		if s.through > 0 {
			h.ObservedThrough = time.Unix(s.through, 0).UTC().Format(time.RFC3339)
		}
	}
	if s.ledgerDown {
		h.LastError = observe.ErrLedger
	}
	return h
}
