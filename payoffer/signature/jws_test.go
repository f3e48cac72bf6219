package signature

import (
	"crypto/ed25519"
	"encoding/base64"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

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

func TestJWSIsThatOfTheStandard(t *testing.T) {
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

func TestVerifiedByRejectsChangedStatementsAndOtherKeys(t *testing.T) {
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
