package demo

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/filelock"
)

func TestADemoRemovesWhatKilledOnesLeftAndNothingElse(t *testing.T) {
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	elsewhere := filepath.Join(t.TempDir(), "pay_offer_demo_elsewhere")
	put := func(folder string, files ...string) string {
		require.NoError(t, os.MkdirAll(folder, 0o700))
		for _, name := range files {
			require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte("x"), 0o600))
		}
		return folder
	}
	in := func(name string) string { return filepath.Join(temporary, name) }
	living, err := newFolder()
	require.NoError(t, err)
	dead := []string{put(in("pay_offer_demo_1"), lockName, "ledger.db"), put(in("pay_offer_demo_2"), lockName)}
	kept := []string{
		put(in("pay_offer_demo_beginning")), put(in("pay_offer_other"), lockName), put(elsewhere, lockName), living.folder,
		put(in("pay_offer_demo_linked"), "ledger.db"),
	}
	require.NoError(t, os.Symlink(elsewhere, in("pay_offer_demo_link")))
	require.NoError(t, os.Symlink(filepath.Join(elsewhere, lockName), filepath.Join(in("pay_offer_demo_linked"), lockName)))
	require.NoError(t, os.WriteFile(in("pay_offer_demo_file"), nil, 0o600))
	if os.Geteuid() == 0 {
		others := put(in("pay_offer_demo_others"), lockName)
		require.NoError(t, os.Chown(others, 65534, 65534))
		kept = append(kept, others)
	}

	k, err := newFolder()
	require.NoError(t, err)

	for _, folder := range dead {
		require.NoDirExists(t, folder)
	}
	for _, folder := range append(kept, k.folder) {
		require.DirExists(t, folder)
	}
	require.FileExists(t, filepath.Join(elsewhere, lockName))
	require.FileExists(t, in("pay_offer_demo_file"))
	_, err = os.Lstat(in("pay_offer_demo_link"))
	require.NoError(t, err)
	info, err := os.Stat(k.folder)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
	k.remove()
	require.NoDirExists(t, k.folder)
	require.ErrorIs(t, filelockOf(t, living.lock.Name()), filelock.ErrLocked, "who looks at a lock does not end it")
	living.remove()
}

// filelockOf is what trying a lock says.
func filelockOf(t *testing.T, name string) error {
	t.Helper()
	file, err := os.OpenFile(name, os.O_RDWR, 0)
	require.NoError(t, err)
	defer file.Close()
	return filelock.Try(file)
}
