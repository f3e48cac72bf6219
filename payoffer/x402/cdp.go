package x402

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"math/big"
	"net/http"
	"strings"
	"time"
)

// cdpSigner authenticates requests to the CDP facilitator: a fresh JWT (RFC
// 7519) for each request, by EdDSA or ES256 according to the key.
type cdpSigner struct {
	keyID string
	key   crypto.Signer
	now   func() time.Time
}

const jwtLifetime = 2 * time.Minute

// newCDPSigner reads a key: base64 of a 64-byte Ed25519 key, or a PEM block
// with a P-256 key. Errors never repeat the key.
func newCDPSigner(id, secret string, now func() time.Time) (*cdpSigner, error) {
	if id == "" || secret == "" {
		return nil, errors.New("key_id and key_secret go together; set both or none")
	}
	key, err := parseCDPKey(secret)
	if err != nil {
		return nil, err
	}
	return &cdpSigner{keyID: id, key: key, now: now}, nil
}

func parseCDPKey(secret string) (crypto.Signer, error) {
	if block, _ := pem.Decode([]byte(strings.ReplaceAll(secret, `\n`, "\n"))); block != nil {
		parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
		if err != nil {
			parsed, err = x509.ParseECPrivateKey(block.Bytes)
		}
		if key, ok := parsed.(*ecdsa.PrivateKey); ok && err == nil && key.Curve == elliptic.P256() {
			return key, nil
		}
		return nil, errors.New("key_secret is a PEM block without a P-256 private key")
	}
	raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(secret))
	if err != nil || len(raw) != ed25519.PrivateKeySize {
		return nil, errors.New("key_secret is neither a PEM block nor the base64 of a 64-byte Ed25519 key")
	}
	key := ed25519.NewKeyFromSeed(raw[:ed25519.SeedSize])
	if !key.Equal(ed25519.PrivateKey(raw)) {
		return nil, errors.New("key_secret is not an Ed25519 key: its halves do not belong together")
	}
	return key, nil
}

// sign puts the token for exactly this request into its Authorization header.
func (c *cdpSigner) sign(r *http.Request) error {
	nonce := make([]byte, 16)
	_, _ = rand.Read(nonce) // never fails
	algorithm := "EdDSA"
	if _, ok := c.key.(*ecdsa.PrivateKey); ok {
		algorithm = "ES256"
	}
	now := c.now().Unix()
	header := map[string]string{"alg": algorithm, "typ": "JWT", "kid": c.keyID, "nonce": hex.EncodeToString(nonce)}
	claims := map[string]any{
		"sub": c.keyID, "iss": "cdp", "aud": []string{"cdp_service"},
		"nbf": now, "iat": now, "exp": now + int64(jwtLifetime/time.Second),
		"uris": []string{r.Method + " " + r.URL.Host + r.URL.Path},
	}
	signed := segment(header) + "." + segment(claims)
	signature, err := c.signature([]byte(signed))
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+signed+"."+base64.RawURLEncoding.EncodeToString(signature))
	return nil
}

func segment(v any) string { return base64.RawURLEncoding.EncodeToString(encode(v)) }

// signature is a JWS signature (RFC 7518 section 3.4, RFC 8037): two 32-byte
// integers for ES256.
func (c *cdpSigner) signature(message []byte) ([]byte, error) {
	key, ok := c.key.(*ecdsa.PrivateKey)
	if !ok {
		return c.key.Sign(rand.Reader, message, crypto.Hash(0))
	}
	digest := sha256.Sum256(message)
	r, s, err := ecdsa.Sign(rand.Reader, key, digest[:])
	if err != nil {
		return nil, err
	}
	return append(fixed32(r), fixed32(s)...), nil
}

func fixed32(n *big.Int) []byte { return n.FillBytes(make([]byte, 32)) }
