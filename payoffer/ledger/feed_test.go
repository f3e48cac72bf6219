package ledger

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAFeedGoesOnWhereItsReaderStopped(t *testing.T) {
	eachLedger(t, func(t *testing.T, l *Ledger, _ *testClock) {
		for _, id := range []string{"pi_1", "pi_2", "pi_3"} {
			mustRecord(t, l, cardObservation(id, StatusConfirmed))
		}
		var seen []string
		at := Bookmark{}
		for {
			next := must(l.Feed(t.Context(), testOffer, at, 2))(t)
			if len(next) == 0 {
				break
			}
			for _, tr := range next {
				seen = append(seen, tr.ExternalID)
			}
			kept := next[len(next)-1].Bookmark().String() // as its reader keeps it
			var ok bool
			at, ok = ParseBookmark(kept)
			require.True(t, ok, kept)
		}
		require.Equal(t, []string{"pi_1", "pi_2", "pi_3"}, seen)
	})
}

// TestAReaderIsToldThatTheHistoryIsAnother: what was written after the copy that
// was put back is gone, and its numbers are given to something else.
func TestAReaderIsToldThatTheHistoryIsAnother(t *testing.T) {
	eachDialect(t, func(t *testing.T, d testDialect) {
		before, _ := d.ledger(t)
		after, _ := d.ledger(t)
		for _, l := range []*Ledger{before, after} {
			mustRecord(t, l, cardObservation("pi_1", StatusConfirmed))
			mustRecord(t, l, cardObservation("pi_2", StatusConfirmed))
		}
		read := must(before.Feed(t.Context(), testOffer, Bookmark{}, 10))(t)
		kept := read[1].Bookmark()
		require.EqualValues(t, 2, kept.Seq)
		require.ErrorIs(t, errorOf(after.Feed(t.Context(), testOffer, kept, 10)), ErrBookmark)
		_, err := after.Feed(t.Context(), testOffer, Bookmark{Seq: 999}, 10)
		require.ErrorIs(t, err, ErrBookmark, "nobody has read so far here")
		_, err = before.Feed(t.Context(), "other", kept, 10)
		require.ErrorIs(t, err, ErrBookmark, "a place is one of an offer's own history")
	})
}

func TestParseBookmarkReadsWhatItWritesAlone(t *testing.T) {
	for _, b := range []Bookmark{{}, {Seq: 7}, {Seq: 1 << 62, Tag: -1}} {
		read, ok := ParseBookmark(b.String())
		require.True(t, ok)
		require.Equal(t, b, read)
	}
	for _, s := range []string{"", "-1", "x", "1", "0.0000000000000000", "1.", "1.0", "1.zzzzzzzzzzzzzzzz", "1.00000000000000000", ".0000000000000000", "1.-000000000000001", "99999999999999999999"} {
		_, ok := ParseBookmark(s)
		require.False(t, ok, s)
	}
}

func FuzzParseBookmark(f *testing.F) {
	f.Add("7.00000000000000ff")
	f.Add("+7")
	f.Fuzz(func(t *testing.T, s string) {
		b, ok := ParseBookmark(s)
		if !ok {
			require.Zero(t, b)
			return
		}
		again, ok := ParseBookmark(b.String())
		require.True(t, ok)
		require.Equal(t, b, again)
	})
}
