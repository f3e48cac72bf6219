package announce

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

const (
	secretPrefix = "whsec_"
	// secretLeast and secretMost bound a secret, in bytes (Standard Webhooks,
	// signature scheme).
	secretLeast, secretMost = 24, 64
)

// parseSecret returns the key that signs, nil for an empty secret. Errors do
// not repeat the secret.
func parseSecret(secret string) ([]byte, error) {
	if secret == "" {
		return nil, nil
	}
	encoded, standard := strings.CutPrefix(secret, secretPrefix)
	if !standard {
		if n := utf8.RuneCountInString(secret); n < secretLeast {
			return nil, fmt.Errorf("the secret has %d characters and needs at least %d; make one with: echo whsec_$(openssl rand -base64 32)", n, secretLeast)
		}
		return []byte(secret), nil
	}
	key, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return nil, errors.New("what follows whsec_ in the secret is not padded standard base64; make one with: echo whsec_$(openssl rand -base64 32)")
	}
	if len(key) < secretLeast || len(key) > secretMost {
		return nil, fmt.Errorf("the secret after whsec_ is the base64 of %d bytes and must be that of %d to %d; make one with: echo whsec_$(openssl rand -base64 32)", len(key), secretLeast, secretMost)
	}
	return key, nil
}

// sign returns the value of the header webhook-signature; at is in Unix
// seconds.
func sign(key []byte, id string, at int64, body []byte) string {
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%d.", id, at)
	mac.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}
