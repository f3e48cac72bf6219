package signature

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// Key is the public part of a signing key of a domain.
type Key struct {
	ID     string            `json:"id"`               // its thumbprint (RFC 7638), which is the fragment of its DID URL
	Public ed25519.PublicKey `json:"public,omitempty"` // nil for a revoked key
	From   time.Time         `json:"from"`             // it signs from this time on
}

// keyPair is a key as stored, which is secret. A former key has no private half.
type keyPair struct {
	Key
	Private ed25519.PrivateKey `json:"private,omitempty"`
}

// newKey generates a key that signs from a time on.
func newKey(from time.Time) keyPair {
	public, private, _ := ed25519.GenerateKey(rand.Reader) // crypto/rand never fails
	return keyPair{Key{thumbprint(public), public, from.UTC().Truncate(time.Second)}, private}
}

// thumbprint is empty for a key of the wrong length.
func thumbprint(key ed25519.PublicKey) string {
	sum, _ := (&jose.JSONWebKey{Key: key}).Thumbprint(crypto.SHA256)
	return base64.RawURLEncoding.EncodeToString(sum)
}

// intact reports whether the parts of a stored key belong together. A signature with
// a public half of another key would reveal the private half.
func (k keyPair) intact() bool {
	private := k.Private == nil || len(k.Private) == ed25519.PrivateKeySize &&
		k.Private.Equal(ed25519.NewKeyFromSeed(k.Private.Seed())) && k.Public.Equal(k.Private.Public())
	return k.ID != "" && private && (k.Public == nil || k.ID == thumbprint(k.Public))
}

// ring contains the keys of one domain, oldest first. The domain publishes all keys that
// are not revoked. The IDs of revoked keys stay, so that an older copy of the ring can
// be recognized. A ring is immutable.
type ring []keyPair

// parseRing decodes a stored ring; nil for nil. Errors never repeat a key.
func parseRing(text []byte) (r ring, err error) {
	if text == nil {
		return nil, nil
	}
	if json.Unmarshal(text, &r) != nil {
		return nil, errors.New("the file is not a list of keys in JSON")
	}
	for n, key := range r {
		if !key.intact() {
			return nil, fmt.Errorf("key %d in the file is damaged", n+1)
		}
	}
	if r.current(time.Time{}).Private == nil {
		return nil, errors.New("the file has no private key")
	}
	return r, nil
}

func (r ring) ids() (ids []string) {
	for _, key := range r {
		ids = append(ids, key.ID)
	}
	return ids
}

// olderThan reports whether another ring has all keys of this one, and more.
func (r ring) olderThan(other ring) bool {
	known := other.ids()
	return len(r) < len(other) && !slices.ContainsFunc(r.ids(), func(id string) bool { return !slices.Contains(known, id) })
}

// current returns the key that signs: the newest one whose time has come, or the oldest
// one if the clock was set back.
func (r ring) current(now time.Time) (current keyPair) {
	for _, key := range r {
		if key.Private != nil && (current.Private == nil || !key.From.After(now)) {
			current = key
		}
	}
	return current
}

// rotate returns the ring with a new key that signs later, when every instance has
// published it. Keys that no longer sign stay published and lose their private half.
func (r ring) rotate(now, from time.Time) ring {
	current, keys := r.current(now), slices.Clone(r)
	for n := range keys {
		if keys[n].ID != current.ID {
			keys[n].Private = nil
		}
	}
	return append(keys, newKey(from))
}

// revoke returns the ring with all keys revoked and a new one, which signs at once.
func (r ring) revoke(now time.Time) ring {
	var keys ring
	for _, id := range r.ids() {
		keys = append(keys, keyPair{Key: Key{ID: id}})
	}
	return append(keys, newKey(now))
}
