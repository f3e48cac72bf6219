package bitcoin

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"strconv"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
)

// memory is the observer's state between cycles. A cycle changes a copy, which replaces it once everything is recorded.
type memory struct {
	// origin is that of the last reading; -1 for none. lowered means that Config.Since was compared with it.
	origin  int64
	lowered bool
	// sweepNext is the next old address to read, and sweepDue when the next sweep begins. swept is set after the
	// first one.
	sweepNext uint32
	sweepDue  time.Time
	swept     bool
	// turn is the number of the cycle. It selects the receipts that this cycle looks up.
	turn   int
	search search

	// derived and scripts are the rail's addresses.
	derived map[uint32]watched
	scripts map[string]watched
}

func newMemory() memory {
	return memory{origin: -1, derived: make(map[uint32]watched), scripts: make(map[string]watched)}
}

// responses are what an endpoint said in the last cycle.
type responses struct {
	tip   tip
	lists map[string]list
	// absent contains the times since which the transactions of receipts are unknown.
	absent map[string]time.Time
}

// list is what an endpoint lists of an address.
type list struct {
	// block was the newest one, and stats the counts at that time. After an empty block the list is read again.
	block string
	stats stats
	// above is the height down to which the list was read, and final the last final block.
	above, final int64
	// older counts the transactions up to above. It cannot change once above is final.
	older int64
	// heights are the blocks of the listed transactions.
	heights []int64
	// confirmed means that the list has a confirmed transaction, and used that it has a payment.
	confirmed, used bool
}

func newResponses() responses {
	return responses{lists: make(map[string]list), absent: make(map[string]time.Time)}
}

func (w responses) clone() responses {
	w.lists, w.absent = maps.Clone(w.lists), maps.Clone(w.absent)
	return w
}

// follows reports whether a list is consistent with the previous one.
func (l list) follows(prev list) bool {
	if l.above < prev.above || l.above > prev.final {
		return true // no final transactions to compare
	}
	passed := prev.older
	for _, height := range prev.heights {
		if height <= l.above {
			passed++
		}
	}
	return l.older == passed
}

// position is how far the account was read: the cursor's Position, as JSON. The cursor's Anchor is the hash of the
// block at Height.
type position struct {
	// Height is the last final block that was read.
	Height int64 `json:"height"`
	// Index is the index of an extended key's current address; nil before the chain was searched for used ones.
	Index *uint32 `json:"index,omitempty"`

	anchor string
}

// isFinal reports whether a payment is in a final block that was read.
func (p position) isFinal(proof evidence) bool { return proof.Block > 0 && proof.Block <= p.Height }

func parsePosition(c ledger.Cursor) (position, error) {
	d := json.NewDecoder(bytes.NewReader([]byte(c.Position)))
	d.DisallowUnknownFields()
	p := position{anchor: c.Anchor}
	if d.Decode(&p) != nil || ended(d) != nil || !within(p.Height, maxHeight) || p.Index != nil && *p.Index > maxIndex {
		return position{}, errMalformed
	}
	if c.Anchor == "" {
		p.Height = 0 // the origin was lowered
		return p, nil
	}
	if !hash256.MatchString(c.Anchor) {
		return position{}, errMalformed
	}
	return p, nil
}

// merge keeps the further of two instances' positions.
func (p position) merge(q position) position {
	if q.Height > p.Height {
		p.Height, p.anchor = q.Height, q.anchor
	}
	if p.Index == nil || q.Index != nil && *q.Index > *p.Index {
		p.Index = q.Index
	}
	return p
}

// position reads the cursor. found is false if the account must be read from its origin.
func (o *Observer) position(ctx context.Context) (p position, found bool, err error) {
	c, found, err := observe.Cursor(ctx, o.config.Ledger, o.config.OfferID, o.config.Rail.Account())
	if err != nil || !found {
		return position{}, false, err
	}
	if p, err = parsePosition(c); err != nil {
		return position{}, false, observe.ErrNoLedger
	}
	return p, p.anchor != "", nil
}

func (o *Observer) cursor(p position, origin int64) *ledger.Cursor {
	text, _ := json.Marshal(p) // two numbers always encode
	return &ledger.Cursor{
		Offer: o.config.OfferID, Account: o.config.Rail.Account(), Position: string(text), Anchor: p.anchor, OKAt: o.config.Now().Unix(),
		Origin: strconv.FormatInt(origin, 10),
	}
}
