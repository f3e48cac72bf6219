package signature

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var at = time.Unix(1_795_266_000, 0)

// storedRing is the ring after it was stored and loaded.
func storedRing(t *testing.T, r ring) ring {
	t.Helper()
	loaded, err := parseRing(r.encode())
	require.NoError(t, err)
	require.Equal(t, r, loaded)
	return loaded
}

func TestRotationPublishesFirstSignsLaterAndForgetsNoPublicKey(t *testing.T) {
	first := ring{newKey(at)}
	old := first.current(at)
	lead := at.Add(10 * time.Minute)
	second := storedRing(t, first.rotated(at, lead))
	require.Len(t, second, 2)
	require.Equal(t, old, second.current(at))
	require.Equal(t, old, second.current(lead.Add(-time.Second)))
	next := second.current(lead)
	require.NotEqual(t, old.ID, next.ID)

	third := storedRing(t, second.rotated(lead, lead.Add(time.Hour)))
	require.Len(t, third, 3)
	require.Equal(t, old.Public, third[0].Public)
	require.Equal(t, next.ID, third.current(lead).ID)
	require.NotContains(t, string(third.encode()), encode(old.private.Seed()), "its private half is not kept")

	j, err := ParseJWS(sign("did:web:pay.example.org#"+old.ID, []byte("{}"), old.private))
	require.NoError(t, err)
	require.Equal(t, "did:web:pay.example.org#"+old.ID, j.KeyID)
	require.True(t, j.VerifiedBy(third[0].Public))
	require.False(t, j.VerifiedBy(next.Public))
}

// A clock that was set back leaves a key that signs.
func TestRingAlwaysHasAKeyThatSigns(t *testing.T) {
	r := ring{newKey(at)}
	require.Equal(t, r[0], r.current(time.Unix(0, 0)))
	require.Equal(t, r[0], r.rotated(at, at.Add(time.Hour)).current(time.Unix(0, 0)))
}

func TestParseRingRefusesWhatCannotSign(t *testing.T) {
	good := string(ring{newKey(at)}.encode())
	other := newKey(at)
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
			_, err := parseRing([]byte(c.text))
			require.ErrorContains(t, err, c.want)
			require.NotContains(t, err.Error(), key.Private)
		})
	}
}
