package signature

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"
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

func TestRingRotate(t *testing.T) {
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
func TestRingAlwaysHasSigningKey(t *testing.T) {
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

// web answers requests in the process.
type web func(*http.Request) (*http.Response, error)

func (w web) RoundTrip(r *http.Request) (*http.Response, error) { return w(r) }

// serving answers every request with a status and a body, and counts them.
func serving(status int, body string, urls *[]string) web {
	return func(r *http.Request) (*http.Response, error) {
		*urls = append(*urls, r.Method+" "+r.URL.String())
		return &http.Response{StatusCode: status, Header: http.Header{"Location": {"https://evil.example/"}}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
	}
}

const (
	testDID   = "did:web:pay.example.org%3A8443"
	testKeyID = testDID + "#" + rfcThumbprint
	testURL   = "https://pay.example.org:8443"
)

// method is a verification method with the key of RFC 8037.
const method = `{"id":"` + testKeyID + `","type":"JsonWebKey2020","controller":"` + testDID + `","publicKeyJwk":{"kty":"OKP","crv":"Ed25519","x":"` + rfcPublic + `"}}`

const document = `{"@context":["https://www.w3.org/ns/did/v1"],"id":"` + testDID + `","verificationMethod":[` + method + `],"assertionMethod":["` + testKeyID + `"]}`

func TestResolverCachesDocument(t *testing.T) {
	var asked []string
	r := NewResolver(serving(http.StatusOK, document, &asked))
	for range 2 {
		key, err := r.Key(t.Context(), testURL, testKeyID)
		require.NoError(t, err)
		require.Equal(t, rfcPublic, encode(key))
	}
	require.Equal(t, []string{"GET https://pay.example.org:8443/.well-known/did.json"}, asked)
}

func TestResolverRejectsOtherDomains(t *testing.T) {
	for _, keyID := range []string{
		"", "did:web:pay.example.org#k", "did:web:evil.example#k", "did:key:z6Mk#z6Mk", testDID, testDID + "#", strings.ToLower(testDID) + "#k",
		testDID + ".evil.example#k", testDID + ":user#k",
	} {
		var asked []string
		_, err := NewResolver(serving(http.StatusOK, document, &asked)).Key(t.Context(), testURL, keyID)
		require.ErrorContains(t, err, "is not a key of pay.example.org:8443", keyID)
		require.Empty(t, asked)
	}
}

func TestResolverRejectsInvalidDocument(t *testing.T) {
	for name, c := range map[string]struct {
		status     int
		body, want string
	}{
		"no document":         {404, document, "could not be read"},
		"a redirect":          {302, document, "could not be read"},
		"no JSON":             {200, "<html>", "not valid JSON"},
		"another identity":    {200, strings.Replace(document, `"id":"`+testDID, `"id":"did:web:evil.example`, 1), "another domain"},
		"an id in lower case": {200, strings.Replace(document, `"id":"`+testDID, `"id":"`+strings.Replace(testDID, "%3A", "%3a", 1), 1), "another domain"},
		"another key":         {200, strings.Replace(document, testKeyID, testDID+"#other", 1), "does not list the key"},
		"another controller":  {200, strings.Replace(document, `"controller":"`+testDID, `"controller":"did:web:evil.example`, 1), "does not list the key"},
		"no assertion":        {200, strings.Replace(document, "assertionMethod", "keyAgreement", 1), "assertionMethod"},
		"another kind of key": {200, strings.Replace(document, "Ed25519", "X25519", 1), "Ed25519 JWK"},
		"a short key":         {200, strings.Replace(document, rfcPublic, "AAAA", 1), "Ed25519 JWK"},
		"a huge document":     {200, document + strings.Repeat(" ", 256<<10), "could not be read"},
	} {
		var asked []string
		_, err := NewResolver(serving(c.status, c.body, &asked)).Key(t.Context(), testURL, testKeyID)
		require.ErrorContains(t, err, c.want, name)
		require.Len(t, asked, 1, name)
	}
	_, err := NewResolver(web(func(*http.Request) (*http.Response, error) { return nil, fmt.Errorf("no route") })).Key(t.Context(), testURL, testKeyID)
	require.ErrorContains(t, err, "could not be read")
}

func FuzzFindKey(f *testing.F) {
	f.Add([]byte(document))
	f.Add([]byte(`{"id":"` + testDID + `","assertionMethod":[{}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		key, err := findKey(text, testDID, testKeyID)
		if err == nil {
			require.Len(t, key, 32)
		}
	})
}

func secretIn(storage Storage) *Secret {
	return NewSecret(func() Storage { return storage }, "pay_offer/qr.key", "the key of QR addresses")
}

// Instances that share a storage share the key, also when they start together:
// each serves the QR addresses that another gave out.
func TestSecretIsSharedByInstances(t *testing.T) {
	storage := &certmagic.FileStorage{Path: t.TempDir()}
	secrets := make([]*Secret, 4)
	errs := make([]error, len(secrets))
	var instances sync.WaitGroup
	for n := range secrets {
		secrets[n] = secretIn(storage)
		require.Nil(t, secrets[n].Bytes(), "nothing is loaded yet")
		instances.Go(func() { errs[n] = secrets[n].Load(t.Context()) })
	}
	instances.Wait()
	for n := range secrets {
		require.NoError(t, errs[n])
		require.Len(t, secrets[n].Bytes(), 32)
		require.Equal(t, secrets[0].Bytes(), secrets[n].Bytes())
	}
	other := secretIn(&certmagic.FileStorage{Path: t.TempDir()})
	require.NoError(t, other.Load(t.Context()))
	require.NotEqual(t, secrets[0].Bytes(), other.Bytes())
	require.Equal(t, secrets[0].ID(), secrets[1].ID())
	require.NotEqual(t, secrets[0].ID(), other.ID())
}

func TestDamagedSecretIsNotReplaced(t *testing.T) {
	storage := &certmagic.FileStorage{Path: t.TempDir()}
	require.NoError(t, storage.Store(t.Context(), "pay_offer/qr.key", []byte("short")))
	require.ErrorContains(t, secretIn(storage).Load(t.Context()), "the key of QR addresses in Caddy's storage (pay_offer/qr.key) has 5 bytes, not 32")
}

func TestSecretSurvivesUnreachableStorage(t *testing.T) {
	storage := &lostStorage{Storage: &certmagic.FileStorage{Path: t.TempDir()}}
	s := secretIn(storage)
	require.NoError(t, s.Load(t.Context()))
	before := s.Bytes()
	storage.lost.Store(true)
	require.NoError(t, s.Load(t.Context()))
	require.Equal(t, before, s.Bytes())
	require.EqualError(t, secretIn(storage).Load(t.Context()),
		"loading the key of QR addresses in Caddy's storage: no route to the storage")
}
