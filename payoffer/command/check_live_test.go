package command

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/diagnose"
	"github.com/payoffer/caddy-pay-offer/payoffer/operator"
)

func TestFlagsOfALiveCheckBelongToIt(t *testing.T) {
	for _, flag := range [][]string{{"--json"}, {"--address", "localhost:1"}} {
		_, err := execute(t, checkCommand(), append(flag, "--config", configuration(t, `{}`))...)
		require.EqualError(t, err, "--json and --address need --live; write for example 'caddy pay-offer check --live --json'")
	}
}

func TestTheProblemsOfALiveCheckAreJSONForMonitoring(t *testing.T) {
	api := newAdminAPI(t, map[string]any{"offers": []operator.Diagnostics{}})
	out, err := api.run(checkCommand(), "--live", "--json", "--config", configuration(t, `{"None":true}`))
	require.ErrorContains(t, err, "has no pay_offer directive")
	require.Regexp(t, `^Error: \S+ has no pay_offer directive; .*\n$`, out, "nothing that could be read as a report")
	require.Empty(t, api.asked)

	out, err = api.run(checkCommand(), "--live", "--json", "--config", configuration(t, `{}`))
	require.ErrorContains(t, err, "problems found")
	var report diagnose.Report
	require.NoError(t, json.Unmarshal([]byte(out), &report), out)
	require.Equal(t, "one", report.Offers[0].ID)
	require.Equal(t, diagnose.SettingsDiffer.Name, report.Issues[0].Code)
	require.Equal(t, "GET /pay_offer/diagnostics", api.asked[0])
}

func TestProblemsArePrintedForPeople(t *testing.T) {
	api := newAdminAPI(t, map[string]any{"offers": []operator.Diagnostics{}})
	out, err := api.run(checkCommand(), "--live", "--config", configuration(t, `{}`))
	require.ErrorContains(t, err, "problems found")
	require.Regexp(t, `(?m)^settings-differ \(one\): the running server has no offer one\n  fix: Load the configuration with 'caddy reload'`, out)
}
