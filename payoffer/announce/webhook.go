package announce

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe/source"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

const (
	secretPrefix = "whsec_"
	// secretLeast and secretMost bound a secret, in bytes (Standard Webhooks, signature scheme).
	secretLeast, secretMost = 24, 64
)

// Webhook is an endpoint that gets a POST request for each event.
type Webhook struct {
	URL string // absolute; it may contain a key
	// Secrets each sign every request: two while the endpoint changes its secret. A secret is "whsec_" and the base64
	// of 24 to 64 random bytes, or another text of at least 24 characters, used unchanged. Without one that is not
	// empty, requests are not signed.
	Secrets []string
}

func (we Webhook) receiver(c *Config) (receiver, error) {
	u, err := offer.ParseURL(we.URL)
	if err != nil {
		return receiver{}, err
	}
	w := &webhook{url: we.URL, client: c.client(), now: c.Now}
	for _, secret := range we.Secrets {
		key, err := parseSecret(secret)
		if err != nil {
			return receiver{}, fmt.Errorf("host %q: %w", u.Host, err)
		}
		if key != nil {
			w.keys = append(w.keys, key)
		}
	}
	return receiver{"webhook", we.URL, u.Host, w.deliver}, nil
}

// webhook sends events to one address.
type webhook struct {
	url    string
	keys   [][]byte // each one signs
	client source.Client
	now    func() time.Time
}

// deliver sends an event once. Only the status of the response matters.
func (w *webhook) deliver(ctx context.Context, e event) failure {
	body, err := e.body()
	if err != nil {
		return failure{code: codeRefused}
	}
	return post(ctx, w.client, source.Request{URL: w.url, Header: w.header(e.id, body), Body: body})
}

// header is the header of Standard Webhooks. Each attempt is signed again, because endpoints may refuse old requests.
func (w *webhook) header(id string, body []byte) http.Header {
	at := w.now().Unix()
	h := http.Header{
		"User-Agent": {"caddy-pay-offer"}, "Webhook-Id": {id}, "Webhook-Timestamp": {strconv.FormatInt(at, 10)},
	}
	var signatures []string
	for _, key := range w.keys {
		signatures = append(signatures, sign(key, id, at, body))
	}
	if len(signatures) > 0 {
		h.Set("Webhook-Signature", strings.Join(signatures, " "))
	}
	return h
}

// parseSecret returns the signing key, nil for an empty secret. Errors do not repeat the secret.
func parseSecret(secret string) ([]byte, error) {
	if secret == "" {
		return nil, nil
	}
	encoded, standard := strings.CutPrefix(secret, secretPrefix)
	if !standard {
		if n := utf8.RuneCountInString(secret); n < secretLeast {
			return nil, fmt.Errorf("the secret has %d characters but needs at least %d; make one with: echo whsec_$(openssl rand -base64 32)", n, secretLeast)
		}
		return []byte(secret), nil
	}
	key, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return nil, errors.New("the secret after whsec_ is not padded standard base64; make one with: echo whsec_$(openssl rand -base64 32)")
	}
	if len(key) < secretLeast || len(key) > secretMost {
		return nil, fmt.Errorf("the secret after whsec_ has %d bytes but needs %d to %d; make one with: echo whsec_$(openssl rand -base64 32)", len(key), secretLeast, secretMost)
	}
	return key, nil
}

// sign returns the signature of one key for the header webhook-signature; at is in Unix seconds.
func sign(key []byte, id string, at int64, body []byte) string {
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%d.", id, at)
	mac.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}
