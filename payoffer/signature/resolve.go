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

	"github.com/payoffer/caddy-pay-offer/payoffer/observe/source"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

const (
	// resolveTimeout is how long a domain may take to answer.
	resolveTimeout = 10 * time.Second
	// maxDocument bounds a DID document in bytes.
	maxDocument = 256 << 10
)

// Resolver finds the keys that domains publish. It asks each domain once. It
// follows no redirect: did:web promises none, and one could lead to a document
// of somebody else.
type Resolver struct {
	client    source.Client
	documents map[string][]byte // by origin
}

// NewResolver makes a resolver. A nil transport means http.DefaultTransport.
func NewResolver(transport http.RoundTripper) *Resolver {
	return &Resolver{source.Client{Transport: transport, Timeout: resolveTimeout}, make(map[string][]byte)}
}

// Key finds the key with the given id, as in "did:web:pay.example.org#key", in
// the DID document of an origin. It fails without asking anyone when the id is
// not that of a key of the origin, for nothing else ties the key to it.
func (r *Resolver) Key(ctx context.Context, origin, keyID string) (ed25519.PublicKey, error) {
	did := offer.DIDWeb(origin)
	fragment, own := strings.CutPrefix(keyID, did+"#")
	if !own || fragment == "" {
		return nil, fmt.Errorf("the key that it names is none of %s: its id would begin with %s#", offer.Host(origin), did)
	}
	text, known := r.documents[origin]
	if !known {
		var err error
		if text, err = r.fetch(ctx, origin); err != nil {
			return nil, err
		}
		r.documents[origin] = text
	}
	key, err := findKey(text, did, keyID)
	if err != nil {
		return nil, fmt.Errorf("the DID document of %s %w", offer.Host(origin), err)
	}
	return key, nil
}

func (r *Resolver) fetch(ctx context.Context, origin string) ([]byte, error) {
	text, _, err := r.client.Do(ctx, source.Request{
		URL: origin + offer.PathDID, Header: http.Header{"Accept": {"application/did+json, application/json"}}, Limit: maxDocument,
	})
	host := offer.Host(origin)
	var failed *source.Error
	switch {
	case !errors.As(err, &failed):
		return text, err
	case failed.Status != 0:
		return nil, fmt.Errorf("%s publishes no keys: %s answers with status %d", host, offer.PathDID, failed.Status)
	case errors.As(err, new(*http.MaxBytesError)):
		return nil, fmt.Errorf("the DID document of %s is larger than %d bytes", host, maxDocument)
	default:
		return nil, fmt.Errorf("%s cannot be asked for its keys: %w", host, errors.Unwrap(failed))
	}
}

// didDocument is the part of a DID document that says who may sign (DID Core
// 1.0 sections 5.2 and 5.3.2).
type didDocument struct {
	ID      string `json:"id"`
	Methods []struct {
		ID         string          `json:"id"`
		Controller string          `json:"controller"`
		JWK        json.RawMessage `json:"publicKeyJwk"`
	} `json:"verificationMethod"`
	// Assertion are ids, or whole verification methods, which are not read.
	Assertion []json.RawMessage `json:"assertionMethod"`
}

// findKey finds a key by its whole id. Its error is the end of a sentence about
// the document.
func findKey(text []byte, did, keyID string) (ed25519.PublicKey, error) {
	var document didDocument
	if json.Unmarshal(text, &document) != nil {
		return nil, errors.New("cannot be read")
	}
	if document.ID != did {
		return nil, errors.New("is that of another identity")
	}
	var found []json.RawMessage
	for _, method := range document.Methods {
		if method.ID == keyID && method.Controller == did {
			found = append(found, method.JWK)
		}
	}
	asserts := func(entry json.RawMessage) bool {
		var id string
		return json.Unmarshal(entry, &id) == nil && id == keyID
	}
	switch {
	case len(found) == 0:
		return nil, errors.New("does not list the key: it was withdrawn, or the domain never had it")
	case len(found) > 1:
		return nil, errors.New("lists the key twice")
	case !slices.ContainsFunc(document.Assertion, asserts):
		return nil, errors.New("lists the key, but not for statements (assertionMethod)")
	}
	key, err := parseJWK(found[0])
	if err != nil {
		return nil, errors.New("lists the key in a form that is no Ed25519 key")
	}
	return key, nil
}
