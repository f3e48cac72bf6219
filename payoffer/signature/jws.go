// Package signature signs statements of a domain and verifies them with the keys
// that the domain publishes: Ed25519 signatures as JWS (RFC 7515, RFC 8037) over
// canonical JSON (RFC 8785), with the keys of the domain's did:web document.
package signature

import (
	"bytes"
	"crypto/ed25519"
	"errors"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-json-experiment/json/jsontext"
)

// JWS is a signed statement whose signature has not been verified.
type JWS struct {
	// KeyID is the kid of the header, such as "did:web:pay.example.org#key", or empty.
	KeyID string
	// Payload is the signed text.
	Payload []byte

	parsed   *jose.JSONWebSignature
	embedded *jose.JSONWebKey // the jwk of the header, nil without one
}

// sign returns a JWS in compact serialization.
func sign(keyID string, payload []byte, key ed25519.PrivateKey) string {
	signingKey := jose.SigningKey{Algorithm: jose.EdDSA, Key: jose.JSONWebKey{Key: key, KeyID: keyID}}
	// These cannot fail with a key of our own.
	return must(must(must(jose.NewSigner(signingKey, nil)).Sign(payload)).CompactSerialize())
}

func must[T any](value T, err error) T {
	if err != nil {
		panic("signature: " + err.Error())
	}
	return value
}

// ParseJWS parses a JWS in compact serialization. It accepts only EdDSA and no critical
// extensions. Its error completes a sentence about the JWS and repeats nothing of it.
func ParseJWS(compact string) (*JWS, error) {
	parsed, err := jose.ParseSignedCompact(compact, []jose.SignatureAlgorithm{jose.EdDSA})
	if errors.As(err, new(*jose.ErrUnexpectedSignatureAlgorithm)) {
		return nil, errors.New("is not signed with EdDSA, the only supported algorithm; ask its signer for an EdDSA signature")
	}
	if err != nil {
		return nil, errors.New("is not a JWS in compact serialization; copy the whole signed text again")
	}
	header := parsed.Signatures[0].Protected
	if header.ExtraHeaders["crit"] != nil {
		return nil, errors.New("requires an unsupported extension of JWS (crit); ask its signer for one without")
	}
	return &JWS{header.KeyID, parsed.UnsafePayloadWithoutVerification(), parsed, header.JSONWebKey}, nil
}

// VerifiedBy reports whether the key made the signature. A key in the header must be
// the same key.
func (j *JWS) VerifiedBy(key ed25519.PublicKey) bool {
	if j.embedded != nil && !key.Equal(j.embedded.Key) {
		return false
	}
	_, err := j.parsed.Verify(key)
	return err == nil
}

// Canonical returns the canonical form of a JSON text (RFC 8785). It rejects duplicate
// member names, invalid UTF-8 and unpaired surrogates, which parsers read differently.
func Canonical(text []byte) ([]byte, error) {
	value := jsontext.Value(bytes.Clone(text))
	err := value.Canonicalize()
	return value, err
}
