package demo

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/payoffer/caddy-pay-offer/payoffer/filelock"
)

const (
	// folderPattern is the name of a demo's folder. A later demo finds the folders of killed
	// processes by it.
	folderPattern = "pay_offer_demo_*"
	// lockName is a file in each folder. It is locked while its process runs.
	lockName = "lock"
)

// tempFolder is a temporary folder. Its process removes it, or else the next demo does.
type tempFolder struct {
	folder string
	lock   *os.File
}

// newFolder makes a folder, and removes the folders of processes that were killed.
func newFolder() (*tempFolder, error) {
	for {
		folder, err := os.MkdirTemp("", folderPattern)
		if err != nil {
			return nil, err
		}
		k := &tempFolder{folder: folder}
		if k.lock, err = os.OpenFile(filepath.Join(folder, lockName), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600); err == nil {
			err = filelock.TryLock(k.lock)
		}
		if err == nil {
			_, err = os.Lstat(k.lock.Name())
		}
		switch {
		case err == nil:
			k.sweep()
			return k, nil
		case !errors.Is(err, filelock.ErrLocked) && !errors.Is(err, fs.ErrNotExist):
			k.remove()
			return nil, err
		}
		k.remove() // another demo that starts took it for abandoned
	}
}

// remove deletes the folder. It closes the lock first, because Windows does not remove open files.
func (t *tempFolder) remove() {
	_ = filelock.Close(t.lock)
	_ = os.RemoveAll(t.folder)
}

// sweep removes the other folders of this user that are not locked, if the file system has
// locks.
func (t *tempFolder) sweep() {
	if !held(t.lock.Name()) {
		return
	}
	found, _ := filepath.Glob(filepath.Join(os.TempDir(), folderPattern)) // the pattern is right
	for _, folder := range found {
		info, err := os.Lstat(folder)
		if err != nil || !info.IsDir() || !mine(info) || held(filepath.Join(folder, lockName)) {
			continue
		}
		_ = os.RemoveAll(folder)
	}
}

// held reports whether a process has the lock, or whether that cannot be determined.
func held(lock string) bool {
	info, err := os.Lstat(lock)
	if err != nil || !info.Mode().IsRegular() {
		return true
	}
	file, err := os.OpenFile(lock, os.O_RDWR, 0)
	if err != nil {
		return true
	}
	defer file.Close()
	return filelock.TryLock(file) != nil
}
