package ledger

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestASnapshotIsOfOneMomentAndWhole(t *testing.T) {
	eachDialect(t, func(t *testing.T, d testDialect) {
		l, _ := d.ledger(t)
		var batch []Observation
		for n := range snapshotPage + 3 {
			batch = append(batch, cardObservation(fmt.Sprint("pi_", n), StatusSeen))
		}
		_, err := l.Record(t.Context(), nil, batch...)
		require.NoError(t, err)
		mustRecord(t, l, cardObservation("pi_7", StatusConfirmed))
		totals, err := l.Totals(t.Context(), testOffer)
		require.NoError(t, err)

		s, err := l.Snapshot(t.Context(), testOffer)
		require.NoError(t, err)
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
