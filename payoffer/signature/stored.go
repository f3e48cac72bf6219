package signature

import (
	"bytes"
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

// Storage keeps secrets, which all instances with the same storage share. Caddy's
// storage implements it. Load returns fs.ErrNotExist for an unknown path.
type Storage interface {
	Lock(ctx context.Context, name string) error
	Unlock(ctx context.Context, name string) error
	Load(ctx context.Context, path string) ([]byte, error)
	Store(ctx context.Context, path string, value []byte) error
}

// DamagedError says why a stored secret is unusable until the operator repairs it. Other
// errors of loading are those of the storage and may be temporary.
type DamagedError struct{ error }

// stored is one secret in the storage in use.
type stored struct {
	storage func() Storage
	path    string
	name    string // in errors, such as "the signing keys"
}

// update loads the secret and stores what next returns for it. next gets nil if the
// storage has none. If next changes it, next is called again under the storage's lock.
func (s *stored) update(ctx context.Context, next func(before []byte) ([]byte, error)) (err error) {
	storage := s.storage()
	read := func() (value []byte, changed bool, err error) {
		before, err := storage.Load(ctx, s.path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, false, fmt.Errorf("loading %s in Caddy's storage: %w", s.name, err)
		}
		value, err = next(before)
		return value, err == nil && !bytes.Equal(value, before), err
	}
	if _, changed, err := read(); !changed {
		return err
	}
	if err := storage.Lock(ctx, s.path); err != nil {
		return fmt.Errorf("locking %s in Caddy's storage: %w", s.name, err)
	}
	defer func() { err = errors.Join(err, storage.Unlock(context.WithoutCancel(ctx), s.path)) }()
	value, changed, err := read()
	if changed {
		err = storage.Store(ctx, s.path, value)
	}
	return err
}

// secretSize is the length of a Secret in bytes.
const secretSize = 32

// Secret is a random key that all instances share. The first instance generates it.
type Secret struct {
	stored
	value   atomic.Value // []byte
	loading sync.Mutex
}

// NewSecret returns the secret at a path of the storage in use, not yet loaded.
// Errors call it by its name.
func NewSecret(storage func() Storage, path, name string) *Secret {
	return &Secret{stored: stored{storage, path, name}}
}

// Load loads the secret, or generates it if the storage has none. A loaded secret
// does not change.
func (s *Secret) Load(ctx context.Context) error {
	s.loading.Lock()
	defer s.loading.Unlock()
	if s.Bytes() != nil {
		return nil
	}
	var value []byte
	err := s.update(ctx, func(before []byte) ([]byte, error) {
		if value = before; value == nil {
			value = make([]byte, secretSize)
			rand.Read(value) // never fails
		}
		return value, nil
	})
	if err != nil {
		return err
	}
	if len(value) != secretSize {
		return &DamagedError{fmt.Errorf("%s in Caddy's storage (%s) has %d bytes, not %d: restore the file, or delete it and run "+
			"'caddy pay-offer ledger forget-keys' to generate a new one", s.name, s.path, len(value), secretSize)}
	}
	s.value.Store(value)
	return nil
}

// ID identifies a loaded secret without revealing it.
func (s *Secret) ID() string {
	mac := hmac.New(sha256.New, s.Bytes())
	mac.Write([]byte("the id of this key")) // no QR address has a MAC over this text
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// Bytes returns the secret, or nil until it is loaded.
func (s *Secret) Bytes() []byte {
	value, _ := s.value.Load().([]byte)
	return value
}
