package ledger

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSightingBeyondTheSumsIsRefused(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*Sighting){
		"amount": func(s *Sighting) { s.Amount = math.MaxInt64 },
		"value":  func(s *Sighting) { s.USDCents = ptr(int64(math.MaxInt64)) },
	} {
		t.Run(name, func(t *testing.T) {
			eachDialect(t, func(t *testing.T, d testDialect) {
				l, _ := d.ledger(t)
				small, big, bigger := chainSighting("0xa", StatusSeen), chainSighting("0xb", StatusSeen), chainSighting("0xc", StatusSeen)
				spoil(&big)
				spoil(&bigger)
				_, err := l.Record(t.Context(), nil, big, bigger)
				require.ErrorIs(t, err, ErrSighting)
				require.ErrorContains(t, err, bigger.ExternalID)
				mustRecord(t, l, big)
				_, err = l.Record(t.Context(), nil, small)
				require.ErrorIs(t, err, ErrSighting)

				// What does not count any more makes room.
				big.State = StatusDropped
				mustRecord(t, l, big)
				mustRecord(t, l, small)
				small.State = StatusDropped
				_, err = l.Record(t.Context(), nil, small)
				require.ErrorIs(t, err, ErrSighting, "the sum of what was dropped is full")
				require.Equal(t, StatusSeen, mustRecord(t, l, chainSighting("0xa", StatusSeen)).Status)
				requireConsistent(t, l)
			})
		})
	}
}

func TestReturnBeyondTheSumsIsRefused(t *testing.T) {
	eachDialect(t, func(t *testing.T, d testDialect) {
		l, _ := d.ledger(t)
		refund := Return{ID: "re_1", Kind: ReturnRefund, Amount: math.MaxInt64, Gone: true}
		for _, id := range []string{"pi_1", "pi_2"} {
			s := cardSighting(id, StatusConfirmed)
			s.Amount = math.MaxInt64
			mustRecord(t, l, s)
			if id == "pi_1" {
				mustRecord(t, l, returned(id, refund))
			}
		}
		before := dump(t, l)
		_, err := l.Record(t.Context(), nil, returned("pi_2", refund))
		require.ErrorIs(t, err, ErrSighting, "the sum of what was refunded is full")
		require.Equal(t, before, dump(t, l))
		requireConsistent(t, l)
	})
}
