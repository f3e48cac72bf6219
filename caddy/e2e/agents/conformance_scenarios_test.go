package agents

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Why scenarios do not apply.
const (
	fixture   = "it calls tools, resources or prompts of the suite by name"
	asking    = "it is about a server that asks its client: here none does, for no session is kept in which to answer"
	plain     = "answers are plain JSON, which has no place for a notification before the result"
	unneeded  = "no argument of the offer takes values that could be completed"
	unchanged = "the offer announces no changes of its resources, so none can be subscribed to"
	streams   = "it is about streams of sessions, which are not offered"
	mirrored  = "no argument of the tool is mirrored in a header"
)

// Scenarios that any server can pass, in the released suite and for the newest revision.
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

// fixtures are scenarios that call tools, resources and prompts by name.
var fixtures = []string{
	"tools-call-simple-text", "tools-call-image", "tools-call-audio", "tools-call-embedded-resource", "tools-call-mixed-content",
	"tools-call-error", "json-schema-2020-12", "resources-read-text", "resources-read-binary", "resources-templates-read",
	"prompts-get-simple", "prompts-get-with-args", "prompts-get-embedded-resource", "prompts-get-with-image",
}

// custom is a scenario about arguments that are mirrored in a header.
const custom = "http-custom-header-server-validation"

func TestMCPConformanceOfTheBuiltBinary(t *testing.T) {
	scenarios := released.run(t, startBinary(t))
	expect(general...).but(fixture, fixtures...).butAlways().require(t, scenarios)
}

func TestMCPConformanceOfTheBuiltBinaryToTheNewestRevision(t *testing.T) {
	scenarios := newest.run(t, startBinary(t))
	expect(generalNewest...).but(fixture, fixtures...).but(mirrored, custom).butForNewest().require(t, scenarios)
}

// expectations says for each scenario why it does not apply; it must pass where there is no reason.
type expectations map[string]string

// expect are scenarios that pass.
func expect(names ...string) expectations {
	return make(expectations).but("", names...)
}

// but adds scenarios that do not apply.
func (e expectations) but(reason string, names ...string) expectations {
	for _, name := range names {
		e[name] = reason
	}
	return e
}

// butAlways adds what applies to no server of ours in the released suite.
func (e expectations) butAlways() expectations {
	return e.
		but(asking, "tools-call-sampling", "tools-call-elicitation", "elicitation-sep1034-defaults", "elicitation-sep1330-enums").
		but(plain, "tools-call-with-logging", "tools-call-with-progress").
		but(unneeded, "completion-complete").
		but(unchanged, "resources-subscribe", "resources-unsubscribe").
		but(streams, "server-sse-polling", "server-sse-multiple-streams")
}

// butForNewest is the same for the newest revision.
func (e expectations) butForNewest() expectations {
	return e.
		but(asking, "input-required-result-basic-elicitation", "input-required-result-basic-sampling", "input-required-result-basic-list-roots",
			"input-required-result-request-state", "input-required-result-multiple-input-requests", "input-required-result-multi-round",
			"input-required-result-non-tool-request", "input-required-result-result-type", "input-required-result-tampered-state",
			"input-required-result-capability-check").
		but(plain, "tools-call-with-progress").
		but(unneeded, "completion-complete")
}

// undiagnosed begins the message of a check that needs a tool of its own, which the offer does not have.
const undiagnosed = "Not testable: server does not list the diagnostic tool"

// require checks that every scenario was looked at, passes or has a reason, and that no reason is out of date.
func (e expectations) require(t *testing.T, scenarios map[string][]check) {
	t.Helper()
	for name, checks := range scenarios {
		t.Run(name, func(t *testing.T) {
			reason, known := e[name]
			require.True(t, known, "a scenario that nobody has looked at")
			var passed int
			var failed []string
			for _, check := range checks {
				switch {
				case check.Status == "SUCCESS":
					passed++
				case strings.HasPrefix(check.ErrorMessage, undiagnosed):
					t.Log(check.ErrorMessage)
				case check.Status == "FAILURE":
					failed = append(failed, check.ID+": "+check.ErrorMessage)
				}
			}
			if reason != "" {
				require.True(t, len(failed) > 0 || passed == 0, "it passes; the reason is out of date: %s", reason)
				t.Log("does not apply: " + reason)
				return
			}
			require.Empty(t, failed)
			require.Positive(t, passed, "nothing was checked")
		})
	}
	for name := range e {
		require.Contains(t, scenarios, name)
	}
}
