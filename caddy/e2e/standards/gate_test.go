package standards

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/web"
)

// describeGates serves the description of an offer with a gate on its host, one on another host, and one there whose
// path is taken. It returns the shop and the file of the description.
func describeGates(t *testing.T) (s *shop, file string) {
	t.Helper()
	certificate, authority := lab.NewCertificate(t, "localhost")
	var document []byte
	host := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != offer.PathOpenAPI {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(document)
	}))
	host.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	_, port, err := net.SplitHostPort(host.Listener.Addr().String())
	require.NoError(t, err)
	s = &shop{base: "https://localhost:" + port, authority: filepath.Join(t.TempDir(), "authority.pem")}
	require.NoError(t, os.WriteFile(s.authority, authority, 0o600))

	checkout, err := offer.NewCard(card, nil, 42_00)
	require.NoError(t, err)
	network, err := offer.LookupNetwork("base-sepolia")
	require.NoError(t, err)
	usdc, err := offer.NewUSDC("usdc", network, payTo, 42_00)
	require.NoError(t, err)
	o, err := offer.New(offer.Terms{
		ID: "pay", BaseURL: s.base, SiteURL: s.base, Name: name, Operator: operator, Description: description, Contact: contact,
		SourceURL: source, Account: "pay", Amount: 42_00, MPP: "Authorization",
	}, checkout, usdc)
	require.NoError(t, err)
	other := otherHost(s)
	for _, start := range []string{s.base + "/members/", other + "/api/report?day=1", other + "/members/"} {
		o.Gates = append(o.Gates, offer.Gate{Start: start, Access: 30 * 24 * time.Hour})
	}
	document = web.OpenAPI(o).Body
	host.StartTLS()
	t.Cleanup(host.Close)
	file = filepath.Join(t.TempDir(), "openapi.json")
	require.NoError(t, os.WriteFile(file, document, 0o600))
	return s, file
}

// otherHost is the origin of a site behind a gate.
func otherHost(s *shop) string { return strings.Replace(s.base, "//", "//shop.", 1) }

// The directory lists a gate on the offer's own host where it is. It ignores the servers of a path, so that it lists
// a gate of another host at its path of the offer's host.
func TestADirectoryListsTheGates(t *testing.T) {
	s, file := describeGates(t)
	var report struct {
		OK        bool
		Resources []map[string]any
		Warnings  []struct{ Code string }
	}
	_ = validate(t, &report, s.trust(), bin("discovery"), s.base, "--json")
	require.True(t, report.OK)
	paid := map[any][]any{}
	for _, r := range report.Resources {
		if r["authHint"] == "paid" {
			paid[r["resourceKey"]] = []any{r["priceHint"], r["protocols"]}
		}
	}
	terms := []any{"42.00 USD", []any{"x402", "mpp"}}
	require.Equal(t, map[any][]any{
		s.base + " POST /v1/sponsor": terms, s.base + " GET /members": terms, s.base + " GET /api/report": terms,
	}, paid)

	var verdict struct{ Valid, Broken bool }
	require.NoError(t, validate(t, &verdict, nil, "validate-openapi.mjs", file))
	require.True(t, verdict.Valid)
	var mpp struct {
		Valid  bool
		Issues []any
	}
	require.NoError(t, validate(t, &mpp, append(s.trust(), "NO_UPDATE_NOTIFIER=1"),
		bin("mppx"), "discover", "validate", s.base+offer.PathOpenAPI, "--format", "json"))
	require.True(t, mpp.Valid)
	require.Empty(t, mpp.Issues)

	api, err := openapi3.NewLoader().LoadFromFile(file)
	require.NoError(t, err)
	require.NoError(t, api.Validate(t.Context()))
	require.Equal(t, otherHost(s), api.Paths.Value("/api/report").Servers[0].URL)
	require.Empty(t, api.Paths.Value("/members/").Servers)
}
