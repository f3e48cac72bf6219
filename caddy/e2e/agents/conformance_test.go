package agents

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/node"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// suite is a version of the MCP conformance suite as it is called.
type suite struct {
	folder    string // in node_modules
	arguments []string
}

var (
	released = suite{"@modelcontextprotocol/conformance", []string{"--suite", "all"}}
	// newest is the pre-release that knows the revision without sessions.
	newest = suite{"conformance-next", []string{"--suite", "all", "--spec-version", "2026-07-28"}}
)

// check is one check of a scenario.
type check struct{ ID, Status, ErrorMessage string }

// stamped is the name of a scenario's folder of results.
var stamped = regexp.MustCompile(`^server-(.+)-\d{4}-\d\d-\d\dT[-\d]+Z$`)

// run runs all scenarios against an endpoint and returns their checks by name.
func (s suite) run(t *testing.T, url string) map[string][]check {
	t.Helper()
	results := t.TempDir()
	program := lab.Path(t, filepath.Join("caddy/e2e/node/node_modules", s.folder, "dist/index.js"))
	arguments := append([]string{program, "server", "--url", url, "--output-dir", results}, s.arguments...)
	// Its exit status tells nothing, for scenarios that cannot apply fail.
	output, _ := exec.CommandContext(t.Context(), node.Newer(t), arguments...).CombinedOutput()
	folders := lab.Must(os.ReadDir(results))(t)
	require.NotEmpty(t, folders, "%s", output)
	scenarios := make(map[string][]check)
	for _, folder := range folders {
		name := stamped.FindStringSubmatch(folder.Name())
		require.NotNil(t, name, folder.Name())
		text := lab.Must(os.ReadFile(filepath.Join(results, folder.Name(), "checks.json")))(t)
		var checks []check
		require.NoError(t, json.Unmarshal(text, &checks))
		scenarios[name[1]] = checks
	}
	return scenarios
}

// reachableCaddyfile is an offer on every host name of a port, so that the endpoint itself meets a name that is not its
// own: Caddy gives an empty answer for sites that it does not have.
const reachableCaddyfile = `{
	admin off
	persist_config off
	default_bind 127.0.0.1
	pay_offer {
		ledger sqlite {DIR}/ledger.db
	}
}
http://:{PORT} {
	pay_offer {
		base_url http://localhost:{PORT}
		card https://checkout.example/pay
		usdc base-sepolia 0x857b06519E91e3A54538791bDbb0E22373e36b66 {
			facilitator http://127.0.0.1:1
			rpc off
		}
	}
}
`

func startBinary(t *testing.T) string {
	t.Helper()
	lab.RequireNode(t)
	port := payoffertest.FreePort(t)
	base := "http://localhost:" + port
	server.Start(t, base, strings.NewReplacer("{DIR}", t.TempDir(), "{PORT}", port).Replace(reachableCaddyfile))
	return base + "/mcp"
}

// Scenarios of the suites that any server can pass. The others call tools, resources and prompts of the suite by name, or are
// about sessions, streams, requests to the client and values to complete, which the offer does not have.
var (
	general = []string{
		"server-initialize", "logging-set-level", "ping", "tools-list", "resources-list", "prompts-list", "dns-rebinding-protection",
	}
	generalNewest = []string{
		"server-stateless", "http-header-validation", "caching", "dns-rebinding-protection", "sep-2164-resource-not-found",
		"tools-list", "resources-list", "prompts-list", "server-sse-multiple-streams", "input-required-result-unsupported-methods",
		"input-required-result-validate-input", "input-required-result-ignore-extra-params", "input-required-result-missing-input-response",
	}
)

func TestMCPConformance(t *testing.T) {
	requirePassed(t, released.run(t, startBinary(t)), general)
}

func TestMCPConformanceNewestRevision(t *testing.T) {
	requirePassed(t, newest.run(t, startBinary(t)), generalNewest)
}

// undiagnosed begins the message of a check that needs a tool of its own.
const undiagnosed = "Not testable: server does not list the diagnostic tool"

func requirePassed(t *testing.T, scenarios map[string][]check, names []string) {
	t.Helper()
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			passed := slices.ContainsFunc(scenarios[name], func(c check) bool { return c.Status == "SUCCESS" })
			require.True(t, passed, "nothing was checked")
			for _, check := range scenarios[name] {
				if !strings.HasPrefix(check.ErrorMessage, undiagnosed) {
					require.NotEqual(t, "FAILURE", check.Status, "%s: %s", check.ID, check.ErrorMessage)
				}
			}
		})
	}
}
