package ledger

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestKeysOfAnotherStorageAreRefused(t *testing.T) {
	eachDialect(t, func(t *testing.T, d testDialect) {
		l, _ := d.ledger(t)
		require.NoError(t, l.RememberKeys(t.Context(), "did:web:shop", "k1"))
		require.NoError(t, l.RememberKeys(t.Context(), "did:web:shop", "k1", "k2"), "rotated")
		require.ErrorIs(t, l.RememberKeys(t.Context(), "did:web:shop", "k1"), ErrKeys)
		require.ErrorIs(t, l.RememberKeys(t.Context(), "did:web:shop", "other"), ErrKeys)
		require.NoError(t, l.RememberKeys(t.Context(), "did:web:other", "other"))
		require.NoError(t, l.RememberKeys(t.Context(), "did:web:shop", "k2", "k1"), "nothing was kept of what was refused")
	})
}

func TestOfTwoStoragesThatStartAtOnceOneIsRefused(t *testing.T) {
	eachDialect(t, func(t *testing.T, d testDialect) {
		l, _ := d.ledger(t)
		var starts sync.WaitGroup
		errs := make([]error, 4)
		for i := range errs {
			starts.Go(func() { errs[i] = l.RememberKeys(t.Context(), "did:web:shop", string(rune('a'+i))) })
		}
		starts.Wait()
		refused := 0
		for _, err := range errs {
			if err != nil {
				require.ErrorIs(t, err, ErrKeys)
				refused++
			}
		}
		require.Equal(t, len(errs)-1, refused)
	})
}
