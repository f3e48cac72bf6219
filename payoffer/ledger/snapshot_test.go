package ledger

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestASnapshotIsOfOneMomentAndWhole(t *testing.T) {
	eachLedger(t, func(t *testing.T, l *Ledger, _ *testClock) {
		var batch []Observation
		for n := range snapshotPage + 3 {
			batch = append(batch, cardObservation(fmt.Sprint("pi_", n), StatusSeen))
		}
		must(l.Record(t.Context(), nil, batch...))(t)
		mustRecord(t, l, cardObservation("pi_7", StatusConfirmed))
		totals := must(l.Totals(t.Context(), testOffer))(t)

		s := must(l.Snapshot(t.Context(), testOffer))(t)
		defer s.Close()
		mustRecord(t, l, cardObservation("pi_8", StatusConfirmed))
		mustRecord(t, l, cardObservation("later", StatusConfirmed))

		require.Equal(t, totals, s.Totals)
		read, last := 0, int64(0)
		for r, err := range s.Receipts(t.Context()) {
			require.NoError(t, err)
			require.Greater(t, r.ID, last, "oldest first")
			last = r.ID
			require.Len(t, r.History, int(r.Version))
			require.Equal(t, r.ExternalID == "pi_7", r.Status == StatusConfirmed)
			for i, tr := range r.History {
				require.Equal(t, r.ID, tr.ReceiptID)
				require.EqualValues(t, i+1, tr.Version)
			}
			read++
		}
		require.Equal(t, len(batch), read)
	})
}
