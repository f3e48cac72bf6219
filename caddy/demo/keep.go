package demo

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/payoffer/caddy-pay-offer/payoffer/filelock"
)

const (
	// keepPattern is the name of a keep, by which those of processes that were killed
	// are found.
	keepPattern = "pay_offer_demo_*"
	// lockName is a file in each keep, locked for as long as its process lives.
	lockName = "lock"
)

// keep is a temporary folder that goes with its process, or with the next demo.
type keep struct {
	folder string
	lock   *os.File
}

// newKeep makes a keep, and removes those of processes that ended without doing so.
func newKeep() (*keep, error) {
	for {
		folder, err := os.MkdirTemp("", keepPattern)
		if err != nil {
			return nil, err
		}
		k := &keep{folder: folder}
		if k.lock, err = os.OpenFile(filepath.Join(folder, lockName), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600); err == nil {
			err = filelock.Try(k.lock)
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
		k.remove() // another demo that begins took it for abandoned
	}
}

// remove lets go of the keep. Windows removes no file that is open.
func (k *keep) remove() {
	_ = filelock.Close(k.lock)
	_ = os.RemoveAll(k.folder)
}

// sweep removes the other keeps of this user whose locks nobody holds: where there are
// locks, as on this one.
func (k *keep) sweep() {
	if !held(k.lock.Name()) {
		return
	}
	found, _ := filepath.Glob(filepath.Join(os.TempDir(), keepPattern)) // the pattern is right
	for _, folder := range found {
		info, err := os.Lstat(folder)
		if err != nil || !info.IsDir() || !mine(info) || held(filepath.Join(folder, lockName)) {
			continue
		}
		_ = os.RemoveAll(folder)
	}
}

// held reports whether somebody holds a lock, or there is none to tell by.
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
	return filelock.Try(file) != nil
}
