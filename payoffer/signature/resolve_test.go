package signature

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// web answers requests in the process.
type web func(*http.Request) (*http.Response, error)

func (w web) RoundTrip(r *http.Request) (*http.Response, error) { return w(r) }

// serving answers every request with a status and a body, and counts them.
func serving(status int, body string, urls *[]string) web {
	return func(r *http.Request) (*http.Response, error) {
		*urls = append(*urls, r.Method+" "+r.URL.String())
		return &http.Response{StatusCode: status, Header: http.Header{"Location": {"https://evil.example/"}}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
	}
}

const (
	testDID   = "did:web:pay.example.org%3A8443"
	testKeyID = testDID + "#" + rfcThumbprint
	testURL   = "https://pay.example.org:8443"
)

// method is a verification method with the key of RFC 8037.
const method = `{"id":"` + testKeyID + `","type":"JsonWebKey2020","controller":"` + testDID + `","publicKeyJwk":{"kty":"OKP","crv":"Ed25519","x":"` + rfcPublic + `"}}`

const document = `{"@context":["https://www.w3.org/ns/did/v1"],"id":"` + testDID + `","verificationMethod":[` + method + `],"assertionMethod":["` + testKeyID + `"]}`

func TestResolverRequestsADocumentOnce(t *testing.T) {
	var asked []string
	r := NewResolver(serving(http.StatusOK, document, &asked))
	for range 2 {
		key, err := r.Key(t.Context(), testURL, testKeyID)
		require.NoError(t, err)
		require.Equal(t, rfcPublic, encode(key))
	}
	require.Equal(t, []string{"GET https://pay.example.org:8443/.well-known/did.json"}, asked)
}

func TestResolverRejectsKeysOfOtherDomainsWithoutARequest(t *testing.T) {
	for _, keyID := range []string{
		"", "did:web:pay.example.org#k", "did:web:evil.example#k", "did:key:z6Mk#z6Mk", testDID, testDID + "#", strings.ToLower(testDID) + "#k",
		testDID + ".evil.example#k", testDID + ":user#k",
	} {
		var asked []string
		_, err := NewResolver(serving(http.StatusOK, document, &asked)).Key(t.Context(), testURL, keyID)
		require.ErrorContains(t, err, "is not a key of pay.example.org:8443", keyID)
		require.Empty(t, asked)
	}
}

func TestResolverRejects(t *testing.T) {
	for name, c := range map[string]struct {
		status     int
		body, want string
	}{
		"no document":         {404, document, "could not be read"},
		"a redirect":          {302, document, "could not be read"},
		"no JSON":             {200, "<html>", "not valid JSON"},
		"another identity":    {200, strings.Replace(document, `"id":"`+testDID, `"id":"did:web:evil.example`, 1), "another domain"},
		"an id in lower case": {200, strings.Replace(document, `"id":"`+testDID, `"id":"`+strings.Replace(testDID, "%3A", "%3a", 1), 1), "another domain"},
		"another key":         {200, strings.Replace(document, testKeyID, testDID+"#other", 1), "does not list the key"},
		"another controller":  {200, strings.Replace(document, `"controller":"`+testDID, `"controller":"did:web:evil.example`, 1), "does not list the key"},
		"no assertion":        {200, strings.Replace(document, "assertionMethod", "keyAgreement", 1), "assertionMethod"},
		"another kind of key": {200, strings.Replace(document, "Ed25519", "X25519", 1), "Ed25519 JWK"},
		"a short key":         {200, strings.Replace(document, rfcPublic, "AAAA", 1), "Ed25519 JWK"},
		"a huge document":     {200, document + strings.Repeat(" ", 256<<10), "could not be read"},
	} {
		var asked []string
		_, err := NewResolver(serving(c.status, c.body, &asked)).Key(t.Context(), testURL, testKeyID)
		require.ErrorContains(t, err, c.want, name)
		require.Len(t, asked, 1, name)
	}
	_, err := NewResolver(web(func(*http.Request) (*http.Response, error) { return nil, fmt.Errorf("no route") })).Key(t.Context(), testURL, testKeyID)
	require.ErrorContains(t, err, "could not be read")
}

func FuzzFindKey(f *testing.F) {
	f.Add([]byte(document))
	f.Add([]byte(`{"id":"` + testDID + `","assertionMethod":[{}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		key, err := findKey(text, testDID, testKeyID)
		if err == nil {
			require.Len(t, key, 32)
		}
	})
}
