package ledger

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// namedKeys are the ids of keys that go by one name.
func namedKeys(name string, ids ...string) map[string][]string { return map[string][]string{name: ids} }

func TestKeysOfAnotherStorageAreRefused(t *testing.T) {
	eachLedger(t, func(t *testing.T, l *Ledger, _ *testClock) {
		requireRefused := func(keys map[string][]string) {
			t.Helper()
			var refused *KeysError
			require.ErrorAs(t, l.RememberKeys(t.Context(), keys), &refused)
			require.Equal(t, "did:web:shop", refused.Name)
		}
		require.NoError(t, l.RememberKeys(t.Context(), namedKeys("did:web:shop", "k1")))
		require.NoError(t, l.RememberKeys(t.Context(), namedKeys("did:web:shop", "k1", "k2")), "rotated")
		requireRefused(namedKeys("did:web:shop", "k1"))
		requireRefused(namedKeys("did:web:shop", "other"))
		requireRefused(map[string][]string{"a": {"1"}, "did:web:shop": {"k2"}, "qr": {"1"}})
		require.NoError(t, l.RememberKeys(t.Context(), map[string][]string{"a": {"2"}, "qr": {"2"}}), "nothing was kept of what was refused")
		require.NoError(t, l.RememberKeys(t.Context(), map[string][]string{"a": {"2"}, "qr": {"2"}, "did:web:shop": {"k2", "k1"}}))
	})
}

func TestForgottenKeysMayBeOthers(t *testing.T) {
	eachLedger(t, func(t *testing.T, l *Ledger, _ *testClock) {
		none := must(l.ForgetKeys(t.Context()))(t)
		require.Empty(t, none)
		require.NoError(t, l.RememberKeys(t.Context(), map[string][]string{"qr": {"1"}, "did:web:shop": {"k1", "k2"}}))
		names := must(l.ForgetKeys(t.Context()))(t)
		require.Equal(t, []string{"did:web:shop", "qr"}, names)
		require.NoError(t, l.RememberKeys(t.Context(), map[string][]string{"qr": {"2"}, "did:web:shop": {"k3"}}))
	})
}

func TestOfTwoStoragesThatStartAtOnceOneIsRefused(t *testing.T) {
	eachLedger(t, func(t *testing.T, l *Ledger, _ *testClock) {
		var starts sync.WaitGroup
		errs := make([]error, 4)
		for i := range errs {
			starts.Go(func() { errs[i] = l.RememberKeys(t.Context(), namedKeys("did:web:shop", string(rune('a'+i)))) })
		}
		starts.Wait()
		refused := 0
		for _, err := range errs {
			if err != nil {
				require.ErrorAs(t, err, new(*KeysError))
				refused++
			}
		}
		require.Equal(t, len(errs)-1, refused)
	})
}
