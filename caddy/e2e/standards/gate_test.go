package standards

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// otherHost is the origin of a site behind a gate.
func otherHost(s *shop) string { return strings.Replace(s.base, "//", "//shop.", 1) }

// The directory lists a gate on the offer's own host where it is. It ignores the servers of a path, so that it lists
// a gate of another host at its path of the offer's host. A gate whose path is taken is left out.
func TestADirectoryListsTheGates(t *testing.T) {
	s := openShop(t, "", "$BASE/members/", "$OTHER/api/report", "$OTHER/members/")
	file := filepath.Join(t.TempDir(), "openapi.json")
	document := s.ask(t, http.MethodGet, s.base+offer.PathOpenAPI, "")
	require.NoError(t, os.WriteFile(file, []byte(document.Body), 0o600))
	var report struct {
		OK        bool
		Resources []map[string]any
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

	var verdict struct{ Valid bool }
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
