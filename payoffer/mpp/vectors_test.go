package mpp

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/signature"
)

// readJSON reads a file of the suite.
func readJSON[T any](t *testing.T, name string) (v T) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "mpp-tools", name))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &v))
	return v
}

// parameters are those of a challenge in the vectors.
type parameters struct {
	SecretKey                                                  string
	ID, Realm, Method, Intent, Expires, Digest, Header, Opaque string
	Description                                                string
	Request                                                    json.RawMessage
}

func (p parameters) challenge(t *testing.T) challenge {
	t.Helper()
	c := challenge{
		ID: p.ID, Realm: p.Realm, Method: p.Method, Intent: p.Intent, Expires: p.Expires, Digest: p.Digest, Header: p.Header,
		Opaque: p.Opaque, Description: p.Description,
	}
	if json.Unmarshal(p.Request, &c.Request) != nil {
		canonical, err := signature.Canonical(p.Request)
		require.NoError(t, err)
		c.Request = base64.RawURLEncoding.EncodeToString(canonical)
	}
	return c
}

// readCredential reads a credential of any method, as the vectors have them.
func readCredential(line string) error {
	i := &Issuer{field: fieldAuthorization, now: time.Now}
	c, err := i.FromHeader(http.Header{fieldAuthorization: {line}})
	if c == nil && err == nil {
		return http.ErrNotSupported // another scheme
	}
	if problem, ok := err.(*Problem); ok && problem.Type == problemType+methodUnsupported {
		return nil // it was read
	}
	return err
}

// Of the suite that servers and clients share, a server has the ids, the writing of
// challenges, the reading of credentials, and base64url.
func TestMPPTestVectors(t *testing.T) {
	type verdicts struct {
		Parse, Format json.RawMessage
	}
	refused := func(verdict json.RawMessage) bool { return verdict != nil && string(verdict) != "true" }
	for _, c := range readJSON[[]struct {
		Name, Expected string
		Input          parameters
	}](t, "challenge-id.json") {
		if c.Expected != "" { // the one without has a secret that no operator can choose here
			require.Equal(t, c.Expected, newBinder([]byte(c.Input.SecretKey)).id(new(c.Input.challenge(t))), c.Name)
		}
	}
	formatted := 0
	for _, c := range readJSON[[]struct {
		Name   string
		Object parameters
		Wire   json.RawMessage
		Tests  verdicts
	}](t, "www-authenticate.json") {
		if string(c.Tests.Format) != "true" {
			continue
		}
		var wire string
		require.NoError(t, json.Unmarshal(c.Wire, &wire))
		// The two suites have the parameters in different orders.
		require.ElementsMatch(t, strings.Split(strings.TrimPrefix(wire, "Payment "), ", "),
			strings.Split(strings.TrimPrefix(new(c.Object.challenge(t)).String(), "Payment "), ", "), c.Name)
		formatted++
	}
	require.NotZero(t, formatted)
	for _, c := range readJSON[[]struct {
		Name, Wire string
		Tests      verdicts
	}](t, "authorization.json") {
		require.Equal(t, refused(c.Tests.Parse), readCredential(c.Wire) != nil, c.Name)
	}
	for _, c := range readJSON[[]struct {
		Name, Decoded, Encoded string
		Tests                  verdicts
	}](t, "base64url.json") {
		decoded, err := decode(c.Encoded)
		if refused(c.Tests.Parse) {
			require.True(t, err != nil || readCredential("Payment "+c.Encoded) != nil, c.Name)
			continue
		}
		require.NoError(t, err, c.Name)
		require.Equal(t, c.Decoded, string(decoded), c.Name)
		require.Equal(t, c.Encoded, base64.RawURLEncoding.EncodeToString(decoded), c.Name)
	}
}
