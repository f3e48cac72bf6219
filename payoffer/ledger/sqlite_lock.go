package ledger

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/payoffer/caddy-pay-offer/payoffer/filelock"
)

var errFileInUse = fmt.Errorf("%w; stop it first, such as by 'sudo systemctl stop pay-offer'. Several servers need a ledger file each, or PostgreSQL", errInUse)

// acquire creates the ledger file and excludes other processes and handles until db is closed, or
// the process ends. The lock of the file next to it protects its path, also if the ledger file is
// replaced. The lock of the ledger file itself protects it under all its names. acquire does
// not open the file if another handle of this process may have it open: closing any descriptor of
// a file ends the process's locks on it, which SQLite has (fcntl(2)).
func (s *sqliteDialect) acquire(db *database) error {
	if err := s.locate(); err != nil {
		return err
	}
	if _, err := db.lockFile(s.real + ".lock"); err != nil {
		return err
	}
	if err := requireSingleName(s.real); err != nil {
		return err
	}
	file, err := db.lockFile(s.real)
	if err != nil {
		return err
	}
	if s.locked, err = file.Stat(); err != nil {
		return err
	}
	return requireNoOrphan(s.real)
}

// lockFile opens, creates and locks a file until db is closed.
func (db *database) lockFile(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	db.closers = append(db.closers, lockedFile{file})
	switch err := filelock.TryLock(file); {
	case errors.Is(err, filelock.ErrLocked):
		return nil, errFileInUse
	case err != nil:
		return nil, fmt.Errorf("locking %s: %w; a ledger needs a local disk", path, err)
	}
	return file, nil
}

type lockedFile struct{ *os.File }

func (l lockedFile) Close() error { return filelock.Close(l.File) }

// locate creates the folder and the file, and resolves symbolic links to it.
func (s *sqliteDialect) locate() error {
	path, err := filepath.Abs(s.path)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o700)
	}
	if err == nil {
		err = createFile(path)
	}
	if err == nil {
		s.real, err = filepath.EvalSymlinks(path)
	}
	if failed := (*fs.PathError)(nil); errors.As(err, &failed) {
		return fmt.Errorf("%w; make its folder for the user of the server, such as by 'sudo install -d -o pay-offer %s'", err, filepath.Dir(path))
	}
	return err
}

// createFile creates an empty file if there is none.
func createFile(path string) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	return file.Close()
}

// requireNoOrphan rejects an empty file next to the WAL of a lost one, because SQLite would
// delete that WAL.
func requireNoOrphan(path string) error {
	if info, err := os.Stat(path); err != nil || info.Size() > 0 {
		return err
	}
	if log, err := os.Stat(path + "-wal"); err != nil || log.Size() == 0 {
		return nil
	}
	return fmt.Errorf("%s-wal exists without its ledger file: it contains the newest payments of that file, and they would be lost; "+
		"put the file back, or move both away together (such as old.db and old.db-wal)", path)
}

// requireSingleName rejects a file with several names, because the newest payments are in
// a file (the WAL) next to the name by which it is opened.
func requireSingleName(path string) error {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err == nil && isMount(string(mounts), path) { // only Linux has the list and mounts files
		return fmt.Errorf("%s is mounted without its folder: the newest payments are in files next to it, which would be lost with the container; "+
			"mount the folder", path)
	}
	count, err := links(path)
	if err != nil {
		return err
	}
	if count > 1 {
		return fmt.Errorf("%s has %d names (hard links): the newest payments are in files next to one of them, and missing under another; "+
			"remove the other links, or mount the folder instead", path, count)
	}
	return nil
}

// isMount reports whether a file itself is in a list of mounts (proc_pid_mountinfo(5)).
func isMount(mounts, path string) bool {
	path = strings.NewReplacer(`\`, `\134`, " ", `\040`, "\t", `\011`, "\n", `\012`).Replace(path)
	for line := range strings.Lines(mounts) {
		if fields := strings.Fields(line); len(fields) > 4 && fields[4] == path {
			return true
		}
	}
	return false
}
