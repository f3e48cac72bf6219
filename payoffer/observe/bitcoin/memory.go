package bitcoin

import (
	"context"
	"errors"
	"maps"
	"time"
)

// memory is what the observer keeps from one round to the next. A round works
// on a copy, which is kept once the round is committed.
type memory struct {
	// origin is the account's, once begun.
	origin int64
	begun  bool
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
		marks: make(map[string]mark), absent: make(map[string]time.Time),
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
