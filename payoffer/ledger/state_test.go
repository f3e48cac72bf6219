package ledger

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestCheckWritableStoresNothing(t *testing.T) {
	eachDialect(t, func(t *testing.T, d testDialect) {
		l, _ := d.ledger(t)
		mustRecord(t, l, chainSighting("0x1", StatusSeen))
		before := l.Changes()
		require.NoError(t, l.CheckWritable(t.Context()))
		require.Equal(t, before, l.Changes())
		requireConsistent(t, l)
	})
}

func TestCheckWritableSaysWhyNoChangeIsStored(t *testing.T) {
	eachDialect(t, func(t *testing.T, d testDialect) {
		require.ErrorIs(t, d.handle(t, d.create(t), time.Now).CheckWritable(t.Context()), ErrNotOpen)
		l, _ := d.ledger(t)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, l.CheckWritable(ended), context.Canceled)
	})
}
