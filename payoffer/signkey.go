package payoffer

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/certmagic"

	"github.com/payoffer/caddy-pay-offer/payoffer/document"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/signature"
)

const (
	// storageKeysPrefix is where the signing keys of each domain are stored.
	// Instances that share Caddy's storage sign with the same key.
	storageKeysPrefix = "pay_offer/signing"
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

// signing signs for one domain, with keys that are made when the first instance
// starts.
type signing struct {
	did     string
	path    string // in the storage
	storage certmagic.Storage
	now     func() time.Time
	ring    atomic.Pointer[signature.Ring] // nil until it is loaded
	loading sync.Mutex
}

// newSigning makes the signing of a domain. It reads nothing; a service of the
// same domain that is running hands its keys over, so that a reload leaves no
// moment without them.
func newSigning(storage certmagic.Storage, baseURL string) *signing {
	did := offer.DIDWeb(baseURL)
	k := &signing{
		did: did, storage: storage, now: time.Now,
		path: storageKeysPrefix + "/" + certmagic.StorageKeys.Safe(offer.Host(baseURL)) + ".json",
	}
	if app := running.newest(); app != nil {
		for _, svc := range app.offers() {
			if svc.signing.did == did {
				k.ring.Store(svc.signing.ring.Load())
			}
		}
	}
	return k
}

// Sign implements x402.Signer.
func (k *signing) Sign(payload any) string {
	ring := k.ring.Load()
	if ring == nil {
		return ""
	}
	text, err := json.Marshal(payload)
	if err == nil {
		text, err = signature.Canonical(text)
	}
	if err != nil {
		panic("pay_offer: sign a payload: " + err.Error()) // the payloads are ours and always marshal
	}
	return ring.Current(k.now()).Sign(k.did, text)
}

// published are the keys that the DID document lists.
func (k *signing) published() []document.VerificationKey {
	ring := k.ring.Load()
	if ring == nil {
		return nil
	}
	var keys []document.VerificationKey
	for _, key := range ring.Keys() {
		keys = append(keys, document.VerificationKey{ID: key.ID, Public: key.Public})
	}
	return keys
}

// load loads the keys, and makes the first one on the first start of all
// instances. Keys in use are written back to a storage that has lost them.
func (k *signing) load(ctx context.Context) error {
	k.loading.Lock()
	defer k.loading.Unlock()
	text, err := k.storage.Load(ctx, k.path)
	if errors.Is(err, fs.ErrNotExist) {
		return k.change(ctx, func(stored *signature.Ring) (*signature.Ring, error) {
			if stored != nil {
				return stored, nil // another instance was quicker
			}
			if running := k.ring.Load(); running != nil {
				return running, nil // the storage lost them; what they signed must stay verifiable
			}
			return signature.NewRing(rand.Reader, k.now())
		})
	}
	if err != nil {
		return fmt.Errorf("loading the signing keys from Caddy's storage: %w", err)
	}
	ring, err := k.parse(text)
	if err == nil {
		k.ring.Store(ring)
	}
	return err
}

func (k *signing) parse(text []byte) (*signature.Ring, error) {
	ring, err := signature.ParseRing(text)
	if err != nil {
		return nil, fmt.Errorf("the signing keys in Caddy's storage (%s) cannot be used: %w; restore the file, "+
			"or delete it: a new key is made, and what the old ones signed cannot be checked any more", k.path, err)
	}
	return ring, nil
}

// rotate makes a new key and says which and from when it signs. Former keys
// stay published, unless they are revoked: then the new key signs at once, and
// nothing that they signed can be checked any more.
func (k *signing) rotate(ctx context.Context, revoke bool) (next signature.Key, err error) {
	k.loading.Lock()
	defer k.loading.Unlock()
	err = k.change(ctx, func(stored *signature.Ring) (*signature.Ring, error) {
		if stored == nil || revoke {
			return signature.NewRing(rand.Reader, k.now())
		}
		return stored.Rotated(rand.Reader, k.now(), k.now().Add(keyLead))
	})
	if err != nil {
		return signature.Key{}, err
	}
	keys := k.ring.Load().Keys()
	return keys[len(keys)-1], nil
}

// change replaces the stored keys while no other instance does. It is given nil
// where none are stored.
func (k *signing) change(ctx context.Context, next func(stored *signature.Ring) (*signature.Ring, error)) (err error) {
	if err := k.storage.Lock(ctx, k.path); err != nil {
		return fmt.Errorf("locking the signing keys in Caddy's storage: %w", err)
	}
	defer func() {
		// The lock is given back even where ctx has ended.
		err = errors.Join(err, k.storage.Unlock(context.WithoutCancel(ctx), k.path))
	}()
	var stored *signature.Ring
	text, err := k.storage.Load(ctx, k.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return fmt.Errorf("loading the signing keys from Caddy's storage: %w", err)
	default:
		if stored, err = k.parse(text); err != nil {
			return err
		}
	}
	ring, err := next(stored)
	if err != nil {
		return err
	}
	if encoded := ring.Encode(); !bytes.Equal(encoded, text) {
		if err := k.storage.Store(ctx, k.path, encoded); err != nil {
			return fmt.Errorf("storing the signing keys in Caddy's storage: %w", err)
		}
	}
	k.ring.Store(ring)
	return nil
}

// state is what the published documents and quotes follow from: the ids of the
// key that signs and of all that are published.
func (k *signing) state() []string {
	ring := k.ring.Load()
	if ring == nil {
		return nil
	}
	ids := []string{ring.Current(k.now()).ID}
	for _, key := range ring.Keys() {
		ids = append(ids, key.ID)
	}
	return ids
}

// follow keeps up with the stored keys until ctx ends, and calls publish when
// others are to be published or sign, and once a day. A storage that cannot be
// read is logged once; the keys stay as they are.
func (k *signing) follow(ctx context.Context, publish func(), logger *slog.Logger) {
	ticker := time.NewTicker(keysEvery)
	defer ticker.Stop()
	published, signed, failing := k.state(), k.now(), false
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		err := k.load(ctx)
		if err != nil && !failing && ctx.Err() == nil {
			logger.Warn("the signing keys cannot be read; those that are known stay in use", "error", err.Error())
		}
		failing = err != nil
		if state := k.state(); !slices.Equal(state, published) || k.now().Sub(signed) >= renewEvery {
			published, signed = state, k.now()
			publish()
		}
	}
}
