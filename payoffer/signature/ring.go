package signature

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Key is a key of a domain.
type Key struct {
	// ID is the fragment of the key's id: its thumbprint (RFC 7638), so that
	// no other key ever has it, even when all keys were lost and made anew.
	ID     string
	Public ed25519.PublicKey // others check signatures with it; nil for a withdrawn key
	From   time.Time         // when it begins to sign

	private ed25519.PrivateKey // nil for a former key
}

// newKey makes a key that signs from a time on.
func newKey(from time.Time) Key {
	seed := make([]byte, ed25519.SeedSize)
	rand.Read(seed) // never fails
	private := ed25519.NewKeyFromSeed(seed)
	public := private.Public().(ed25519.PublicKey)
	return Key{thumbprint(public), public, time.Unix(from.Unix(), 0), private}
}

// thumbprint is the SHA-256 thumbprint of a public key (RFC 7638, RFC 8037
// section 2).
func thumbprint(key ed25519.PublicKey) string {
	sum := sha256.Sum256(fmt.Appendf(nil, `{"crv":"Ed25519","kty":"OKP","x":"%s"}`, encode(key)))
	return encode(sum[:])
}

// ring is the keys of one domain, oldest first. The domain publishes all that are
// not withdrawn, so that what they signed can be checked. Of those only the ids are
// kept, by which a ring that was revoked is told from one of another domain or from
// an older copy. It does not change.
type ring []Key

// published are the keys that are not withdrawn.
func (r ring) published() []Key {
	return slices.DeleteFunc(slices.Clone(r), func(key Key) bool { return key.Public == nil })
}

// ids are those of all keys.
func (r ring) ids() (ids []string) {
	for _, key := range r {
		ids = append(ids, key.ID)
	}
	return ids
}

// before says that the ring is an earlier state of another, which has all its keys
// and more.
func (r ring) before(other ring) bool {
	known := other.ids()
	return len(r) < len(other) && !slices.ContainsFunc(r.ids(), func(id string) bool { return !slices.Contains(known, id) })
}

// current is the key that signs: the newest whose time has come.
func (r ring) current(now time.Time) Key {
	var current Key
	for _, key := range r {
		if key.private != nil && (current.private == nil || !key.From.After(now)) {
			current = key
		}
	}
	return current
}

// rotated is the ring with a new key that signs from a later time on, by which
// everyone has seen it published. Keys that do not sign any more stay
// published and lose their private half.
func (r ring) rotated(now, from time.Time) ring {
	current, keys := r.current(now), slices.Clone(r)
	for n := range keys {
		if keys[n].ID != current.ID {
			keys[n].private = nil
		}
	}
	return append(keys, newKey(from))
}

// revoked is the ring with all keys withdrawn but a new one, which signs at once.
func (r ring) revoked(now time.Time) ring {
	var keys ring
	for _, key := range r {
		keys = append(keys, Key{ID: key.ID})
	}
	return append(keys, newKey(now))
}

// jwk is a key as JSON (RFC 7517, RFC 8037 section 2). nbf is a member of ours:
// the Unix second from which the key signs.
type jwk struct {
	Type    string `json:"kty"`
	Curve   string `json:"crv"`
	ID      string `json:"kid,omitempty"`
	X       string `json:"x"`
	Private string `json:"d,omitempty"`
	From    int64  `json:"nbf,omitempty"`
}

// jwkSet is a JWK Set (RFC 7517 section 5). withdrawn is a member of ours: the ids
// of keys that are not published any more.
type jwkSet struct {
	Keys      []jwk    `json:"keys"`
	Withdrawn []string `json:"withdrawn,omitempty"`
}

// encode is the ring as a JWK Set with the private keys: it is secret.
func (r ring) encode() []byte {
	var set jwkSet
	for _, key := range r {
		if key.Public == nil {
			set.Withdrawn = append(set.Withdrawn, key.ID)
			continue
		}
		encoded := jwk{Type: "OKP", Curve: "Ed25519", ID: key.ID, X: encode(key.Public), From: key.From.Unix()}
		if key.private != nil {
			encoded.Private = encode(key.private.Seed())
		}
		set.Keys = append(set.Keys, encoded)
	}
	text, err := json.MarshalIndent(set, "", "  ")
	if err != nil {
		panic("signature: encode a ring: " + err.Error()) // strings and integers always marshal
	}
	return append(text, '\n')
}

// parseRing reads what encode wrote. Errors never repeat a key.
func parseRing(text []byte) (ring, error) {
	var set jwkSet
	if json.Unmarshal(text, &set) != nil {
		return nil, errors.New("it is not a JWK Set")
	}
	var r ring
	for _, id := range set.Withdrawn {
		r = append(r, Key{ID: id})
	}
	for n, encoded := range set.Keys {
		key, err := encoded.key()
		if err != nil {
			return nil, fmt.Errorf("its key %d %w", n+1, err)
		}
		r = append(r, key)
	}
	if r.current(time.Time{}).private == nil {
		return nil, errors.New("it has no private key")
	}
	return r, nil
}

func (encoded jwk) key() (Key, error) {
	public, err := encoded.public()
	if err != nil {
		return Key{}, err
	}
	key := Key{ID: thumbprint(public), Public: public, From: time.Unix(encoded.From, 0)}
	if encoded.ID != key.ID {
		return Key{}, errors.New("has an id that is not its thumbprint")
	}
	if encoded.Private == "" {
		return key, nil
	}
	seed, err := base64.RawURLEncoding.Strict().DecodeString(encoded.Private)
	if err != nil || len(seed) != ed25519.SeedSize {
		return Key{}, errors.New("is damaged")
	}
	key.private = ed25519.NewKeyFromSeed(seed)
	if !public.Equal(key.private.Public()) {
		return Key{}, errors.New("is damaged: its halves do not belong together")
	}
	return key, nil
}

func (encoded jwk) public() (ed25519.PublicKey, error) {
	x, err := base64.RawURLEncoding.Strict().DecodeString(encoded.X)
	if encoded.Type != "OKP" || encoded.Curve != "Ed25519" || err != nil || len(x) != ed25519.PublicKeySize {
		return nil, errors.New("is no Ed25519 key")
	}
	return x, nil
}

// parseJWK reads a public key.
func parseJWK(text []byte) (ed25519.PublicKey, error) {
	var encoded jwk
	if json.Unmarshal(text, &encoded) != nil {
		return nil, errors.New("is no JWK")
	}
	return encoded.public()
}
