package signature

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync/atomic"
)

// secretSize is the length of a Secret in bytes.
const secretSize = 32

// Secret is a random key of 32 bytes that all instances share. It is made when
// the first of them starts.
type Secret struct {
	stored
	value atomic.Pointer[[]byte]
}

// NewSecret is the secret that stands at a path of the storage in use; what is
// its name in errors. It reads nothing.
func NewSecret(storage func() Storage, path, what string) *Secret {
	return &Secret{stored: stored{storage, path, what}}
}

// Load loads the secret, and makes it on the first start of all instances. One
// that is loaded already stays.
func (s *Secret) Load(ctx context.Context) error {
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
		return fmt.Errorf("%s in Caddy's storage (%s) has %d bytes, not %d; delete it, and a new one is made", s.what, s.path, len(value), secretSize)
	}
	s.value.Store(&value)
	return nil
}

// Bytes are the secret, nil until it is loaded.
func (s *Secret) Bytes() []byte {
	if value := s.value.Load(); value != nil {
		return *value
	}
	return nil
}
