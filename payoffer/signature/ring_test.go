package signature

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var at = time.Unix(1_795_266_000, 0).UTC()

// reloaded returns the ring after it was stored and loaded.
func reloaded(t *testing.T, r ring) ring {
	t.Helper()
	text, err := json.Marshal(r)
	require.NoError(t, err)
	loaded, err := parseRing(text)
	require.NoError(t, err)
	require.Equal(t, r, loaded)
	return loaded
}

func TestRotationPublishesFirstSignsLaterAndForgetsNoPublicKey(t *testing.T) {
	first := ring{newKey(at)}
	old := first.current(at)
	lead := at.Add(10 * time.Minute)
	second := reloaded(t, first.rotate(at, lead))
	require.Len(t, second, 2)
	require.Equal(t, old, second.current(at))
	require.Equal(t, old, second.current(lead.Add(-time.Second)))
	next := second.current(lead)
	require.NotEqual(t, old.ID, next.ID)

	third := reloaded(t, second.rotate(lead, lead.Add(time.Hour)))
	require.Len(t, third, 3)
	require.Equal(t, old.Public, third[0].Public)
	require.Equal(t, next.ID, third.current(lead).ID)
	require.Nil(t, third[0].Private, "a former key loses its private half")

	j, err := ParseJWS(sign("did:web:pay.example.org#"+old.ID, []byte("{}"), old.Private))
	require.NoError(t, err)
	require.Equal(t, "did:web:pay.example.org#"+old.ID, j.KeyID)
	require.True(t, j.VerifiedBy(third[0].Public))
	require.False(t, j.VerifiedBy(next.Public))
}

// A clock that was set back leaves a key that signs.
func TestRingAlwaysHasAKeyThatSigns(t *testing.T) {
	r := ring{newKey(at)}
	require.Equal(t, r[0], r.current(time.Unix(0, 0)))
	require.Equal(t, r[0], r.rotate(at, at.Add(time.Hour)).current(time.Unix(0, 0)))
}

func TestParseRingRejectsDamagedKeys(t *testing.T) {
	good, other := newKey(at), newKey(at)
	change := func(f func(k *keyPair)) string {
		key := good
		f(&key)
		text, err := json.Marshal(ring{key})
		require.NoError(t, err)
		return string(text)
	}
	for name, c := range map[string]struct{ text, want string }{
		"no JSON":             {"key", "not a list of keys"},
		"no key":              {`[]`, "no private key"},
		"a public key alone":  {change(func(k *keyPair) { k.Private = nil }), "no private key"},
		"another id":          {change(func(k *keyPair) { k.ID = other.ID }), "damaged"},
		"half of another key": {change(func(k *keyPair) { k.Private = other.Private }), "damaged"},
		"a short private key": {change(func(k *keyPair) { k.Private = k.Private[:20] }), "damaged"},
		"a short public key":  {change(func(k *keyPair) { k.Public = k.Public[:20] }), "damaged"},
		"two halves of two": {change(func(k *keyPair) {
			k.Private = append(slices.Clone(k.Private[:32]), other.Public...)
		}), "damaged"},
	} {
		_, err := parseRing([]byte(c.text))
		require.ErrorContains(t, err, c.want, name)
		require.NotContains(t, err.Error(), encode(good.Private), name)
	}
}
