package signature

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
)

// Storage keeps secrets. Instances that share it share them; Caddy's storage is
// one. Load returns fs.ErrNotExist for what is not there.
type Storage interface {
	Lock(ctx context.Context, name string) error
	Unlock(ctx context.Context, name string) error
	Load(ctx context.Context, path string) ([]byte, error)
	Store(ctx context.Context, path string, value []byte) error
}

// stored is one secret in the storage that is in use now.
type stored struct {
	storage func() Storage
	// path is where it stands, and what its name in errors, as in "the signing
	// keys".
	path, what string
}

// load reads the secret; nil where there is none.
func (s *stored) load(ctx context.Context) ([]byte, error) {
	value, err := s.storage().Load(ctx, s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return value, s.failed("loading", err)
}

// change replaces the secret while no other instance does. next is given nil
// where there is none; what it returns stands there then.
func (s *stored) change(ctx context.Context, next func(before []byte) ([]byte, error)) (err error) {
	storage := s.storage()
	if err := storage.Lock(ctx, s.path); err != nil {
		return s.failed("locking", err)
	}
	defer func() {
		// The lock is given back even where ctx has ended.
		err = errors.Join(err, storage.Unlock(context.WithoutCancel(ctx), s.path))
	}()
	before, err := s.load(ctx)
	if err != nil {
		return err
	}
	value, err := next(before)
	if err != nil || string(value) == string(before) {
		return err
	}
	return s.failed("storing", storage.Store(ctx, s.path, value))
}

// failed says what could not be done.
func (s *stored) failed(doing string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s in Caddy's storage: %w", doing, s.what, err)
}
