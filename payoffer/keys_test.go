package payoffer

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/certmagic"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/operator"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/postgres"
	"github.com/payoffer/caddy-pay-offer/payoffer/signature"
)

// eachLedger runs a test with an instance on each database.
func eachLedger(t *testing.T, test func(t *testing.T, k *keyed)) {
	t.Run("sqlite", func(t *testing.T) { test(t, newKeyed(t, "")) })
	t.Run("postgres", func(t *testing.T) {
		t.Setenv("OFFER_TEST_DSN", postgres.Shared(t).DSN(t))
		test(t, newKeyed(t, "postgres {env.OFFER_TEST_DSN}"))
	})
}

// keyed is an instance that changes between storages.
type keyed struct {
	*instance
	ledger string // as in the Caddyfile; empty for the instance's own
}

func newKeyed(t *testing.T, ledger string) *keyed {
	t.Helper()
	return &keyed{newInstance(t), ledger}
}

// on loads the smallest offer with a storage of the instance's folder.
func (k *keyed) on(storage string) error { return k.offerOn(storage, smallest) }

func (k *keyed) offerOn(storage, sites string) error {
	text := k.caddyfile(sites)
	if k.ledger != "" {
		text = strings.Replace(text, "sqlite "+k.ledgerPath(), k.ledger, 1)
	}
	return loadCaddyfile(k.t, strings.Replace(text, k.storage("storage"), k.storage(storage), 1))
}

// ledgerName is what the commands call it.
func (k *keyed) ledgerName() string {
	if k.ledger != "" {
		return "the ledger on PostgreSQL"
	}
	return "the ledger " + k.ledgerPath()
}

func (k *keyed) storage(name string) string { return filepath.Join(k.folder, name) }

// stop ends the instance, and everything that would outlive its configuration.
func (k *keyed) stop() {
	k.t.Helper()
	require.NoError(k.t, caddy.Stop())
	require.NoError(k.t, awaitUnended(k.t.Context()))
}

// requireRefused requires the sentence for other keys.
func (k *keyed) requireRefused(err error, keys string) {
	k.t.Helper()
	require.ErrorContains(k.t, err, "this ledger was used with "+keys+" than Caddy's storage has. If the disk is new, run 'caddy storage import'")
	require.ErrorContains(k.t, err, "run 'caddy pay-offer ledger forget-keys'")
}

// signing are the words for signing keys of the instance's domain.
func (k *keyed) signing() string {
	return "other signing keys of did:web:" + strings.ReplaceAll(strings.TrimPrefix(k.service, "http://"), ":", "%3A")
}

func TestStartRefusesKeysOfOtherStorage(t *testing.T) {
	eachLedger(t, func(t *testing.T, k *keyed) {
		require.NoError(t, k.on("storage"))
		keys := k.keys()
		k.requireRefused(k.on("other"), k.signing())
		k.untilReceived()
		require.Equal(t, keys, k.keys(), "the configuration of before goes on")
		k.stop()
		k.requireRefused(k.on("other"), k.signing())
		k.requireRefused(k.on("other"), k.signing())
		require.NoError(t, k.on("storage"))
		require.Equal(t, keys, k.keys())

		// Another domain has other keys, but its QR addresses are those of the same ledger.
		elsewhere := strings.ReplaceAll(smallest, "base_url SERVICE", "base_url OTHER")
		elsewhere = strings.Replace(elsewhere, "card ", "id "+strings.TrimPrefix(k.service, "http://")+"\n\t\tcard ", 1)
		k.requireRefused(k.offerOn("third", elsewhere), "another key of QR addresses")
		require.NoError(t, k.offerOn("storage", elsewhere))
		require.NoError(t, k.on("storage"), "and back")
		require.Equal(t, keys, k.keys())
	})
}

func TestCommandForgetKeys(t *testing.T) {
	eachLedger(t, func(t *testing.T, k *keyed) {
		require.NoError(t, k.on("storage"))
		keys := k.keys()
		require.Error(t, errorOf(k.ledgerCommand(k.ledger, "forget-keys")), "it runs, and has the keys")
		k.stop()
		require.NoError(t, os.RemoveAll(k.storage("storage")))
		k.requireRefused(k.on("storage"), k.signing())
		k.stop()
		out := must(k.ledgerCommand(k.ledger, "forget-keys"))(t)
		did, _, _ := strings.Cut(keys[0], "#")
		require.Contains(t, out, "\n"+k.ledgerName()+" has forgotten the keys of "+did+", qr: receipts signed with lost keys can no longer be verified\n")
		out = must(k.ledgerCommand(k.ledger, "forget-keys"))(t)
		require.Contains(t, out, "\n"+k.ledgerName()+" remembers no keys; nothing was changed\n")
		require.NoError(t, k.on("storage"))
		require.NotEqual(t, keys, k.keys())
		k.requireRefused(k.on("other"), k.signing())
	})
}

// copied copies the storage as it is now.
func (k *keyed) copied(to string) {
	k.t.Helper()
	require.NoError(k.t, os.CopyFS(k.storage(to), os.DirFS(k.storage("storage"))))
}

func TestStartRefusesStorageFromBeforeRotation(t *testing.T) {
	for name, revoke := range map[string]bool{"rotated": false, "revoked": true} {
		t.Run(name, func(t *testing.T) {
			eachLedger(t, func(t *testing.T, k *keyed) {
				require.NoError(t, k.on("storage"))
				k.copied("before")
				_, _, err := activeApp().running()[0].Operator.Rotate(t.Context(), revoke)
				require.NoError(t, err)
				keys := k.keys()
				k.copied("after")
				k.stop()
				k.requireRefused(k.on("before"), k.signing())
				for _, storage := range []string{"storage", "after"} {
					require.NoError(t, k.on(storage))
					require.Equal(t, keys, k.keys())
				}
			})
		})
	}
}

// A disk that was put back to an earlier state has not the keys that were made since. One more beside those would be
// taken for that of another storage, and no instance would start.
func TestRotateKeyRefusedAfterKeyLoss(t *testing.T) {
	for name, revoke := range map[string]bool{"rotated": false, "revoked": true} {
		t.Run(name, func(t *testing.T) {
			eachLedger(t, func(t *testing.T, k *keyed) {
				require.NoError(t, k.on("storage"))
				k.copied("before")
				svc, keys := activeApp().running()[0], k.keys()
				storage := &certmagic.FileStorage{Path: k.storage("storage")}
				other := signature.NewKeys(signature.KeysConfig{ // another instance, of whose new key this one did not hear yet
					DID: svc.Offer.DID(), Path: svc.KeysPath, Storage: func() signature.Storage { return storage },
					Now: time.Now, Logger: slog.New(slog.DiscardHandler),
				})
				require.NoError(t, other.Load(t.Context()))
				must(other.Rotate(t.Context(), false, func([]string) error { return nil }))(t)
				require.NoError(t, svc.Operator.Ledger.RememberKeys(t.Context(), map[string][]string{other.DID: other.IDs()}))
				k.copied("after")
				require.NoError(t, os.RemoveAll(k.storage("storage")))
				require.NoError(t, os.CopyFS(k.storage("storage"), os.DirFS(k.storage("before"))))

				_, err := svc.Operator.RotateKey(t.Context(), operator.KeyRotation{Revoke: revoke})
				var refused *operator.Error
				require.ErrorAs(t, err, &refused)
				require.Equal(t, operator.Conflict, refused.Kind)
				require.Contains(t, refused.Sentence, "this ledger was used with "+k.signing()+" than Caddy's storage has")
				require.Equal(t, keys, k.keys(), "those in use stay published")
				left := must(os.ReadFile(filepath.Join(k.storage("storage"), svc.KeysPath)))(t)
				before := must(os.ReadFile(filepath.Join(k.storage("before"), svc.KeysPath)))(t)
				require.Equal(t, before, left)

				require.NoError(t, os.RemoveAll(k.storage("storage")))
				require.NoError(t, os.CopyFS(k.storage("storage"), os.DirFS(k.storage("after"))))
				k.stop()
				require.NoError(t, k.on("storage"), "the storage is brought back, and nothing was made beside it")
				require.Len(t, k.keys(), 2)
				require.Equal(t, other.DID+"#"+other.IDs()[1], k.keys()[1])
			})
		})
	}
}

// The next start completes a rotation that ended between the storage and the ledger.
func TestStartCompletesInterruptedKeyRotation(t *testing.T) {
	eachLedger(t, func(t *testing.T, k *keyed) {
		require.NoError(t, k.on("storage"))
		svc := activeApp().running()[0]
		require.NoError(t, svc.Operator.Ledger.Close())
		_, _, err := svc.Operator.Rotate(t.Context(), true)
		require.NoError(t, err, "a stolen key is withdrawn also while the ledger is closed")
		keys := k.keys()
		require.Len(t, keys, 1)
		k.copied("after")
		k.stop()
		require.NoError(t, k.on("storage"))
		require.Equal(t, keys, k.keys())
		require.NoError(t, os.RemoveAll(k.storage("storage")))
		k.stop()
		k.requireRefused(k.on("storage"), k.signing())
		require.NoError(t, k.on("after"))
	})
}
