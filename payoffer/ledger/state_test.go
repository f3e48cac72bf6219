package ledger

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTheStateOfALedgerIsToldAndNothingIsStored(t *testing.T) {
	eachDialect(t, func(t *testing.T, d testDialect) {
		l, _ := d.ledger(t)
		before := l.Changes()
		s, err := l.State(t.Context())
		require.NoError(t, err)
		require.Equal(t, d.name != sqliteTests.name, s.Shared)
		require.Zero(t, s.Changed)
		if s.Shared {
			require.EqualValues(t, -1, s.Free)
		} else {
			require.Positive(t, s.Free)
		}
		row := mustRecord(t, l, chainSighting("0x1", StatusSeen))
		s, err = l.State(t.Context())
		require.NoError(t, err)
		require.Equal(t, row.UpdatedAt, s.Changed)
		require.Equal(t, before+1, l.Changes(), "that of the receipt")
		requireConsistent(t, l)
	})
}

func TestTheStateOfALedgerSaysWhyNoChangeIsTaken(t *testing.T) {
	eachDialect(t, func(t *testing.T, d testDialect) {
		_, err := d.handle(t, d.create(t), time.Now).State(t.Context())
		require.ErrorIs(t, err, ErrNotOpen)

		l, _ := d.ledger(t)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = l.State(ended)
		require.ErrorIs(t, err, context.Canceled)
	})
}
