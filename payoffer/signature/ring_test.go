package signature

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"
)

var at = time.Unix(1_795_266_000, 0)

func newRing(t *testing.T) *Ring {
	t.Helper()
	r, err := NewRing(rand.Reader, at)
	require.NoError(t, err)
	return r
}

// storedRing is the ring after it was stored and loaded.
func storedRing(t *testing.T, r *Ring) *Ring {
	t.Helper()
	loaded, err := ParseRing(r.Encode())
	require.NoError(t, err)
	require.Equal(t, r, loaded)
	return loaded
}

func TestRotationPublishesFirstSignsLaterAndForgetsNoPublicKey(t *testing.T) {
	first := newRing(t)
	old := first.Current(at)
	lead := at.Add(10 * time.Minute)
	second, err := first.Rotated(rand.Reader, at, lead)
	require.NoError(t, err)
	second = storedRing(t, second)
	require.Len(t, second.Keys(), 2)
	require.Equal(t, old, second.Current(at))
	require.Equal(t, old, second.Current(lead.Add(-time.Second)))
	next := second.Current(lead)
	require.NotEqual(t, old.ID, next.ID)

	third, err := second.Rotated(rand.Reader, lead, lead.Add(time.Hour))
	require.NoError(t, err)
	third = storedRing(t, third)
	require.Len(t, third.Keys(), 3)
	require.Equal(t, old.Public, third.Keys()[0].Public)
	require.Equal(t, next.ID, third.Current(lead).ID)
	require.NotContains(t, string(third.Encode()), encode(old.private.Seed()), "its private half is not kept")

	j, err := ParseJWS(old.Sign("did:web:pay.example.org", []byte("{}")))
	require.NoError(t, err)
	require.Equal(t, "did:web:pay.example.org#"+old.ID, j.KeyID)
	require.True(t, j.VerifiedBy(third.Keys()[0].Public))
	require.False(t, j.VerifiedBy(next.Public))
}

// A clock that was set back leaves a key that signs.
func TestRingAlwaysHasAKeyThatSigns(t *testing.T) {
	r := newRing(t)
	require.Equal(t, r.Keys()[0], r.Current(time.Unix(0, 0)))
	rotated, err := r.Rotated(rand.Reader, at, at.Add(time.Hour))
	require.NoError(t, err)
	require.Equal(t, r.Keys()[0], rotated.Current(time.Unix(0, 0)))
}

func TestParseRingRefusesWhatCannotSign(t *testing.T) {
	good := string(newRing(t).Encode())
	other := newRing(t).Keys()[0]
	var set jwkSet
	require.NoError(t, json.Unmarshal([]byte(good), &set))
	key := set.Keys[0]
	for name, c := range map[string]struct{ text, want string }{
		"no JSON":             {"key", "not a JWK Set"},
		"no key":              {`{"keys":[]}`, "no private key"},
		"a public key alone":  {strings.Replace(good, `"d"`, `"e"`, 1), "no private key"},
		"another curve":       {strings.Replace(good, "Ed25519", "X25519", 1), "no Ed25519 key"},
		"another id":          {strings.Replace(good, key.ID, other.ID, 1), "thumbprint"},
		"half of another key": {strings.Replace(good, key.Private, encode(other.private.Seed()), 1), "do not belong together"},
		"half a key":          {strings.Replace(good, key.Private, key.Private[:20], 1), "damaged"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseRing([]byte(c.text))
			require.ErrorContains(t, err, c.want)
			require.NotContains(t, err.Error(), key.Private)
		})
	}
}

func TestRingIsNotMadeWithoutRandomness(t *testing.T) {
	_, err := NewRing(iotest.ErrReader(bytes.ErrTooLarge), at)
	require.ErrorIs(t, err, bytes.ErrTooLarge)
	_, err = newRing(t).Rotated(strings.NewReader("short"), at, at)
	require.Error(t, err)
}
