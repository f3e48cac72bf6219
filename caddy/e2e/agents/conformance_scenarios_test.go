package agents

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

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

func TestMCPConformanceOfTheBuiltBinary(t *testing.T) {
	requirePassed(t, released.run(t, startBinary(t)), general)
}

func TestMCPConformanceOfTheBuiltBinaryToTheNewestRevision(t *testing.T) {
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
