package ledger

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestCheckWritableSaysWhyNoChangeIsStored(t *testing.T) {
	eachDialect(t, func(t *testing.T, d testDialect) {
		require.ErrorIs(t, d.handle(t, d.create(t), time.Now).CheckWritable(t.Context()), ErrNotOpen)
		l, _ := d.ledger(t)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, l.CheckWritable(ended), context.Canceled)
	})
}
