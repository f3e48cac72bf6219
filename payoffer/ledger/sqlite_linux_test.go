package ledger

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/cases"
)

func init() {
	roles["open a mount"] = openMount
	roles["open on full disks"] = openOnFullDisks
}

// childWithMounts plays a role where it may mount. It is skipped where that is
// not permitted.
func childWithMounts(t *testing.T, role, where string) string {
	t.Helper()
	command := exec.Command(os.Args[0])
	command.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	if uid := os.Geteuid(); uid != 0 {
		command.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER
		command.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: uid, Size: 1}}
	}
	may := exec.Command("true")
	may.SysProcAttr = command.SysProcAttr
	if err := may.Run(); errors.Is(err, syscall.EPERM) {
		skipMounting(t, "this process may not have mounts of its own")
	}
	out := said(t, command, role, where)
	if strings.Contains(out, "mount: operation not permitted") {
		skipMounting(t, "this process may not mount")
	}
	return out
}

// openMount binds the ledger alone, and then its folder, into another folder.
func openMount(where string) error {
	other := filepath.Join(filepath.Dir(where), "other")
	alone := filepath.Join(other, "alone.db")
	if err := errors.Join(os.Mkdir(other, 0o700), os.WriteFile(alone, nil, 0o600), bind(where, alone)); err != nil {
		return err
	}
	refused := openAndClose(alone)
	return errors.Join(refused, syscall.Unmount(alone, 0), bind(filepath.Dir(where), other), openAndClose(filepath.Join(other, filepath.Base(where))))
}

func bind(from, to string) error {
	return os.NewSyscallError("mount", syscall.Mount(from, to, "", syscall.MS_BIND, ""))
}

func TestSQLiteFileThatIsMountedAloneIsRefused(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.db")
	require.NoError(t, openAndClose(path))
	alone := filepath.Join(filepath.Dir(path), "other", "alone.db")
	require.Equal(t, fmt.Sprintf("opening the ledger %s: %s is mounted alone: the newest payments are kept in files beside it, "+
		"and those would be lost with the container; mount the folder that holds it\n", alone, alone), childWithMounts(t, "open a mount", path))
}

// openOnFullDisks opens ledgers on disks with room for less and less, and again
// when there is room.
func openOnFullDisks(where string) error {
	const size = 400
	step := size / cases.Of(size/4, size/4, size/4) // a page of the disk, or three
	for free := 0; free < size; free += step {
		if err := syscall.Mount("tmpfs", where, "tmpfs", 0, fmt.Sprintf("size=%dk", size)); err != nil {
			return os.NewSyscallError("mount", err)
		}
		filling := filepath.Join(where, "filling")
		if err := os.WriteFile(filling, make([]byte, (size-free)<<10), 0o600); err != nil {
			return err
		}
		l := NewSQLite(filepath.Join(where, "ledger.db"), time.Now)
		if err := l.Open(context.Background()); err != nil {
			fmt.Println(err)
		}
		err := errors.Join(l.Close(), os.Remove(filling), l.Open(context.Background()), l.Close())
		if err = errors.Join(err, syscall.Unmount(where, 0)); err != nil {
			return fmt.Errorf("%d KiB were free: %w", free, err)
		}
	}
	return nil
}

func TestSQLiteFullDiskAtStartIsCalledThat(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	said := map[string]bool{}
	for line := range strings.Lines(childWithMounts(t, "open on full disks", folder)) {
		said[strings.TrimPrefix(line, "opening the ledger "+filepath.Join(folder, "ledger.db: "))] = true
	}
	require.Equal(t, map[string]bool{
		"database or disk is full (13)\n": true,
		"nothing more can be written into " + folder + ": no space left on device; make room there and start again\n": true,
	}, said)
}

// skipMounting ends a test that cannot mount here, where tests may be skipped.
func skipMounting(t *testing.T, why string) {
	t.Helper()
	require.NotEqual(t, "1", os.Getenv("PAY_OFFER_NO_SKIP"), why)
	t.Skip(why)
}
