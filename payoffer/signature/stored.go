package signature

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"sync/atomic"
)

// Storage keeps secrets. Instances that share it share them; Caddy's storage is
// one. Load returns fs.ErrNotExist for what is not there.
type Storage interface {
	Lock(ctx context.Context, name string) error
	Unlock(ctx context.Context, name string) error
	Load(ctx context.Context, path string) ([]byte, error)
	Store(ctx context.Context, path string, value []byte) error
}

// DamagedError is why a stored secret cannot be used, which somebody has to mend. Any
// other error of loading is the storage's, which may be there later.
type DamagedError struct{ error }

func (e *DamagedError) Unwrap() error { return e.error }

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

// secretSize is the length of a Secret in bytes.
const secretSize = 32

// Secret is a random key of 32 bytes that all instances share. It is made when
// the first of them starts.
type Secret struct {
	stored
	value   atomic.Pointer[[]byte]
	loading sync.Mutex // many ask for it at once, and one reads it
}

// NewSecret is the secret that stands at a path of the storage in use; what is
// its name in errors. It reads nothing.
func NewSecret(storage func() Storage, path, what string) *Secret {
	return &Secret{stored: stored{storage, path, what}}
}

// Load loads the secret, and makes it on the first start of all instances. One
// that is loaded already stays.
func (s *Secret) Load(ctx context.Context) error {
	s.loading.Lock()
	defer s.loading.Unlock()
	if s.Bytes() != nil {
		return nil
	}
	value, err := s.load(ctx)
	if value == nil && err == nil {
		err = s.change(ctx, func(before []byte) ([]byte, error) {
			if value = before; value == nil { // else another instance was quicker
				value = make([]byte, secretSize)
				rand.Read(value) // never fails
			}
			return value, nil
		})
	}
	if err != nil {
		return err
	}
	if len(value) != secretSize {
		return &DamagedError{fmt.Errorf("%s in Caddy's storage (%s) has %d bytes, not %d; restore it, "+
			"or delete it and run 'caddy pay-offer ledger forget-keys': a new one is made", s.what, s.path, len(value), secretSize)}
	}
	s.value.Store(&value)
	return nil
}

// ID tells the secret from others and nothing of what it is; empty until it is
// loaded. No address has a MAC over this text, which names no rail.
func (s *Secret) ID() string {
	if s.Bytes() == nil {
		return ""
	}
	mac := hmac.New(sha256.New, s.Bytes())
	mac.Write([]byte("the id of this key"))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// Bytes are the secret, nil until it is loaded.
func (s *Secret) Bytes() []byte {
	if value := s.value.Load(); value != nil {
		return *value
	}
	return nil
}
