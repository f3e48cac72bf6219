package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSystemdWritesFilesOnce(t *testing.T) {
	root := t.TempDir()
	modes := map[string]os.FileMode{
		"etc/systemd/system/pay-offer.service": 0o644, "etc/systemd/system/pay-offer-backup.service": 0o644,
		"etc/systemd/system/pay-offer-backup.timer": 0o644, "etc/systemd/system/pay-offer-backup-failed.service": 0o644,
		"usr/local/sbin/as-pay-offer": 0o755, "etc/pay-offer/environment": 0o600,
	}
	out := must(execute(t, systemdCommand(), root))(t)
	files, steps, _ := strings.Cut(out, "Then, as root")
	require.Len(t, strings.Fields(files), len(modes))
	require.Contains(t, steps, "systemctl enable --now pay-offer pay-offer-backup.timer\n")
	for name, mode := range modes {
		path := filepath.Join(root, name)
		require.Contains(t, out, path+"\n")
		require.Equal(t, mode, must(os.Stat(path))(t).Mode(), name)
		require.Equal(t, mode != 0o600, len(must(os.ReadFile(path))(t)) > 0, "only the file of the secrets is empty: %s", name)
	}

	environment, unit := filepath.Join(root, "etc/pay-offer/environment"), filepath.Join(root, "etc/systemd/system/pay-offer.service")
	require.NoError(t, os.WriteFile(environment, []byte("CARD_API_KEY='rk_1'\n"), 0o600))
	again := must(execute(t, systemdCommand(), root))(t)
	require.Equal(t, len(modes), strings.Count(again, " unchanged\n"))
	require.Equal(t, len(modes), strings.Count(again, "\n"), "nothing is left to do")
	require.Equal(t, "CARD_API_KEY='rk_1'\n", string(must(os.ReadFile(environment))(t)), "secrets are kept")

	require.NoError(t, os.WriteFile(unit, []byte("own"), 0o644))
	_, err := execute(t, systemdCommand(), root)
	require.ErrorContains(t, err, unit+" exists with other content and is not overwritten; move it away")
	require.Equal(t, "own", string(must(os.ReadFile(unit))(t)))
}

func TestSystemdNeedsFolder(t *testing.T) {
	require.ErrorContains(t, errorOf(execute(t, systemdCommand())), "the argument <root> is missing; write for example: sudo caddy pay-offer systemd /")
}
