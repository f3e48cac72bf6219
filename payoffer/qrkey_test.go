package payoffer

import (
	"sync"
	"testing"

	"github.com/caddyserver/certmagic"
	"github.com/stretchr/testify/require"
)

// Instances that share a storage share the key, also when they start together:
// each serves the QR addresses that another gave out.
func TestQRKeyIsMadeOnceForAllInstances(t *testing.T) {
	storage := &certmagic.FileStorage{Path: t.TempDir()}
	keys := make([][]byte, 2)
	errs := make([]error, len(keys))
	var instances sync.WaitGroup
	for n := range keys {
		instances.Go(func() { keys[n], errs[n] = loadQRKey(t.Context(), storage) })
	}
	instances.Wait()
	for n := range keys {
		require.NoError(t, errs[n])
		require.Len(t, keys[n], 32)
		require.Equal(t, keys[0], keys[n])
	}
	other, err := loadQRKey(t.Context(), &certmagic.FileStorage{Path: t.TempDir()})
	require.NoError(t, err)
	require.NotEqual(t, keys[0], other)
}

func TestDamagedQRKeyIsReportedAndNotReplaced(t *testing.T) {
	storage := &certmagic.FileStorage{Path: t.TempDir()}
	require.NoError(t, storage.Store(t.Context(), storageQRKey, []byte("short")))
	_, err := loadQRKey(t.Context(), storage)
	require.ErrorContains(t, err, "has 5 bytes, not 32")
}
