package command

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/report"
)

func TestCommandReceivedSpeaksOfTheGoalAsFarAsItIsKnown(t *testing.T) {
	for members, want := range map[string]string{
		`"goalMet":null,"status":"partial","remainingUsdDecimal":"2.00","externalUsdDecimal":"40.00","receivedUsdDecimal":"40.00","payments":1`: "one: at least 40.00 USD received in 1 payment, 40.00 of it from others; at most 2.00 are missing to the goal of 42.00; partial\n",
		`"goalMet":true,"status":"observed","externalUsdDecimal":"42.00","receivedUsdDecimal":"42.00","payments":1`:                             "one: 42.00 USD received in 1 payment, 42.00 of it from others; the goal of 42.00 is reached; observed\n",
		`"goalMet":true,"status":"observed","externalUsdDecimal":"210.00","receivedUsdDecimal":"252.00","payments":6`:                           "one: 252.00 USD received in 6 payments, 210.00 of it from others; the goal of 42.00 is reached; observed\n",
	} {
		api := newAdminAPI(t)
		api.answers = []string{`{"offers":[{"id":"one","report":{"goalUsdDecimal":"42.00",` + members + `}}]}`}
		out, err := api.run(receivedCommand())
		require.NoError(t, err)
		require.Contains(t, out, want)
	}
}

func TestCommandReceivedMarksWhatIsOfUnknownValue(t *testing.T) {
	dollars := report.NewDollars(new(int64(4200)))
	for want, money := range map[string]*report.Money{
		"-":           {AmountAtomic: "0"},
		"42.00 (1)":   {Count: 1, AmountAtomic: "4200", Dollars: dollars},
		"42.00+? (3)": {Count: 3, AmountAtomic: "4200", Dollars: dollars, UnknownUSD: 2},
		"? (1)":       {Count: 1, AmountAtomic: "0", UnknownUSD: 1}, // only in another currency
	} {
		require.Equal(t, want, sum(&report.Tally{Money: *money}))
	}
	require.Equal(t, "unknown", sum(nil))
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
