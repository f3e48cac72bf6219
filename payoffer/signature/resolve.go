package signature

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

const (
	// resolveTimeout is how long a domain may take to answer.
	resolveTimeout = 10 * time.Second
	// maxDocument bounds a DID document in bytes.
	maxDocument = 256 << 10
)

// Resolver finds the keys that domains publish. It asks each domain once.
type Resolver struct {
	client    *http.Client
	documents map[string][]byte // by origin
}

// NewResolver makes a resolver. A nil transport means http.DefaultTransport.
func NewResolver(transport http.RoundTripper) *Resolver {
	return &Resolver{documents: make(map[string][]byte), client: &http.Client{
		Transport: transport, Timeout: resolveTimeout,
		// The did:web method promises no redirect, and one could lead to a
		// document of somebody else.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
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
	host := offer.Host(origin)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, origin+offer.PathDID, nil)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be asked", host)
	}
	request.Header.Set("Accept", "application/did+json, application/json")
	response, err := r.client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be asked for its keys: %w", host, err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s publishes no keys: %s answers with status %d", host, offer.PathDID, response.StatusCode)
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, maxDocument+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s did not finish its answer: %w", host, err)
	case len(text) > maxDocument:
		return nil, fmt.Errorf("the DID document of %s is larger than %d bytes", host, maxDocument)
	}
	return text, nil
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
	switch len(found) {
	case 0:
		return nil, errors.New("does not list the key: it was withdrawn, or the domain never had it")
	case 1:
	default:
		return nil, errors.New("lists the key twice")
	}
	if !slices.ContainsFunc(document.Assertion, func(entry json.RawMessage) bool {
		var id string
		return json.Unmarshal(entry, &id) == nil && id == keyID
	}) {
		return nil, errors.New("lists the key, but not for statements (assertionMethod)")
	}
	key, err := parseJWK(found[0])
	if err != nil {
		return nil, errors.New("lists the key in a form that is no Ed25519 key")
	}
	return key, nil
}
