package x402

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
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
		return nil, errors.New("only one of key_id and key_secret is set; set both or remove it")
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
		return nil, errors.New("the secret is a PEM block without a P-256 private key; copy the secret of an ECDSA key from the CDP portal")
	}
	raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(secret))
	if err != nil || len(raw) != ed25519.PrivateKeySize {
		return nil, errors.New("the secret is neither a PEM block nor the base64 of a 64-byte Ed25519 key; copy the whole secret from the CDP portal")
	}
	key := ed25519.NewKeyFromSeed(raw[:ed25519.SeedSize])
	if !key.Equal(ed25519.PrivateKey(raw)) {
		return nil, errors.New("the secret is damaged: the halves of the Ed25519 key do not match; copy the whole secret from the CDP portal")
	}
	return key, nil
}

// sign sets the Authorization header to a token for exactly this request.
func (c *cdpSigner) sign(r *http.Request) error {
	algorithm := jose.EdDSA
	if _, ok := c.key.(*ecdsa.PrivateKey); ok {
		algorithm = jose.ES256
	}
	nonce := make([]byte, 16)
	rand.Read(nonce) // never fails
	options := (&jose.SignerOptions{}).WithType("JWT").WithHeader("nonce", hex.EncodeToString(nonce))
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: jose.JSONWebKey{Key: c.key, KeyID: c.keyID}}, options)
	if err != nil {
		return err
	}
	now := c.now().Unix()
	token, err := signer.Sign(offer.JSON(map[string]any{
		"sub": c.keyID, "iss": "cdp", "aud": []string{"cdp_service"},
		"nbf": now, "iat": now, "exp": now + int64(jwtLifetime/time.Second),
		"uris": []string{r.Method + " " + r.URL.Host + r.URL.Path},
	}))
	if err != nil {
		return err
	}
	compact, err := token.CompactSerialize()
	r.Header.Set("Authorization", "Bearer "+compact)
	return err
}
