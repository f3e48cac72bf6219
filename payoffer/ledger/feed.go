package ledger

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// ErrBookmark is returned for a place in the history that the ledger does not
// have: it was read before an older copy of the ledger was put back, or from
// another ledger.
var ErrBookmark = errors.New("the ledger does not have this place in its history")

// Bookmark is a place in the history: after a transition, or before all of them
// for the zero Bookmark. It is written "seq.tag", the tag in 16 hex digits. A
// reader that kept the number alone has no Tag.
type Bookmark struct {
	Seq int64
	Tag *int64
}

// Bookmark is the place after the transition.
func (t Transition) Bookmark() Bookmark { return Bookmark{t.Seq, &t.Tag} }

func (b Bookmark) String() string {
	if b.Tag == nil {
		return strconv.FormatInt(b.Seq, 10)
	}
	return fmt.Sprintf("%d.%016x", b.Seq, uint64(*b.Tag))
}

// ParseBookmark reads what String writes.
func ParseBookmark(s string) (b Bookmark, ok bool) {
	number, tag, tagged := strings.Cut(s, ".")
	seq, err := strconv.ParseInt(number, 10, 64)
	if err != nil || seq < 0 {
		return Bookmark{}, false
	}
	b.Seq = seq
	if tagged {
		bits, err := strconv.ParseUint(tag, 16, 64)
		if err != nil || len(tag) != 16 {
			return Bookmark{}, false
		}
		signed := int64(bits)
		b.Tag = &signed
	}
	return b, true
}

// Feed lists up to limit transitions of an offer's receipts after a place, in the
// order of commits. A reader that keeps the last Bookmark with its own effect sees
// each exactly once. Error: ErrBookmark. Of a number alone it is known only whether
// the history has come so far.
func (l *Ledger) Feed(ctx context.Context, offer string, after Bookmark, limit int) ([]Transition, error) {
	l.order(ctx)
	if after.Seq > 0 {
		var known []bool
		var err error
		if after.Tag != nil {
			known, err = collect(ctx, l, scanValue[bool], `SELECT EXISTS (SELECT 1 FROM transitions WHERE offer = $1 AND seq = $2 AND tag = $3)`,
				offer, after.Seq, *after.Tag)
		} else {
			known, err = collect(ctx, l, scanValue[bool], `SELECT EXISTS (SELECT 1 FROM transitions WHERE seq >= $1)`, after.Seq)
		}
		if err != nil {
			return nil, err
		}
		if !known[0] {
			return nil, ErrBookmark
		}
	}
	return l.Transitions(ctx, offer, after.Seq, limit)
}

// Last is the place after the newest transition of an offer; the zero Bookmark
// where there is none. It moves with every transition.
func (l *Ledger) Last(ctx context.Context, offer string) (Bookmark, error) {
	l.order(ctx)
	last, _, err := first(collect(ctx, l, func(row scanner) (Bookmark, error) {
		var at Transition
		err := row.Scan(&at.Seq, &at.Tag)
		return at.Bookmark(), err
	}, `SELECT seq, tag FROM transitions WHERE offer = $1 AND seq > 0 ORDER BY seq DESC LIMIT 1`, offer))
	return last, err
}
