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
	require.Equal(t, rfcPublic, encode(public))
	require.Equal(t, rfcThumbprint, thumbprint(public))
	require.Equal(t, rfcJWS, sign("", []byte("Example of Ed25519 signing"), key))
	j, err := ParseJWS(rfcJWS)
	require.NoError(t, err)
	require.Empty(t, j.KeyID)
	require.Equal(t, "Example of Ed25519 signing", string(j.Payload))
	require.True(t, j.VerifiedBy(public))
}

func TestJWSThatWasTamperedWithIsNotVerified(t *testing.T) {
	public := rfcKey(t).Public().(ed25519.PublicKey)
	other, _, err := ed25519.GenerateKey(strings.NewReader(strings.Repeat("k", 64)))
	require.NoError(t, err)
	parts := strings.Split(rfcJWS, ".")
	flipped := []byte(parts[2])
	flipped[10] ^= 1
	for name, compact := range map[string]string{
		"payload":   parts[0] + "." + encode([]byte("Example of Ed25519 sighing")) + "." + parts[2],
		"header":    encode([]byte(`{"alg":"EdDSA" }`)) + "." + parts[1] + "." + parts[2],
		"signature": parts[0] + "." + parts[1] + "." + string(flipped),
	} {
		j, err := ParseJWS(compact)
		require.NoError(t, err, name)
		require.False(t, j.VerifiedBy(public), name)
	}
	j, err := ParseJWS(rfcJWS)
	require.NoError(t, err)
	require.False(t, j.VerifiedBy(other))
}

func TestJWSWithAKeyOfItsOwnMustHaveThePublishedOne(t *testing.T) {
	key := rfcKey(t)
	for x, want := range map[string]bool{rfcPublic: true, encode([]byte(strings.Repeat("k", 32))): false} {
		signed := encode([]byte(`{"alg":"EdDSA","jwk":{"kty":"OKP","crv":"Ed25519","x":"`+x+`"}}`)) + "." + encode([]byte("{}"))
		j, err := ParseJWS(signed + "." + encode(ed25519.Sign(key, []byte(signed))))
		require.NoError(t, err)
		require.Equal(t, want, j.VerifiedBy(key.Public().(ed25519.PublicKey)))
	}
}

func TestParseJWSRefuses(t *testing.T) {
	parts := strings.Split(rfcJWS, ".")
	withHeader := func(header string) string { return encode([]byte(header)) + "." + parts[1] + "." + parts[2] }
	for name, c := range map[string]struct{ compact, want string }{
		"text":                    {"hello", "is not a JWS"},
		"nothing":                 {"", "is not a JWS"},
		"four parts":              {rfcJWS + ".e30", "is not a JWS"},
		"padding":                 {rfcJWS + "==", "not base64url"},
		"the other alphabet":      {parts[0] + "." + parts[1] + "." + strings.Replace(parts[2], "_", "/", 1), "not base64url"},
		"a line break":            {parts[0] + "\n." + parts[1] + "." + parts[2], "not base64url"},
		"bits after the end":      {parts[0] + "." + parts[1] + "." + parts[2][:85] + "h", "not base64url"},
		"a short signature":       {parts[0] + "." + parts[1] + ".e30", "64 bytes"},
		"none":                    {withHeader(`{"alg":"none"}`), "EdDSA"},
		"HMAC":                    {withHeader(`{"alg":"HS256"}`), "EdDSA"},
		"alg in capitals":         {withHeader(`{"ALG":"EdDSA"}`), "EdDSA"},
		"alg twice":               {withHeader(`{"alg":"EdDSA","alg":"none"}`), "cannot be read"},
		"an extension":            {withHeader(`{"alg":"EdDSA","b64":false,"crit":["b64"]}`), "not understood"},
		"a kid that is no string": {withHeader(`{"alg":"EdDSA","kid":1}`), "cannot be read"},
		"a jwk of another curve":  {withHeader(`{"alg":"EdDSA","jwk":{"kty":"EC","crv":"P-256","x":"AA"}}`), "no Ed25519 key"},
		"a header that is a list": {withHeader(`["alg"]`), "cannot be read"},
		"too long":                {parts[0] + "." + strings.Repeat("A", 16<<10) + "." + parts[2], "longer"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseJWS(c.compact)
			require.ErrorContains(t, err, c.want)
		})
	}
}

func FuzzParseJWS(f *testing.F) {
	f.Add(rfcJWS)
	f.Add("eyJhbGciOiJFZERTQSJ9..")
	public := rfcKey(f).Public().(ed25519.PublicKey)
	f.Fuzz(func(t *testing.T, compact string) {
		j, err := ParseJWS(compact)
		if err == nil && j.VerifiedBy(public) {
			require.Equal(t, rfcJWS, compact, "a signature that nobody made")
		}
	})
}
