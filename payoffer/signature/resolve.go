package signature

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe/source"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// Resolver finds the keys that domains publish. It requests each document once and
// follows no redirect, because a redirect can lead to another domain's document.
type Resolver struct {
	client    source.Client
	documents map[string][]byte // by origin
}

// NewResolver returns a resolver. A nil transport means http.DefaultTransport.
func NewResolver(transport http.RoundTripper) *Resolver {
	return &Resolver{source.Client{Transport: transport, Timeout: 10 * time.Second}, make(map[string][]byte)}
}

// Key returns the key with the given ID, such as "did:web:pay.example.org#key", from the
// DID document of an origin. It rejects IDs of other domains without a request.
func (r *Resolver) Key(ctx context.Context, origin, keyID string) (ed25519.PublicKey, error) {
	did := offer.DIDWeb(origin)
	if fragment, own := strings.CutPrefix(keyID, did+"#"); !own || fragment == "" {
		return nil, fmt.Errorf("its key ID is not a key of %s, which begins with %s#; do not trust it", offer.Host(origin), did)
	}
	if r.documents[origin] == nil {
		text, _, err := r.client.Do(ctx, source.Request{
			URL: origin + offer.PathDID, Header: http.Header{"Accept": {"application/did+json, application/json"}}, Limit: 256 << 10,
		})
		if err != nil {
			return nil, fmt.Errorf("%s could not be read: %w", offer.PathDID, source.ExplainCertificate(err))
		}
		r.documents[origin] = text
	}
	key, err := findKey(r.documents[origin], did, keyID)
	if err != nil {
		return nil, fmt.Errorf("the DID document of %s %w", offer.Host(origin), err)
	}
	return key, nil
}

// didDocument is the part of a DID document that names the keys for statements (DID Core
// 1.0 sections 5.2 and 5.3.2).
type didDocument struct {
	ID        string               `json:"id"`
	Methods   []verificationMethod `json:"verificationMethod"`
	Assertion []any                `json:"assertionMethod"` // IDs; embedded methods are ignored
}

type verificationMethod struct {
	ID         string          `json:"id"`
	Controller string          `json:"controller"`
	JWK        json.RawMessage `json:"publicKeyJwk"`
}

// findKey finds a key by its complete ID. Its error completes a sentence about the document.
func findKey(text []byte, did, keyID string) (ed25519.PublicKey, error) {
	var document didDocument
	if json.Unmarshal(text, &document) != nil {
		return nil, errors.New("is not valid JSON; its owner must publish it again")
	}
	at := slices.IndexFunc(document.Methods, func(m verificationMethod) bool { return m.ID == keyID && m.Controller == did })
	switch {
	case document.ID != did:
		return nil, errors.New("has the id of another domain; its owner must publish one with its own id")
	case at < 0:
		return nil, errors.New("does not list the key, which may have been revoked; ask its owner")
	case !slices.Contains(document.Assertion, any(keyID)):
		return nil, errors.New("lists the key, but not for statements; its owner must add it to assertionMethod")
	}
	var jwk jose.JSONWebKey
	err := json.Unmarshal(document.Methods[at].JWK, &jwk)
	key, isEd25519 := jwk.Key.(ed25519.PublicKey)
	if err != nil || !isEd25519 {
		return nil, errors.New("lists the key in another form than an Ed25519 JWK; its owner must publish it as one")
	}
	return key, nil
}
