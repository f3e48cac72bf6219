package signature

import (
	"sync"
	"testing"

	"github.com/caddyserver/certmagic"
	"github.com/stretchr/testify/require"
)

func secretIn(storage Storage) *Secret {
	return NewSecret(func() Storage { return storage }, "pay_offer/qr.key", "the key of QR addresses")
}

// Instances that share a storage share the key, also when they start together:
// each serves the QR addresses that another gave out.
func TestSecretIsMadeOnceForAllInstances(t *testing.T) {
	storage := &certmagic.FileStorage{Path: t.TempDir()}
	secrets := make([]*Secret, 4)
	errs := make([]error, len(secrets))
	var instances sync.WaitGroup
	for n := range secrets {
		secrets[n] = secretIn(storage)
		require.Nil(t, secrets[n].Bytes(), "nothing is loaded yet")
		instances.Go(func() { errs[n] = secrets[n].Load(t.Context()) })
	}
	instances.Wait()
	for n := range secrets {
		require.NoError(t, errs[n])
		require.Len(t, secrets[n].Bytes(), 32)
		require.Equal(t, secrets[0].Bytes(), secrets[n].Bytes())
	}
	other := secretIn(&certmagic.FileStorage{Path: t.TempDir()})
	require.NoError(t, other.Load(t.Context()))
	require.NotEqual(t, secrets[0].Bytes(), other.Bytes())
	require.Equal(t, secrets[0].ID(), secrets[1].ID())
	require.NotEqual(t, secrets[0].ID(), other.ID())
}

func TestDamagedSecretIsReportedAndNotReplaced(t *testing.T) {
	storage := &certmagic.FileStorage{Path: t.TempDir()}
	require.NoError(t, storage.Store(t.Context(), "pay_offer/qr.key", []byte("short")))
	require.ErrorContains(t, secretIn(storage).Load(t.Context()), "the key of QR addresses in Caddy's storage (pay_offer/qr.key) has 5 bytes, not 32")
}

func TestSecretThatIsLoadedStaysWhileTheStorageIsAway(t *testing.T) {
	storage := &lostStorage{Storage: &certmagic.FileStorage{Path: t.TempDir()}}
	s := secretIn(storage)
	require.NoError(t, s.Load(t.Context()))
	before := s.Bytes()
	storage.lost.Store(true)
	require.NoError(t, s.Load(t.Context()))
	require.Equal(t, before, s.Bytes())
	require.EqualError(t, secretIn(storage).Load(t.Context()),
		"loading the key of QR addresses in Caddy's storage: no route to the storage")
}
