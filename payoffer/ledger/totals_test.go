package ledger

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestObservationBeyondTheSumsIsRefused(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*Observation){
		"amount": func(s *Observation) { s.Amount = math.MaxInt64 },
		"value":  func(s *Observation) { s.USDCents = ptr(int64(math.MaxInt64)) },
	} {
		t.Run(name, func(t *testing.T) {
			eachLedger(t, func(t *testing.T, l *Ledger, _ *testClock) {
				small, big, bigger := chainObservation("0xa", StatusSeen), chainObservation("0xb", StatusSeen), chainObservation("0xc", StatusSeen)
				spoil(&big)
				spoil(&bigger)
				_, err := l.Record(t.Context(), nil, big, bigger)
				require.ErrorIs(t, err, ErrObservation)
				require.ErrorContains(t, err, bigger.ExternalID)
				mustRecord(t, l, big)
				require.ErrorIs(t, errorOf(l.Record(t.Context(), nil, small)), ErrObservation)

				// What does not count any more makes room.
				big.State = StatusDropped
				mustRecord(t, l, big)
				mustRecord(t, l, small)
				small.State = StatusDropped
				_, err = l.Record(t.Context(), nil, small)
				require.ErrorIs(t, err, ErrObservation, "the sum of what was dropped is full")
				require.Equal(t, StatusSeen, mustRecord(t, l, chainObservation("0xa", StatusSeen)).Status)
				requireConsistent(t, l)
			})
		})
	}
}

func TestReturnBeyondTheSumsIsRefused(t *testing.T) {
	eachLedger(t, func(t *testing.T, l *Ledger, _ *testClock) {
		refund := Return{ID: "re_1", Kind: ReturnRefund, Amount: math.MaxInt64, Gone: true}
		for _, id := range []string{"pi_1", "pi_2"} {
			s := cardObservation(id, StatusConfirmed)
			s.Amount = math.MaxInt64
			mustRecord(t, l, s)
			if id == "pi_1" {
				mustRecord(t, l, returned(id, refund))
			}
		}
		before := dump(t, l)
		_, err := l.Record(t.Context(), nil, returned("pi_2", refund))
		require.ErrorIs(t, err, ErrObservation, "the sum of what was refunded is full")
		require.Equal(t, before, dump(t, l))
		requireConsistent(t, l)
	})
}
