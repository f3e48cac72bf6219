package bitcoin

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
)

// memory is what the observer keeps from one round to the next beside the
// words of its endpoints: its plan. A round works on a copy, which is kept once
// all that it read is recorded.
type memory struct {
	// origin is the one down to which the addresses are read; -1 before that
	// began. lowered says that Config.Since was looked at.
	origin  int64
	lowered bool
	// walking is the next of the old addresses to be read, until all of them
	// were; walkDue is when that starts anew. walked is set after the first time.
	walking uint32
	walkDue time.Time
	walked  bool
	// turn is the number of the round, by which receipts take turns.
	turn int
	// search is how far the chain was searched for used addresses.
	search search

	// derived and scripts are the rail's addresses. They do not change.
	derived map[uint32]watched
	scripts map[string]watched
}

func newMemory() memory {
	return memory{origin: -1, derived: make(map[uint32]watched), scripts: make(map[string]watched)}
}

// words are what an endpoint said in the last round.
type words struct {
	tip tip
	// lists are those of the addresses, as it was read last.
	lists map[string]list
	// absent says since when it does not know the transactions of receipts.
	absent map[string]time.Time
}

// list is what an endpoint lists of an address.
type list struct {
	// block was the newest one, and stats what was counted then; block is empty
	// where all is to be read again.
	block string
	stats stats
	// above is the height down to which was read, and final the last final block.
	above, final int64
	// older counts the transactions up to above: the number that is counted less
	// those that are listed. It is a fact of final blocks.
	older int64
	// heights are the blocks of those that are listed.
	heights []int64
	// confirmed and used say that a payment to it is listed at all.
	confirmed, used bool
}

func newWords() words { return words{lists: make(map[string]list), absent: make(map[string]time.Time)} }

func (w words) clone() words {
	w.lists, w.absent = maps.Clone(w.lists), maps.Clone(w.absent)
	return w
}

// follows reports whether a list can be that of an address whose list was prev.
// What is final and was listed then is older now.
func (l list) follows(prev list) bool {
	if l.above < prev.above || l.above > prev.final {
		return true // nothing that is final can be compared
	}
	passed := prev.older
	for _, height := range prev.heights {
		if height <= l.above {
			passed++
		}
	}
	return l.older == passed
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

func (o *Observer) cursor(p position) *ledger.Cursor {
	text, _ := json.Marshal(p) // it is two numbers
	return &ledger.Cursor{
		Offer: o.config.OfferID, Account: o.config.Rail.Account(), Position: string(text), Anchor: p.anchor, OKAt: o.config.Now().Unix(),
	}
}
