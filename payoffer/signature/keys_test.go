package signature

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/stretchr/testify/require"
)

// keysOf are keys in a storage.
func keysOf(storage Storage) *Keys {
	return NewKeys(KeysConfig{
		DID: "did:web:pay.example.org%3A8443", Path: "pay_offer/signing/pay.example.org-8443.json",
		Storage: func() Storage { return storage }, Now: time.Now, Logger: slog.New(slog.DiscardHandler),
	})
}

func keysIn(t *testing.T, folder string) *Keys {
	t.Helper()
	return keysOf(&certmagic.FileStorage{Path: folder})
}

func loaded(t *testing.T, k *Keys) *Keys {
	t.Helper()
	require.NoError(t, k.Load(t.Context()))
	return k
}

// anyKeys finds that the stored keys are all that there are.
func anyKeys([]string) error { return nil }

// publicBy finds the key that an instance publishes under a kid.
func publicBy(k *Keys, keyID string) []byte {
	for _, key := range k.Published() {
		if k.DID+"#"+key.ID == keyID {
			return key.Public
		}
	}
	return nil
}

// requireSigned checks a signature by what an instance publishes.
func requireSigned(t *testing.T, k *Keys, compact string) {
	t.Helper()
	jws, err := ParseJWS(compact)
	require.NoError(t, err)
	key := publicBy(k, jws.KeyID)
	require.NotNil(t, key, "it publishes the key")
	require.True(t, jws.VerifiedBy(key))
}

// begin keeps the keys up to date until the end of the test's bubble.
func begin(t *testing.T, k *Keys) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var work sync.WaitGroup
	work.Go(func() { k.Run(ctx) })
	return func() {
		cancel()
		work.Wait()
	}
}

func TestConcurrentInstancesShareSigningKey(t *testing.T) {
	folder := t.TempDir()
	instances := make([]*Keys, 4)
	errs := make([]error, len(instances))
	var starts sync.WaitGroup
	for n := range instances {
		instances[n] = keysIn(t, folder)
		require.Empty(t, instances[n].Sign(1), "nothing is loaded yet")
		starts.Go(func() { errs[n] = instances[n].Load(t.Context()) })
	}
	starts.Wait()
	for n, k := range instances {
		require.NoError(t, errs[n])
		require.Len(t, k.Published(), 1)
		requireSigned(t, instances[0], k.Sign(map[string]int{"b": n, "a": 1}))
	}
	require.NotEqual(t, instances[0].Published(), loaded(t, keysIn(t, t.TempDir())).Published())
}

func TestDamagedSigningKeysAreNotReplaced(t *testing.T) {
	k := keysIn(t, t.TempDir())
	require.NoError(t, k.Storage().Store(t.Context(), k.Path, []byte("[]")))
	err := k.Load(t.Context())
	require.ErrorAs(t, err, new(*DamagedError))
	require.ErrorContains(t, err, "pay_offer/signing/pay.example.org-8443.json")
	_, err = k.Rotate(t.Context(), false, anyKeys)
	require.ErrorContains(t, err, "has no private key")
	stored, err := k.Storage().Load(t.Context(), k.Path)
	require.NoError(t, err)
	require.Equal(t, "[]", string(stored))
}

// During a rotation, each instance publishes the keys with which the others sign.
func TestRotationPublishesBeforeSigning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		folder := t.TempDir()
		one, two := loaded(t, keysIn(t, folder)), loaded(t, keysIn(t, folder))
		receipt := one.Sign("of the first key")
		var publications atomic.Int32
		two.Listen(func() { publications.Add(1) })
		defer begin(t, two)()

		next, err := one.Rotate(t.Context(), false, anyKeys)
		require.NoError(t, err)
		require.Equal(t, time.Now().Add(keyLead).Unix(), next.From.Unix())
		time.Sleep(keysEvery + time.Second)
		require.Len(t, two.Published(), 2)
		require.EqualValues(t, 1, publications.Load())
		for range 10 {
			requireSigned(t, two, one.Sign("during the rotation"))
			requireSigned(t, one, two.Sign("during the rotation"))
			time.Sleep(keyLead / 8)
		}
		require.EqualValues(t, 2, publications.Load(), "the new key signs")
		signed := two.Sign("of the second key")
		jws, err := ParseJWS(signed)
		require.NoError(t, err)
		require.Contains(t, jws.KeyID, next.ID)
		requireSigned(t, one, signed)
		requireSigned(t, two, receipt)

		time.Sleep(time.Until(time.Now().Truncate(renewEvery).Add(renewEvery + keysEvery + time.Second)))
		require.EqualValues(t, 3, publications.Load(), "a day began, so offers are signed again")
	})
}

// lostStorage is a storage that cannot be read for a while.
type lostStorage struct {
	certmagic.Storage
	lost atomic.Bool
}

func (l *lostStorage) Load(ctx context.Context, key string) ([]byte, error) {
	if l.lost.Load() {
		return nil, errors.New("no route to the storage")
	}
	return l.Storage.Load(ctx, key)
}

func TestKeysSurviveUnreachableStorage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		storage := &lostStorage{Storage: &certmagic.FileStorage{Path: t.TempDir()}}
		k := loaded(t, keysOf(storage))
		var log strings.Builder
		k.Logger = slog.New(slog.NewTextHandler(&log, nil))
		stop := begin(t, k)
		storage.lost.Store(true)
		time.Sleep(5 * keysEvery)
		requireSigned(t, k, k.Sign("x"))
		stop()
		require.Equal(t, 1, strings.Count(log.String(), "no route to the storage"), "it logs this once")
	})
}

func TestRevokedKeysKeepOnlyIDs(t *testing.T) {
	storage := &certmagic.FileStorage{Path: t.TempDir()}
	k := loaded(t, keysOf(storage))
	first := k.Published()[0]
	second, err := k.Rotate(t.Context(), true, anyKeys)
	require.NoError(t, err)
	_, err = k.Rotate(t.Context(), false, anyKeys)
	require.NoError(t, err)
	other := loaded(t, keysOf(storage))
	require.Equal(t, k.IDs(), other.IDs())
	require.Equal(t, []string{first.ID, second.ID}, other.IDs()[:2])
	require.Len(t, other.Published(), 2)
	require.Nil(t, publicBy(other, other.DID+"#"+first.ID))
}

func TestRotateFailedCheckChangesNothing(t *testing.T) {
	folder := t.TempDir()
	k := loaded(t, keysIn(t, folder))
	before := k.IDs()
	foreign := errors.New("some are missing")
	for _, revoke := range []bool{false, true} {
		_, err := k.Rotate(t.Context(), revoke, func(ids []string) error {
			require.Equal(t, before, ids)
			return foreign
		})
		require.ErrorIs(t, err, foreign)
		require.Equal(t, before, k.IDs())
		require.Equal(t, before, loaded(t, keysIn(t, folder)).IDs(), "nothing was stored")
	}
}

// Otherwise a revoked key would sign again on instances that have not seen the revocation.
func TestRestoredStorageGetsCurrentKeys(t *testing.T) {
	for _, revoke := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			storage := &certmagic.FileStorage{Path: t.TempDir()}
			one, two := loaded(t, keysOf(storage)), loaded(t, keysOf(storage))
			earlier, err := storage.Load(t.Context(), one.Path)
			require.NoError(t, err)
			_, err = one.Rotate(t.Context(), revoke, anyKeys)
			require.NoError(t, err)
			require.NoError(t, storage.Store(t.Context(), one.Path, earlier))
			defer begin(t, one)()
			defer begin(t, two)()
			time.Sleep(2*keysEvery + time.Second)
			require.Len(t, one.IDs(), 2)
			require.Equal(t, one.IDs(), two.IDs())
			require.Equal(t, one.Published(), two.Published())

			require.NoError(t, storage.Delete(t.Context(), one.Path))
			next, err := one.Rotate(t.Context(), false, anyKeys)
			require.NoError(t, err)
			require.Equal(t, append(two.IDs(), next.ID), loaded(t, keysOf(storage)).IDs())
			time.Sleep(time.Minute) // until the locks of the storage end their own work
		})
	}
}

// Examples of RFC 8785 sections 3.2.2 and 3.2.3 and appendix B.
func TestCanonicalRFC8785(t *testing.T) {
	for text, want := range map[string]string{
		`{
		  "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
		  "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
		  "literals": [null, true, false]
		}`: `{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}`,
		`{"\u20ac": 1, "\r": 2, "\ufb33": 3, "1": 4, "\ud83d\ude00": 5, "\u00f6": 6}`: `{"\r":2,"1":4,"ö":6,"€":1,"😀":5,"` + "\ufb33" + `":3}`,
		`"<&> \u2028\u007f\b\f\t"`:                     "\"<&> \u2028\u007f\\b\\f\\t\"",
		"[-0, 9007199254740992, 1e21, 0.000001, 1e-7]": "[0,9007199254740992,1e+21,0.000001,1e-7]",
	} {
		got, err := Canonical([]byte(text))
		require.NoError(t, err, text)
		require.Equal(t, want, string(got))
	}
}

func TestCanonicalRejectsAmbiguousJSON(t *testing.T) {
	for _, text := range []string{
		`{"a":1,"b":2,"a":3}`, `{"a":1,"\u0061":3}`, `"\ud800"`, `{"\udc00":1}`, "\"\xff\"", "1 2", `{"a":1`, `[1,]`, "",
	} {
		_, err := Canonical([]byte(text))
		require.Error(t, err, text)
	}
}

// The key and the JWS of RFC 8037 appendices A.1 to A.4.
const (
	rfcSeed       = "nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A"
	rfcPublic     = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"
	rfcThumbprint = "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"
	rfcJWS        = "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc." +
		"hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg"
)

func rfcKey(t testing.TB) ed25519.PrivateKey {
	t.Helper()
	seed, err := base64.RawURLEncoding.DecodeString(rfcSeed)
	require.NoError(t, err)
	return ed25519.NewKeyFromSeed(seed)
}

func TestJWSMatchesRFCExample(t *testing.T) {
	key := rfcKey(t)
	public := key.Public().(ed25519.PublicKey)
	require.Equal(t, rfcThumbprint, thumbprint(public))
	require.Equal(t, rfcJWS, sign("", []byte("Example of Ed25519 signing"), key))
	j, err := ParseJWS(rfcJWS)
	require.NoError(t, err)
	require.Empty(t, j.KeyID)
	require.Equal(t, "Example of Ed25519 signing", string(j.Payload))
	require.True(t, j.VerifiedBy(public))
}

func TestVerifiedByRejectsChangesAndOtherKeys(t *testing.T) {
	key := rfcKey(t)
	public := key.Public().(ed25519.PublicKey)
	parts := strings.Split(rfcJWS, ".")
	withJWK := func(x string) string {
		signed := encode([]byte(`{"alg":"EdDSA","jwk":{"kty":"OKP","crv":"Ed25519","x":"`+x+`"}}`)) + ".e30"
		return signed + "." + encode(ed25519.Sign(key, []byte(signed)))
	}
	for name, c := range map[string]struct {
		compact string
		want    bool
	}{
		"unchanged":                 {rfcJWS, true},
		"payload":                   {parts[0] + "." + encode([]byte("Example of Ed25519 sighing")) + "." + parts[2], false},
		"header":                    {encode([]byte(`{"alg":"EdDSA" }`)) + "." + parts[1] + "." + parts[2], false},
		"signature":                 {parts[0] + "." + parts[1] + "." + strings.Replace(parts[2], "MGCj", "MGCk", 1), false},
		"a short signature":         {parts[0] + "." + parts[1] + ".e30", false},
		"the same key in header":    {withJWK(rfcPublic), true},
		"another key in the header": {withJWK(encode([]byte(strings.Repeat("k", 32)))), false},
	} {
		j, err := ParseJWS(c.compact)
		require.NoError(t, err, name)
		require.Equal(t, c.want, j.VerifiedBy(public), name)
		require.False(t, j.VerifiedBy(newKey(at).Public), name)
	}
}

func TestParseJWSRejects(t *testing.T) {
	parts := strings.Split(rfcJWS, ".")
	withHeader := func(header string) string { return encode([]byte(header)) + "." + parts[1] + "." + parts[2] }
	for name, c := range map[string]struct{ compact, want string }{
		"text":                   {"hello", "is not a JWS"},
		"four parts":             {rfcJWS + ".e30", "is not a JWS"},
		"padding":                {rfcJWS + "==", "is not a JWS"},
		"none":                   {withHeader(`{"alg":"none"}`), "EdDSA"},
		"HMAC":                   {withHeader(`{"alg":"HS256"}`), "EdDSA"},
		"alg in capitals":        {withHeader(`{"ALG":"EdDSA"}`), "EdDSA"},
		"alg twice":              {withHeader(`{"alg":"EdDSA","alg":"none"}`), "is not a JWS"},
		"an extension":           {withHeader(`{"alg":"EdDSA","b64":false,"crit":["b64"]}`), "unsupported extension"},
		"a jwk of another curve": {withHeader(`{"alg":"EdDSA","jwk":{"kty":"EC","crv":"P-256","x":"AA"}}`), "is not a JWS"},
	} {
		_, err := ParseJWS(c.compact)
		require.ErrorContains(t, err, c.want, name)
	}
}

func FuzzParseJWS(f *testing.F) {
	f.Add(rfcJWS)
	f.Add("eyJhbGciOiJFZERTQSJ9..")
	public := rfcKey(f).Public().(ed25519.PublicKey)
	f.Fuzz(func(t *testing.T, compact string) {
		j, err := ParseJWS(compact)
		if err == nil && j.VerifiedBy(public) {
			require.Equal(t, "Example of Ed25519 signing", string(j.Payload))
		}
	})
}

func encode(data []byte) string { return base64.RawURLEncoding.EncodeToString(data) }
