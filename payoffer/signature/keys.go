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
	// keysEvery is how often the stored keys are looked at, for another
	// instance may have made new ones.
	keysEvery = time.Minute
	// keyLead is how long a new key is published before it signs: until every
	// instance publishes it and no copy of the DID document without it is
	// kept any more, which may be five minutes old.
	keyLead = 10 * time.Minute
	// renewEvery is how often offers are signed again, which hold for two days, and
	// documents that expire rendered: when a day begins (UTC), on all instances alike.
	renewEvery = 24 * time.Hour
)

// KeysConfig says whose keys are kept where. Every field is required.
type KeysConfig struct {
	DID     string // who signs, as in "did:web:pay.example.org"
	Path    string // where the keys stand in the Storage that is in use now
	Storage func() Storage
	Now     func() time.Time
	Logger  *slog.Logger
}

// Keys sign for one domain. The first key is made when the first instance
// starts. They are safe for concurrent use. Who listens is told when others are
// to be published or sign, and when a day begins (UTC).
type Keys struct {
	KeysConfig
	source.Listeners
	stored  stored
	ring    atomic.Pointer[ring] // nil until it is loaded
	loading sync.Mutex
}

// NewKeys makes the keys of a domain and reads nothing.
func NewKeys(c KeysConfig) *Keys {
	return &Keys{KeysConfig: c, stored: stored{c.Storage, c.Path, "the signing keys"}}
}

// Sign signs a payload, which is encoded as canonical JSON, as a JWS; it is
// empty until the keys are loaded.
func (k *Keys) Sign(payload any) string {
	key := k.keys().current(k.Now())
	if key.private == nil {
		return ""
	}
	text, err := json.Marshal(payload)
	if err == nil {
		text, err = Canonical(text)
	}
	if err != nil {
		panic("signature: sign a payload: " + err.Error()) // the payloads are ours and always marshal
	}
	return sign(k.DID+"#"+key.ID, text, key.private)
}

// Published are the keys that the DID document lists, none until they are
// loaded.
func (k *Keys) Published() []Key { return k.keys().published() }

// IDs are the ids of all keys that the domain ever had, none until they are loaded.
func (k *Keys) IDs() []string { return k.keys().ids() }

// keys are those in use, nil until they are loaded.
func (k *Keys) keys() ring {
	if loaded := k.ring.Load(); loaded != nil {
		return *loaded
	}
	return nil
}

// Load loads the keys, and makes the first one on the first start of all
// instances. Keys in use are written back to a storage that has lost some of them,
// as a disk does that is put back to an earlier state: what they signed must stay
// verifiable, and what was revoked must not sign again.
func (k *Keys) Load(ctx context.Context) error {
	k.loading.Lock()
	defer k.loading.Unlock()
	text, err := k.stored.load(ctx)
	if err != nil {
		return err
	}
	loaded, err := k.parse(text)
	if err != nil {
		return err
	}
	if loaded != nil && !loaded.before(k.keys()) {
		k.ring.Store(&loaded)
		return nil
	}
	return k.change(ctx, func(before ring) (ring, error) {
		if before == nil {
			return ring{newKey(k.Now())}, nil
		}
		return before, nil // another instance was quicker, or the storage lost them
	})
}

// parse reads stored keys; nil are none.
func (k *Keys) parse(text []byte) (ring, error) {
	if text == nil {
		return nil, nil
	}
	keys, err := parseRing(text)
	if err != nil {
		return nil, &DamagedError{fmt.Errorf("the signing keys in Caddy's storage (%s) cannot be used: %w; restore the file, "+
			"or delete it and run 'caddy pay-offer ledger forget-keys': a new key is made, and what the old ones signed cannot be checked any more", k.Path, err)}
	}
	return keys, nil
}

// Rotate makes a new key and says which and from when it signs. Former keys
// stay published, unless they are revoked: then the new key signs at once, and
// nothing that they signed can be checked any more. vet is asked before, while no
// other instance changes them, whether the stored keys of these ids are all that
// there are; where it refuses, they stay as they are.
func (k *Keys) Rotate(ctx context.Context, revoke bool, vet func(ids []string) error) (next Key, err error) {
	k.loading.Lock()
	err = k.change(ctx, func(before ring) (ring, error) {
		if err := vet(before.ids()); err != nil {
			return nil, err
		}
		if before == nil || revoke {
			return before.revoked(k.Now()), nil
		}
		return before.rotated(k.Now(), k.Now().Add(keyLead)), nil
	})
	k.loading.Unlock()
	if err != nil {
		return Key{}, err
	}
	k.Tell()
	keys := k.keys()
	return keys[len(keys)-1], nil
}

// change replaces the stored keys while no other instance does. It is given those
// in use where the storage has lost some of them, and nil where there are none at all.
func (k *Keys) change(ctx context.Context, next func(before ring) (ring, error)) error {
	var after ring
	err := k.stored.change(ctx, func(text []byte) ([]byte, error) {
		before, err := k.parse(text)
		if err != nil {
			return nil, err
		}
		if before.before(k.keys()) {
			before = k.keys()
		}
		if after, err = next(before); err != nil {
			return nil, err
		}
		return after.encode(), nil
	})
	if err == nil {
		k.ring.Store(&after)
	}
	return err
}

// state is what the published documents and quotes follow from: the ids of the
// key that signs and of all.
func (k *Keys) state() []string {
	return append([]string{k.keys().current(k.Now()).ID}, k.IDs()...)
}

// Begin keeps up with the stored keys until ctx ends, and calls ended then. A storage
// that cannot be read is logged once; the keys stay as they are.
func (k *Keys) Begin(ctx context.Context, ended func()) {
	today := func() time.Time { return k.Now().Truncate(renewEvery) }
	published, signed, failing, begun := k.state(), today(), false, false
	loop := source.Loop{Round: func(ctx context.Context) (time.Duration, error) {
		if !begun {
			begun = true
			return keysEvery, nil
		}
		err := k.Load(ctx)
		if err != nil && !failing && ctx.Err() == nil {
			k.Logger.Warn("the signing keys cannot be read; those that are known stay in use", "error", err.Error())
		}
		failing = err != nil
		if state := k.state(); !slices.Equal(state, published) || !today().Equal(signed) {
			published, signed = state, today()
			k.Tell()
		}
		return keysEvery, nil
	}}
	loop.Begin(ctx, ended)
}
