package x402

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/crypto"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// keyPair is a CDP key in the form of its secret, and how its signatures are
// verified.
type keyPair struct {
	algorithm, secret string
	verify            func(message, signature []byte) bool
}

func edKey(t *testing.T) keyPair {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	return keyPair{"EdDSA", base64.StdEncoding.EncodeToString(private), func(message, signature []byte) bool {
		return ed25519.Verify(public, message, signature)
	}}
}

func ecKey(t *testing.T, curve elliptic.Curve, pkcs8, escaped bool) keyPair {
	private, err := ecdsa.GenerateKey(curve, rand.Reader)
	require.NoError(t, err)
	block := &pem.Block{Type: "EC PRIVATE KEY"}
	if pkcs8 {
		block.Type = "PRIVATE KEY"
		block.Bytes, err = x509.MarshalPKCS8PrivateKey(private)
	} else {
		block.Bytes, err = x509.MarshalECPrivateKey(private)
	}
	require.NoError(t, err)
	secret := string(pem.EncodeToMemory(block))
	if escaped {
		secret = strings.ReplaceAll(secret, "\n", `\n`)
	}
	return keyPair{"ES256", secret, func(message, signature []byte) bool {
		if len(signature) != 64 {
			return false
		}
		digest := sha256.Sum256(message)
		r, s := new(big.Int).SetBytes(signature[:32]), new(big.Int).SetBytes(signature[32:])
		return ecdsa.Verify(&private.PublicKey, digest[:], r, s)
	}}
}

func jwtPart(t *testing.T, s string) map[string]any {
	raw := must(base64.RawURLEncoding.DecodeString(s))(t)
	var part map[string]any
	require.NoError(t, json.Unmarshal(raw, &part))
	return part
}

func TestCDPSignsEachRequest(t *testing.T) {
	now := time.Unix(1_795_255_358, 0)
	for name, key := range map[string]keyPair{
		"Ed25519": edKey(t), "P-256": ecKey(t, elliptic.P256(), false, false),
		"P-256 in PKCS 8": ecKey(t, elliptic.P256(), true, false), "P-256 in one line": ecKey(t, elliptic.P256(), false, true),
	} {
		t.Run(name, func(t *testing.T) {
			stand := payoffertest.NewFacilitator(t)
			f, err := NewFacilitator(FacilitatorConfig{
				URL: stand.URL(), KeyID: "organizations/1/apiKeys/2", KeySecret: key.secret,
				Transport: stand.Transport(), Now: func() time.Time { return now },
			})
			require.NoError(t, err)
			request := facilitatorRequest{X402Version: 2, PaymentPayload: newBuyer(1).v2(t), PaymentRequirements: []byte(`{"network":"eip155:84532"}`)}
			said, err := f.verify(t.Context(), request, true)
			require.NoError(t, err)
			require.True(t, said.yes)
			_, err = f.settle(t.Context(), request)
			require.NoError(t, err)

			nonces := map[any]bool{}
			for _, path := range []string{verifyCall, settleCall} {
				bearer, found := strings.CutPrefix(stand.Calls(path)[0].Header.Get("Authorization"), "Bearer ")
				require.True(t, found)
				parts := strings.Split(bearer, ".")
				require.Len(t, parts, 3)
				signature := must(base64.RawURLEncoding.DecodeString(parts[2]))(t)
				require.True(t, key.verify([]byte(parts[0]+"."+parts[1]), signature))

				header := jwtPart(t, parts[0])
				nonces[header["nonce"]] = true
				require.Regexp(t, "^[0-9a-f]{32}$", header["nonce"])
				delete(header, "nonce")
				require.Equal(t, map[string]any{"alg": key.algorithm, "typ": "JWT", "kid": "organizations/1/apiKeys/2"}, header)
				require.Equal(t, map[string]any{
					"sub": "organizations/1/apiKeys/2", "iss": "cdp", "aud": []any{"cdp_service"},
					"nbf": 1795255358.0, "iat": 1795255358.0, "exp": 1795255478.0,
					"uris": []any{"POST " + f.Host() + path},
				}, jwtPart(t, parts[1]))
			}
			require.Len(t, nonces, 2, "a fresh token for each request")
		})
	}
}

func TestCDPMalformedKeyErrors(t *testing.T) {
	valid := must(base64.StdEncoding.DecodeString(edKey(t).secret))(t)
	torn := append(append([]byte(nil), valid[:32]...), make([]byte, 32)...)
	for _, c := range []struct{ name, id, secret, complaint string }{
		{"no secret", "id", "", "only one of key_id and key_secret"},
		{"no id", "", edKey(t).secret, "only one of key_id and key_secret"},
		{"text", "id", "s3cr3t", "neither"},
		{"a seed alone", "id", base64.StdEncoding.EncodeToString(valid[:32]), "neither"},
		{"halves of two keys", "id", base64.StdEncoding.EncodeToString(torn), "halves"},
		{"another curve", "id", ecKey(t, elliptic.P384(), false, false).secret, "without a P-256"},
		{"an empty PEM block", "id", "-----BEGIN EC PRIVATE KEY-----\n-----END EC PRIVATE KEY-----\n", "without a P-256"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := NewFacilitator(FacilitatorConfig{URL: "https://facilitator.example", KeyID: c.id, KeySecret: c.secret})
			require.ErrorContains(t, err, c.complaint)
			require.ErrorContains(t, err, "facilitator.example")
			if c.secret != "" {
				require.NotContains(t, err.Error(), c.secret[:min(len(c.secret), 8)])
			}
		})
	}
}

// What a buyer signs here is what is checked here, on the one network alone.
func TestAuthorizeBindsNetwork(t *testing.T) {
	key := must(crypto.GenerateKey())(t)
	until := time.Unix(1_800_000_000, 0)
	nonces := map[string]bool{}
	for _, name := range []string{"base", "base-sepolia", "ethereum", "celo"} {
		network := must(offer.LookupNetwork(name))(t)
		rail := must(offer.NewUSDC("usdc", network, "0x52908400098527886E0F7030069857D2E4169EE7", 4200))(t)
		authorized := Authorize(key, network, rail.PayTo, rail.Atomic(), until)
		payload, err := json.Marshal(map[string]any{
			"x402Version": 2, "accepted": requirements(rail, flowUpfront), "payload": authorized,
		})
		require.NoError(t, err)
		p := must(decodePayment(payload))(t)
		require.Equal(t, "1800000000", p.authorization.ValidBefore)
		require.Equal(t, crypto.PubkeyToAddress(key.PublicKey).Hex(), p.authorization.From)
		for _, other := range []string{"base", "base-sepolia", "ethereum", "celo"} {
			elsewhere := must(offer.LookupNetwork(other))(t)
			require.Equal(t, other == name, authorized.Signs(elsewhere), "%s on %s", name, other)
		}
		require.False(t, nonces[strings.ToLower(p.authorization.Nonce)])
		nonces[strings.ToLower(p.authorization.Nonce)] = true
	}
}
