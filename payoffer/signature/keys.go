package signature

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe/source"
)

const (
	// keysEvery is how often the stored keys are looked at, for another
	// instance may have made new ones.
	keysEvery = time.Minute
	// keyLead is how long a new key is published before it signs: until every
	// instance publishes it and no copy of the DID document without it is
	// kept any more, which may be five minutes old.
	keyLead = 10 * time.Minute
	// renewEvery is how often offers are signed again, which hold for two days.
	renewEvery = 24 * time.Hour
)

// KeysConfig says whose keys are kept where. Every field is required.
type KeysConfig struct {
	// DID is who signs, as in "did:web:pay.example.org".
	DID string
	// Path is where the keys stand in the Storage that is in use now.
	Path    string
	Storage func() Storage
	Now     func() time.Time
	Logger  *slog.Logger
}

// Keys sign for one domain. The first key is made when the first instance
// starts. They are safe for concurrent use. Who listens is told when others are
// to be published or sign, and once a day.
type Keys struct {
	KeysConfig
	source.Listeners
	stored  stored
	ring    atomic.Pointer[Ring] // nil until it is loaded
	loading sync.Mutex
}

// NewKeys makes the keys of a domain and reads nothing.
func NewKeys(c KeysConfig) *Keys {
	return &Keys{KeysConfig: c, stored: stored{c.Storage, c.Path, "the signing keys"}}
}

// Sign signs a payload, which is encoded as canonical JSON, as a JWS; it is
// empty until the keys are loaded.
func (k *Keys) Sign(payload any) string {
	ring := k.ring.Load()
	if ring == nil {
		return ""
	}
	text, err := json.Marshal(payload)
	if err == nil {
		text, err = Canonical(text)
	}
	if err != nil {
		panic("signature: sign a payload: " + err.Error()) // the payloads are ours and always marshal
	}
	return ring.Current(k.Now()).Sign(k.DID, text)
}

// Published are the keys that the DID document lists, none until they are
// loaded.
func (k *Keys) Published() []Key {
	if ring := k.ring.Load(); ring != nil {
		return ring.Keys()
	}
	return nil
}

// Load loads the keys, and makes the first one on the first start of all
// instances. Keys in use are written back to a storage that has lost them.
func (k *Keys) Load(ctx context.Context) error {
	k.loading.Lock()
	defer k.loading.Unlock()
	text, err := k.stored.load(ctx)
	switch {
	case err != nil:
		return err
	case text == nil:
		return k.change(ctx, func(before *Ring) (*Ring, error) {
			if before != nil {
				return before, nil // another instance was quicker
			}
			if inUse := k.ring.Load(); inUse != nil {
				return inUse, nil // the storage lost them; what they signed must stay verifiable
			}
			return NewRing(rand.Reader, k.Now())
		})
	}
	ring, err := k.parse(text)
	if err == nil {
		k.ring.Store(ring)
	}
	return err
}

func (k *Keys) parse(text []byte) (*Ring, error) {
	ring, err := ParseRing(text)
	if err != nil {
		return nil, fmt.Errorf("the signing keys in Caddy's storage (%s) cannot be used: %w; restore the file, "+
			"or delete it: a new key is made, and what the old ones signed cannot be checked any more", k.Path, err)
	}
	return ring, nil
}

// Rotate makes a new key and says which and from when it signs. Former keys
// stay published, unless they are revoked: then the new key signs at once, and
// nothing that they signed can be checked any more.
func (k *Keys) Rotate(ctx context.Context, revoke bool) (next Key, err error) {
	k.loading.Lock()
	err = k.change(ctx, func(before *Ring) (*Ring, error) {
		if before == nil || revoke {
			return NewRing(rand.Reader, k.Now())
		}
		return before.Rotated(rand.Reader, k.Now(), k.Now().Add(keyLead))
	})
	k.loading.Unlock()
	if err != nil {
		return Key{}, err
	}
	k.Tell()
	keys := k.Published()
	return keys[len(keys)-1], nil
}

// change replaces the stored keys while no other instance does. It is given nil
// where none are stored.
func (k *Keys) change(ctx context.Context, next func(before *Ring) (*Ring, error)) error {
	var ring *Ring
	err := k.stored.change(ctx, func(text []byte) (_ []byte, err error) {
		var before *Ring
		if text != nil {
			if before, err = k.parse(text); err != nil {
				return nil, err
			}
		}
		if ring, err = next(before); err != nil {
			return nil, err
		}
		return ring.Encode(), nil
	})
	if err == nil {
		k.ring.Store(ring)
	}
	return err
}

// state is what the published documents and quotes follow from: the ids of the
// key that signs and of all that are published.
func (k *Keys) state() []string {
	ring := k.ring.Load()
	if ring == nil {
		return nil
	}
	ids := []string{ring.Current(k.Now()).ID}
	for _, key := range ring.Keys() {
		ids = append(ids, key.ID)
	}
	return ids
}

// Run keeps up with the stored keys until ctx ends. A storage that cannot be
// read is logged once; the keys stay as they are.
func (k *Keys) Run(ctx context.Context) {
	ticker := time.NewTicker(keysEvery)
	defer ticker.Stop()
	published, signed, failing := k.state(), k.Now(), false
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		err := k.Load(ctx)
		if err != nil && !failing && ctx.Err() == nil {
			k.Logger.Warn("the signing keys cannot be read; those that are known stay in use", "error", err.Error())
		}
		failing = err != nil
		if state := k.state(); !slices.Equal(state, published) || k.Now().Sub(signed) >= renewEvery {
			published, signed = state, k.Now()
			k.Tell()
		}
	}
}
