package ledger

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// ErrBookmark is returned for a position that the history does not have, because an older
// copy of the ledger was restored, or the position is from another ledger.
var ErrBookmark = errors.New("the ledger's history does not have this position; read again from the beginning")

// Bookmark is a position in the history: after a transition, or before all of them. Its
// text is "seq.tag", with the tag in 16 hex digits. Readers may omit the tag.
type Bookmark struct {
	Seq int64
	Tag *int64
}

// Bookmark returns the position after the transition.
func (t Transition) Bookmark() Bookmark { return Bookmark{t.Seq, &t.Tag} }

func (b Bookmark) String() string {
	if b.Tag == nil {
		return strconv.FormatInt(b.Seq, 10)
	}
	return fmt.Sprintf("%d.%016x", b.Seq, uint64(*b.Tag))
}

// ParseBookmark parses the text of a Bookmark.
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

// Feed returns up to limit transitions of an offer after a position, in the order of
// commits. A reader that stores the last Bookmark with its own effect sees each exactly
// once. Error: ErrBookmark.
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

// Last returns the position after the newest transition of an offer.
func (l *Ledger) Last(ctx context.Context, offer string) (Bookmark, error) {
	l.order(ctx)
	last, _, err := first(collect(ctx, l, func(row scanner) (Bookmark, error) {
		var at Transition
		err := row.Scan(&at.Seq, &at.Tag)
		return at.Bookmark(), err
	}, `SELECT seq, tag FROM transitions WHERE offer = $1 AND seq > 0 ORDER BY seq DESC LIMIT 1`, offer))
	return last, err
}
