package bitcoin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
)

// memory is what the observer keeps from one round to the next. A round works
// on a copy, which is kept once the round is committed.
type memory struct {
	// origin is the one down to which the addresses are read; -1 before that
	// began. lowered says that Config.Since was looked at.
	origin  int64
	lowered bool
	// marks say how each address was found when it was read last.
	marks map[string]mark
	// absent says since when the transactions of receipts are known nowhere.
	absent map[string]time.Time
	// walking is the next of the old addresses to be read, until all of them
	// were; walkDue is when that starts anew. walked is set after the first time.
	walking uint32
	walkDue time.Time
	walked  bool
	// turn is the number of the round, by which receipts take turns.
	turn int
	// tip is the newest block that was read.
	tip tip
	// search is how far the chain was searched for used addresses.
	search search

	// derived and scripts are the rail's addresses. They do not change.
	derived map[uint32]watched
	scripts map[string]watched
}

// mark is what an endpoint counted for an address at a block.
type mark struct {
	endpoint *endpoint
	block    string
	stats    stats
}

func newMemory() memory {
	return memory{
		origin: -1,
		marks:  make(map[string]mark), absent: make(map[string]time.Time),
		derived: make(map[uint32]watched), scripts: make(map[string]watched),
	}
}

func (m memory) clone() memory {
	m.marks, m.absent = maps.Clone(m.marks), maps.Clone(m.absent)
	m.turn++
	return m
}

// blockTime is the time of the tip; it is asked for once a block.
func (m *memory) blockTime(ctx context.Context, e *endpoint, hash string) (int64, error) {
	if m.tip.hash == hash {
		return m.tip.time, nil
	}
	at, err := e.blockTime(ctx, hash)
	if errors.Is(err, errNotFound) {
		err = errMoved
	}
	return at, err
}

// position is how far the account was read: the cursor's Position in the
// ledger, as JSON. The cursor's Anchor is the hash of the block at Height.
type position struct {
	// Height is the last final block that was read.
	Height int64 `json:"height"`
	// Index is that of the current address of an extended key; nil before the
	// chain was searched for used ones.
	Index *uint32 `json:"index,omitempty"`

	anchor string
}

// deep reports whether a payment stands in a block that is final, and was read
// from there.
func (p position) deep(proof evidence) bool { return proof.Block > 0 && proof.Block <= p.Height }

func parsePosition(c ledger.Cursor) (position, error) {
	d := json.NewDecoder(bytes.NewReader([]byte(c.Position)))
	d.DisallowUnknownFields()
	p := position{anchor: c.Anchor}
	if d.Decode(&p) != nil || ended(d) != nil || !within(p.Height, maxHeight) || p.Index != nil && *p.Index > maxIndex {
		return position{}, errMalformed
	}
	if !hash256.MatchString(c.Anchor) {
		return position{}, errMalformed
	}
	return p, nil
}

// later joins what two instances have read of one account: neither moves the
// other back.
func (p position) later(q position) position {
	if q.Height > p.Height {
		p.Height, p.anchor = q.Height, q.anchor
	}
	if p.Index == nil || q.Index != nil && *q.Index > *p.Index {
		p.Index = q.Index
	}
	return p
}

// position reads the account's position from the ledger.
func (o *Observer) position(ctx context.Context) (p position, found bool, err error) {
	c, found, err := observe.Cursor(ctx, o.config.Ledger, o.config.OfferID, o.config.Rail.Account())
	if err != nil || !found {
		return position{}, false, err
	}
	if p, err = parsePosition(c); err != nil {
		return position{}, false, observe.ErrNoLedger
	}
	return p, true, nil
}

func (o *Observer) cursor(p position) ledger.Cursor {
	text, _ := json.Marshal(p) // it is two numbers
	return ledger.Cursor{
		Offer: o.config.OfferID, Account: o.config.Rail.Account(), Position: string(text), Anchor: p.anchor, OKAt: o.config.Now().Unix(),
	}
}
