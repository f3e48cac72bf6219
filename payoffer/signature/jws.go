package signature

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
)

// maxJWS bounds a compact JWS in bytes. A statement has some hundred.
const maxJWS = 16 << 10

// algorithm is the JWS algorithm of Ed25519 signatures (RFC 8037 section 3.1).
const algorithm = "EdDSA"

// JWS is a signed statement whose signature has not been checked (RFC 7515).
type JWS struct {
	// KeyID is the header's kid, as in "did:web:pay.example.org#key", or empty.
	KeyID string
	// Payload is what was signed.
	Payload []byte

	signed    string            // header and payload as they were signed
	signature []byte            // 64 bytes
	embedded  ed25519.PublicKey // the header's jwk, nil without one
}

// sign makes a JWS in compact serialization (RFC 7515 section 3.1).
func sign(keyID string, payload []byte, key ed25519.PrivateKey) string {
	encoded, err := json.Marshal(struct { // in canonical order
		Algorithm string `json:"alg"`
		KeyID     string `json:"kid,omitempty"`
	}{algorithm, keyID})
	if err != nil {
		panic("signature: encode a header: " + err.Error()) // two strings always marshal
	}
	signed := encode(encoded) + "." + encode(payload)
	return signed + "." + encode(ed25519.Sign(key, []byte(signed)))
}

// ParseJWS reads a JWS in compact serialization. It takes EdDSA alone, and no
// header that asks for more than is understood here. The error is the end of a
// sentence about the JWS and repeats nothing of it.
func ParseJWS(compact string) (*JWS, error) {
	if len(compact) > maxJWS {
		return nil, errors.New("is longer than any that is made here")
	}
	parts := strings.Split(compact, ".")
	if len(parts) != 3 {
		return nil, errors.New("is not a JWS: header, payload and signature, separated by full stops")
	}
	var decoded [3][]byte
	for n, part := range parts {
		var err error
		if decoded[n], err = base64.RawURLEncoding.Strict().DecodeString(part); err != nil || strings.ContainsAny(part, "\r\n") {
			return nil, errors.New("is not a JWS: a part of it is not base64url")
		}
	}
	if len(decoded[2]) != ed25519.SignatureSize {
		return nil, errors.New("has a signature that is not 64 bytes long, as those of Ed25519 are")
	}
	j := &JWS{Payload: decoded[1], signed: parts[0] + "." + parts[1], signature: decoded[2]}
	return j, j.readHeader(decoded[0])
}

// readHeader checks the members by their exact names; encoding/json would take
// them in any case.
func (j *JWS) readHeader(text []byte) error {
	unusable := errors.New("has a header that cannot be read")
	if _, err := Canonical(text); err != nil {
		return unusable
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(text, &members) != nil {
		return unusable
	}
	var alg string
	if json.Unmarshal(members["alg"], &alg) != nil || alg != algorithm {
		return errors.New("is not signed with EdDSA, the one algorithm that is read here")
	}
	if members["crit"] != nil {
		return errors.New("asks for extensions of JWS that are not understood here")
	}
	if kid := members["kid"]; kid != nil && json.Unmarshal(kid, &j.KeyID) != nil {
		return unusable
	}
	if embedded := members["jwk"]; embedded != nil {
		key, err := parseJWK(embedded)
		if err != nil {
			return errors.New("has a 'jwk' in its header that is no Ed25519 key")
		}
		j.embedded = key
	}
	return nil
}

// VerifiedBy reports whether the key made the signature. A key in the header
// must be the same one.
func (j *JWS) VerifiedBy(key ed25519.PublicKey) bool {
	if j.embedded != nil && !key.Equal(j.embedded) {
		return false
	}
	return ed25519.Verify(key, []byte(j.signed), j.signature)
}

func encode(data []byte) string { return base64.RawURLEncoding.EncodeToString(data) }
