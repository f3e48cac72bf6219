package signature

import (
	"context"
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
	// keysEvery is the interval at which the stored keys are read again, because
	// another instance may have changed them.
	keysEvery = time.Minute
	// keyLead is the time for which a new key is published before it signs: longer than
	// all instances need to publish it, and caches to drop the former DID document (5 min).
	keyLead = 10 * time.Minute
	// renewEvery is the interval at which offers, which are valid for two days, are
	// signed again: at midnight UTC, so that all instances publish the same.
	renewEvery = 24 * time.Hour
)

// KeysConfig configures Keys. Every field is required.
type KeysConfig struct {
	DID     string // of the signer, such as "did:web:pay.example.org"
	Path    string // of the keys in the storage
	Storage func() Storage
	Now     func() time.Time
	Logger  *slog.Logger
}

// Keys are the signing keys of one domain. They are safe for concurrent use. Listeners
// are called when the published or the signing keys change, and at midnight UTC.
type Keys struct {
	KeysConfig
	source.Listeners
	stored  stored
	ring    atomic.Value // a ring, nil until it is loaded
	loading sync.Mutex
}

// NewKeys returns the keys of a domain, not yet loaded.
func NewKeys(c KeysConfig) *Keys {
	return &Keys{KeysConfig: c, stored: stored{c.Storage, c.Path, "the signing keys"}}
}

// Sign encodes a payload as canonical JSON and returns it as a JWS. It returns an empty
// string until the keys are loaded.
func (k *Keys) Sign(payload any) string {
	key := k.keys().current(k.Now())
	if key.Private == nil {
		return ""
	}
	return sign(k.DID+"#"+key.ID, must(Canonical(must(json.Marshal(payload)))), key.Private)
}

// Published returns the keys for the DID document, none until they are loaded.
func (k *Keys) Published() (published []Key) {
	for _, key := range k.keys() {
		if key.Public != nil {
			published = append(published, key.Key)
		}
	}
	return published
}

// IDs returns the IDs of all keys, revoked ones too, and none until they are loaded.
func (k *Keys) IDs() []string { return k.keys().ids() }

func (k *Keys) keys() ring {
	loaded, _ := k.ring.Load().(ring)
	return loaded
}

// Load loads the keys, or generates the first one if the storage has none. If the
// storage was restored to an older state, Load writes the keys in use back to it:
// a revoked key must not sign again, and signed receipts must stay verifiable.
func (k *Keys) Load(ctx context.Context) error {
	k.loading.Lock()
	defer k.loading.Unlock()
	return k.update(ctx, func(before ring) (ring, error) {
		if before == nil {
			before = ring{newKey(k.Now())}
		}
		return before, nil
	})
}

// Rotate generates a key and returns it. The former keys stay published. If revoke is
// set, they do not, and the new key signs at once. check gets the IDs of the stored keys;
// if it returns an error, nothing changes.
func (k *Keys) Rotate(ctx context.Context, revoke bool, check func(ids []string) error) (next Key, err error) {
	k.loading.Lock()
	err = k.update(ctx, func(before ring) (ring, error) {
		if err := check(before.ids()); err != nil {
			return nil, err
		}
		if before == nil || revoke {
			return before.revoke(k.Now()), nil
		}
		return before.rotate(k.Now(), k.Now().Add(keyLead)), nil
	})
	k.loading.Unlock()
	if err != nil {
		return Key{}, err
	}
	k.Notify()
	keys := k.keys()
	return keys[len(keys)-1].Key, nil
}

// update replaces the stored keys. next gets the keys in use if the storage was restored
// to an older state, and nil if there are none.
func (k *Keys) update(ctx context.Context, next func(before ring) (ring, error)) error {
	var after ring
	err := k.stored.update(ctx, func(text []byte) ([]byte, error) {
		before, err := parseRing(text)
		if err != nil {
			return nil, &DamagedError{fmt.Errorf("the signing keys in Caddy's storage (%s) are unusable: %w; restore the file, or delete it and run "+
				"'caddy pay-offer ledger forget-keys': this generates a new key, and older receipts can no longer be verified", k.Path, err)}
		}
		if before.olderThan(k.keys()) {
			before = k.keys()
		}
		if after, err = next(before); err != nil {
			return nil, err
		}
		return json.MarshalIndent(after, "", "  ")
	})
	if err == nil {
		k.ring.Store(after)
	}
	return err
}

// Run reads the stored keys again every minute until ctx ends.
// If the storage cannot be read, it logs this once and the keys stay in use.
func (k *Keys) Run(ctx context.Context) {
	state := func() []string {
		now := k.Now()
		return append(k.IDs(), k.keys().current(now).ID, now.Truncate(renewEvery).String())
	}
	published, failing := state(), false
	loop := source.Loop{Poll: func(ctx context.Context) (time.Duration, error) {
		err := k.Load(ctx)
		if err != nil && !failing && ctx.Err() == nil {
			k.Logger.Warn("signing keys cannot be read", "error", err.Error(), "hint", "known keys stay in use; check Caddy's storage")
		}
		failing = err != nil
		if current := state(); !slices.Equal(current, published) {
			published = current
			k.Notify()
		}
		return keysEvery, nil
	}}
	loop.RunAfter(ctx, keysEvery)
}
