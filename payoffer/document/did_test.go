package document

import (
	"crypto/ed25519"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDIDListsTheKeysThatSign(t *testing.T) {
	with := terms()
	with.BaseURL = "https://pay.example.org:8443"
	o := cardOffer(t, with)
	bare := decode(t, DID(o))
	require.NotContains(t, bare, "verificationMethod", "an empty list would name a key that there is not")
	require.NotContains(t, bare, "assertionMethod")

	// The public key of RFC 8037 appendix A.2.
	key := ed25519.PublicKey{
		0xd7, 0x5a, 0x98, 0x01, 0x82, 0xb1, 0x0a, 0xb7, 0xd5, 0x4b, 0xfe, 0xd3, 0xc9, 0x64, 0x07, 0x3a,
		0x0e, 0xe1, 0x72, 0xf3, 0xda, 0xa6, 0x23, 0x25, 0xaf, 0x02, 0x1a, 0x68, 0xf7, 0x07, 0x51, 0x1a,
	}
	doc := decode(t, DID(o, VerificationKey{"new", key}, VerificationKey{"old", key}))
	const did = "did:web:pay.example.org%3A8443"
	require.Equal(t, map[string]any{
		"id": did + "#new", "type": "JsonWebKey2020", "controller": did,
		"publicKeyJwk": map[string]any{"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"},
	}, at(t, doc, "verificationMethod", 0))
	require.Equal(t, []any{did + "#new", did + "#old"}, doc["assertionMethod"])
	require.Equal(t, "https://www.w3.org/ns/did/v1", at(t, doc, "@context", 0), "which must be the first")
	require.Equal(t, bare["service"], doc["service"])
}
