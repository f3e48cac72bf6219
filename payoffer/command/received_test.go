package command

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCommandReceivedSpeaksOfTheGoalAsFarAsItIsKnown(t *testing.T) {
	for report, want := range map[string]string{
		`"goalMet":null,"status":"partial","remainingUsdDecimal":"2.00","externalUsdDecimal":"40.00","receivedUsdDecimal":"40.00","payments":1`: "one: at least 40.00 USD received in 1 payment, 40.00 of it from others; at most 2.00 are missing to the goal of 42.00; partial\n",
		`"goalMet":true,"status":"observed","externalUsdDecimal":"42.00","receivedUsdDecimal":"42.00","payments":1`:                             "one: 42.00 USD received in 1 payment, 42.00 of it from others; the goal of 42.00 is reached; observed\n",
		`"goalMet":true,"status":"observed","externalUsdDecimal":"210.00","receivedUsdDecimal":"252.00","payments":6`:                           "one: 252.00 USD received in 6 payments, 210.00 of it from others; the goal of 42.00 is reached; observed\n",
	} {
		api := newAdminAPI(t)
		api.answers = []string{`{"offers":[{"id":"one","report":{"goalUsdDecimal":"42.00",` + report + `}}]}`}
		out, err := api.run(receivedCommand())
		require.NoError(t, err)
		require.Contains(t, out, want)
	}
}

func TestCommandReceivedMarksWhatIsOfUnknownValue(t *testing.T) {
	dollars := "42.00"
	for want, sum := range map[string]*printedSum{
		"unknown":     nil,
		"-":           {Atomic: "0"},
		"42.00 (1)":   {Count: 1, Atomic: "4200", USD: &dollars},
		"42.00+? (3)": {Count: 3, Atomic: "4200", USD: &dollars, Unknown: 2},
		"? (1)":       {Count: 1, Atomic: "0", Unknown: 1}, // in another currency alone
	} {
		require.Equal(t, want, sum.String())
	}
}

func TestCommandReceivedSaysWhoSettlesAndWhetherTheyListTheOffer(t *testing.T) {
	api := newAdminAPI(t)
	api.answers = []string{`{"offers":[{"id":"one","report":{},"facilitators":[
		{"host":"one.example","network":"eip155:8453","bazaar_status":"rejected","bazaar_reason":"no\u001b[31m schema"},
		{"host":"two.example","network":"eip155:8453","reason":"timeout"}]}]}`}
	out, err := api.run(receivedCommand())
	require.NoError(t, err)
	var lines []string
	for line := range strings.Lines(out[strings.Index(out, "FACILITATOR"):]) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	require.Equal(t, []string{
		"FACILITATOR NETWORK STATE BAZAAR REASON", "one.example eip155:8453 up rejected " + printable("no\u001b[31m schema"), "two.example eip155:8453 timeout - -",
	}, lines)
	require.NotContains(t, out, "\u001b")

	api.answers = []string{`{"offers":[{"id":"one","report":{}}]}`}
	out, err = api.run(receivedCommand())
	require.NoError(t, err)
	require.NotContains(t, out, "FACILITATOR", "a card alone is settled by nobody")
}
