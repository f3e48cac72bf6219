package standards

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/node"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/skip"
)

func TestOpenAPIMatchesSchema(t *testing.T) {
	s := openValidated(t, moreRails)
	var verdict struct {
		Valid   bool
		Version string
		Broken  bool
	}
	require.NoError(t, validate(t, &verdict, nil, "validate-openapi.mjs", s.save(t, "/openapi.json", "openapi.json")))
	require.True(t, verdict.Valid)
	require.Equal(t, "3.1", verdict.Version)
	require.False(t, verdict.Broken, "the validator takes a description without a title")
}

// TestGeneratedClientCallsEveryOperation generates a client from the served description, checks its types, and calls
// each of its functions.
func TestGeneratedClientCallsEveryOperation(t *testing.T) {
	s := openValidated(t, moreRails)
	var api struct {
		Paths map[string]map[string]struct {
			OperationID string
			Responses   map[string]any
		}
	}
	require.NoError(t, json.Unmarshal([]byte(s.get(t, "/openapi.json")), &api))

	folder := t.TempDir()
	var calls []struct {
		Method, Path string
		Status       int
		Read         bool
	}
	require.NoError(t, validate(t, &calls, append(s.trust(), "BASE="+s.base), "validate-client.mjs", s.save(t, "/openapi.json", "openapi.json"), folder))
	called := map[string]bool{}
	for _, c := range calls {
		operation := api.Paths[s.template(c.Path)][strings.ToLower(c.Method)]
		require.NotEmpty(t, operation.OperationID, "%s %s is not described", c.Method, c.Path)
		called[operation.OperationID] = true
		require.Contains(t, operation.Responses, statusOf(c.Status, operation.Responses), "%s %s answers %d", c.Method, c.Path, c.Status)
		require.True(t, c.Read, "the client read nothing of %s %s", c.Method, c.Path)
	}
	for path, item := range api.Paths {
		for method, operation := range item {
			require.True(t, called[operation.OperationID], "%s %s was not called", method, path)
		}
	}

	output, err := run(t, nil, node.Newer(t), bin("tsc"), "--noEmit", "--strict", "--skipLibCheck", "--target", "es2022",
		"--module", "nodenext", "--allowImportingTsExtensions", "--lib", "es2022,dom,dom.iterable", folder+"/index.ts")
	require.NoError(t, err, "%s", output)
}

// TestOpenAPIMatchesMPPDiscovery runs the checks of the Payment scheme's own tool over what it calls payment
// discovery, which it fetches.
func TestOpenAPIMatchesMPPDiscovery(t *testing.T) {
	s := openValidated(t, moreRails)
	var report struct {
		Valid  bool
		Issues []any
	}
	require.NoError(t, validate(t, &report, append(s.trust(), "NO_UPDATE_NOTIFIER=1"),
		node.Bundle(t, "mppx.mjs"), "discover", "validate", s.base+"/openapi.json", "--format", "json"))
	require.True(t, report.Valid)
	require.Empty(t, report.Issues)
}

// template is the path under which the description has an address.
func (s *shop) template(path string) string {
	if rest, found := strings.CutPrefix(path, "/v1/receipt/unknown"); found {
		return "/v1/receipt/{id}" + rest
	}
	if strings.HasPrefix(path, "/v1/qr/") {
		return "/v1/qr/{rail}/{image}"
	}
	return path
}

// statusOf is the key under which responses have a status.
func statusOf(status int, responses map[string]any) string {
	exact := strconv.Itoa(status)
	if _, ok := responses[exact]; ok {
		return exact
	}
	return exact[:1] + "XX"
}

// TestQuoteHasDirectoryListing reads the header of the quote, for a directory probes without a payment.
func TestQuoteHasDirectoryListing(t *testing.T) {
	s := openValidated(t, moreRails)
	type verdict struct {
		Valid  bool
		Errors []string
	}
	var report struct {
		Schema, Spec verdict
		Listed       struct {
			ResourceURL, Description, Method, ServiceName, IconURL string
			Tags                                                   []string
		}
		Issues []map[string]any
	}
	require.NoError(t, validate(t, &report, s.trust(), "validate-quote.mjs", s.base+"/v1/sponsor"))
	require.Equal(t, verdict{Valid: true}, report.Schema)
	require.Equal(t, verdict{Valid: true}, report.Spec)
	require.Empty(t, report.Issues)
	require.Equal(t, s.base+"/v1/sponsor", report.Listed.ResourceURL)
	require.Equal(t, "POST", report.Listed.Method)
	require.Equal(t, "42 USD, one payment: "+name, report.Listed.Description)
	require.Equal(t, `Offer "42" &`, report.Listed.ServiceName)
	require.Equal(t, []string{"sponsorship", "open source"}, report.Listed.Tags)
	require.Empty(t, report.Listed.IconURL, "no directory asks this machine")
}

// TestDirectoryListsOffer runs the discovery behind payment directories, which reads the description and probes every
// path, against the smallest shop that a program can pay and one with everything, which has many paths; then its audit of
// what a request without a payment gets.
func TestDirectoryListsOffer(t *testing.T) {
	for _, c := range []struct {
		rails           string
		remarks, asksBy []string
	}{
		{"", []string{"L2_ROUTE_COUNT_HIGH"}, []string{"x402", "mpp"}},
		{moreRails, []string{"L2_ROUTE_COUNT_HIGH"}, []string{"x402", "x402", "mpp", "mpp"}}, // two chains
	} {
		s := openValidated(t, c.rails)
		var report struct {
			OK        bool
			Resources []map[string]any
			Warnings  []struct{ Code string }
		}
		_ = validate(t, &report, s.trust(), bin("discovery"), s.base, "--json")
		require.True(t, report.OK)
		var codes []string
		for _, w := range report.Warnings {
			codes = append(codes, w.Code)
		}
		require.Equal(t, c.remarks, codes)
		var paid []any
		for _, r := range report.Resources {
			if r["authHint"] == "paid" {
				paid = append(paid, r["resourceKey"], r["priceHint"], r["protocols"])
			}
		}
		require.Equal(t, []any{s.base + " POST /v1/sponsor", "42.00 USD", []any{"x402", "mpp"}}, paid)

		var audit struct {
			Methods, Protocols []string
			Warnings           []any
		}
		require.NoError(t, validate(t, &audit, s.trust(), "validate-directory.mjs", s.base+"/v1/sponsor"))
		require.Equal(t, []string{"POST"}, audit.Methods)
		require.Equal(t, c.asksBy, audit.Protocols)
		require.Empty(t, audit.Warnings)
	}
}

// otherHost is the origin of a site behind a gate.
func otherHost(s *shop) string { return strings.Replace(s.base, "//", "//shop.", 1) }

// The directory lists a gate on the offer's own host where it is. It ignores the servers of a path, so that it lists
// a gate of another host at its path of the offer's host. A gate whose path is taken is left out.
func TestDirectoryListsGates(t *testing.T) {
	s := openValidated(t, "", "$BASE/members/", "$OTHER/api/report", "$OTHER/members/")
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
		node.Bundle(t, "mppx.mjs"), "discover", "validate", s.base+offer.PathOpenAPI, "--format", "json"))
	require.True(t, mpp.Valid)
	require.Empty(t, mpp.Issues)

	api := lab.Must(openapi3.NewLoader().LoadFromFile(file))(t)
	require.NoError(t, api.Validate(t.Context()))
	require.Equal(t, otherHost(s), api.Paths.Value("/api/report").Servers[0].URL)
	require.Empty(t, api.Paths.Value("/members/").Servers)
}

func TestDIDResolverFindsRails(t *testing.T) {
	s := openValidated(t, moreRails)
	host := strings.TrimPrefix(s.base, "https://")
	did := "did:web:" + strings.Replace(host, ":", "%3A", 1)
	var resolved struct {
		Metadata struct{ Error, ContentType string }
		Document struct {
			ID      string
			Service []struct{ ID, ServiceEndpoint string }
		}
	}
	require.NoError(t, validate(t, &resolved, s.trust(), "validate-did.mjs", did))
	require.Empty(t, resolved.Metadata.Error)
	require.Equal(t, did, resolved.Document.ID)
	endpoints := map[string]string{}
	for _, service := range resolved.Document.Service {
		endpoints[strings.TrimPrefix(service.ID, did)] = service.ServiceEndpoint
	}
	require.Equal(t, map[string]string{
		"#payment": card, "#rail-card": s.base + "/v1/pay/card.uri", "#rail-usdc": s.base + "/v1/pay/usdc.uri",
		"#rail-usdc-421614": s.base + "/v1/pay/usdc-421614.uri", "#rail-btc": s.base + "/v1/pay/btc.uri",
		"#rail-transfer": s.base + "/v1/pay/transfer.uri", "#rail-tip-jar": s.base + "/v1/pay/tip-jar.uri",
		"#rail-pack": s.base + "/v1/pay/pack.uri",
	}, endpoints)
}

// TestWebFingerClientFindsCheckout asks the shipped server, which speaks plain HTTP as this client does to localhost.
func TestWebFingerClientFindsCheckout(t *testing.T) {
	skip.Full(t, validators)
	host := strings.TrimPrefix(server.StartEdited(t, []string{"card " + card}).Service, "http://")
	for account, found := range map[string]bool{"pay@" + host: true, "nobody@" + host: false} {
		var answer struct {
			Links []struct{ Rel, Href string }
			Error string
		}
		require.NoError(t, validate(t, &answer, nil, "validate-webfinger.mjs", account))
		if !found {
			require.Equal(t, "resource not found", answer.Error)
			continue
		}
		require.Empty(t, answer.Error)
		require.Equal(t, "payment", answer.Links[0].Rel)
		require.Equal(t, card, answer.Links[0].Href)
	}
}

func TestSkillIsValid(t *testing.T) {
	s := openValidated(t, moreRails)
	skill := s.save(t, "/skills/pay/SKILL.md", "pay/SKILL.md")
	require.NoError(t, validate(t, nil, nil, bin("skills-ref"), "validate", filepath.Dir(skill)))

	misplaced := s.save(t, "/skills/pay/SKILL.md", "another-name/SKILL.md")
	require.Error(t, validate(t, nil, nil, bin("skills-ref"), "validate", filepath.Dir(misplaced)), "the validator checks nothing")
}

// TestNPMListsFundingURLs installs the package document in a project and asks npm how to fund it.
func TestNPMListsFundingURLs(t *testing.T) {
	npm := skip.Program(t, "npm", "npm")
	s := openValidated(t, moreRails)
	served := s.get(t, "/package.json")
	var funded struct{ Name string }
	require.NoError(t, json.Unmarshal([]byte(served), &funded))

	project := t.TempDir()
	installed := filepath.Join(project, "node_modules", funded.Name)
	require.NoError(t, os.MkdirAll(installed, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(installed, "package.json"), []byte(served), 0o600))
	root, err := json.Marshal(map[string]any{"name": "project", "dependencies": map[string]string{funded.Name: "*"}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(project, "package.json"), root, 0o600))

	output := lab.Must(run(t, nil, npm, "fund", "--json", "--prefix", project))(t)
	var report struct {
		Dependencies map[string]struct{ Funding []struct{ URL string } }
	}
	require.NoError(t, json.Unmarshal(output, &report), "%s", output)
	var urls []string
	for _, entry := range report.Dependencies[funded.Name].Funding {
		urls = append(urls, entry.URL)
	}
	require.Equal(t, []string{card, tipJar, pack, s.base + "/v1/pay/transfer", s.base + "/v1/pay"}, urls, "%s", output)
}
