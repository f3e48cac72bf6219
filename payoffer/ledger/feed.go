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
// text is "seq.tag", with the tag in 16 hex digits, or "0".
type Bookmark struct{ Seq, Tag int64 }

// Bookmark returns the position after the transition.
func (t Transition) Bookmark() Bookmark { return Bookmark{t.Seq, t.Tag} }

func (b Bookmark) String() string {
	if b == (Bookmark{}) {
		return "0"
	}
	return fmt.Sprintf("%d.%016x", b.Seq, uint64(b.Tag))
}

// ParseBookmark parses the text of a Bookmark.
func ParseBookmark(s string) (b Bookmark, ok bool) {
	if s == "0" {
		return Bookmark{}, true
	}
	number, tag, _ := strings.Cut(s, ".")
	seq, err := strconv.ParseInt(number, 10, 64)
	bits, wrong := strconv.ParseUint(tag, 16, 64)
	if err != nil || wrong != nil || seq < 1 || len(tag) != 16 {
		return Bookmark{}, false
	}
	return Bookmark{seq, int64(bits)}, true
}

// Feed returns up to limit transitions of an offer after a position, in the order of
// commits. A reader that stores the last Bookmark with its own effect sees each exactly
// once. Error: ErrBookmark.
func (l *Ledger) Feed(ctx context.Context, offer string, after Bookmark, limit int) ([]Transition, error) {
	if after.Seq > 0 {
		known, err := collect(ctx, l, scanValue[bool], `SELECT EXISTS (SELECT 1 FROM transitions WHERE offer = $1 AND seq = $2 AND tag = $3)`,
			offer, after.Seq, after.Tag)
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
	last, _, err := atMostOne(collect(ctx, l, func(row scanner) (Bookmark, error) {
		var at Transition
		err := row.Scan(&at.Seq, &at.Tag)
		return at.Bookmark(), err
	}, `SELECT seq, tag FROM transitions WHERE offer = $1 ORDER BY seq DESC LIMIT 1`, offer))
	return last, err
}
