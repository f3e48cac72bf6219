package mpp

import (
	"encoding/base64"
	"encoding/hex"
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

// readJSON reads vectors.
func readJSON[T any](t *testing.T, path ...string) (v T) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(path...))
	if os.IsNotExist(err) && path[0] != "testdata" {
		const missing = "the published vectors are not beside the repository, in ../shared/data"
		if os.Getenv("PAY_OFFER_NO_SKIP") != "" {
			t.Fatal(missing)
		}
		t.Skip(missing)
	}
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &v))
	return v
}

// parameters are those of a challenge in the vectors; the request is base64url in
// one suite and JSON in the other.
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

func TestTheVectorsOfAperture(t *testing.T) {
	v := readJSON[struct {
		HMACSecretHex    string
		Canonicalization []struct {
			Name, Input, Canonical string
			Error                  bool
		}
		Base64URL []struct {
			Name, Encoded, DecodedHex string
			Error                     bool
		}
		ChallengeHeaders []struct {
			Name, Header string
			Params       parameters
		}
		ChallengeIDs []struct {
			Name   string
			Params parameters
		}
		Credentials []struct {
			Name, Header string
			Error        bool
		}
		Receipts []struct{ Name, ReceiptJSON, Header string }
	}](t, "..", "..", "..", "shared", "data", "mpp", "aperture-vectors.json")
	secret, err := hex.DecodeString(v.HMACSecretHex)
	require.NoError(t, err)
	for _, c := range v.Canonicalization {
		canonical, err := signature.Canonical([]byte(c.Input))
		if require.Equal(t, c.Error, err != nil, c.Name); err == nil {
			require.Equal(t, c.Canonical, string(canonical), c.Name)
		}
	}
	for _, c := range v.Base64URL {
		decoded, err := decode(c.Encoded)
		require.Equal(t, c.Error, err != nil, c.Name)
		require.Equal(t, c.DecodedHex, hex.EncodeToString(decoded)[:len(c.DecodedHex)], c.Name)
	}
	for _, c := range v.ChallengeHeaders {
		require.Equal(t, c.Header, new(c.Params.challenge(t)).String(), c.Name)
	}
	for _, c := range v.ChallengeIDs {
		require.Equal(t, c.Params.ID, newBinder(secret).id(new(c.Params.challenge(t))), c.Name)
	}
	for _, c := range v.Credentials {
		require.Equal(t, c.Error, readCredential(c.Header) != nil, c.Name)
	}
	for _, c := range v.Receipts {
		var r Receipt
		if require.NoError(t, json.Unmarshal([]byte(c.ReceiptJSON), &r)); r.ChallengeID == "" {
			continue // of a session, which is not spoken here
		}
		text, err := base64.RawURLEncoding.DecodeString(r.Header())
		require.NoError(t, err)
		var ours, theirs map[string]any
		require.NoError(t, json.Unmarshal(text, &ours))
		require.NoError(t, json.Unmarshal([]byte(c.ReceiptJSON), &theirs))
		delete(ours, "chainId")
		require.Equal(t, theirs, ours, c.Name)
	}
}

// Of the suite that servers and clients share, a server has the ids, the writing of
// challenges, the reading of credentials, and base64url.
func TestTheVectorsOfMPPTools(t *testing.T) {
	type verdicts struct {
		Parse, Format json.RawMessage
	}
	refused := func(verdict json.RawMessage) bool { return verdict != nil && string(verdict) != "true" }
	for _, c := range readJSON[[]struct {
		Name, Expected string
		Input          parameters
	}](t, "testdata", "mpp-tools", "challenge-id.json") {
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
	}](t, "testdata", "mpp-tools", "www-authenticate.json") {
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
	}](t, "testdata", "mpp-tools", "authorization.json") {
		require.Equal(t, refused(c.Tests.Parse), readCredential(c.Wire) != nil, c.Name)
	}
	for _, c := range readJSON[[]struct {
		Name, Decoded, Encoded string
		Tests                  verdicts
	}](t, "testdata", "mpp-tools", "base64url.json") {
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
