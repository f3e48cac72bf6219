package payoffer

import (
	"encoding/csv"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/operator"
)

// The sum of what counts in the CSV is what everyone reads in the report.
func TestCommandReceivedPrintsCSVThatAddsUpToTheReport(t *testing.T) {
	o := newOperated(t, books)
	for _, arguments := range []string{
		"--reference INV-7 --amount 42.50 --sure --date 2026-11-20", "--reference INV-8 --amount 5 --sure --date 2026-11-20",
		"--reference INV-8 --reverse --reason recalled", "--reference INV-9 --amount 10 --sure --date 2026-11-20",
		"--reference INV-9 --reverse --reason fee", "--reference INV-9 --amount 9 --sure --reason fee-kept",
	} {
		must(o.payOffer(append([]string{"record", "--rail", "transfer"}, strings.Fields(arguments)...)...))(t)
	}

	out := must(o.payOffer("received", "--csv", "--from", "2020-01-01"))(t)
	lines, sums, found := strings.Cut(out, "7 lines, ")
	require.True(t, found)
	rows := must(csv.NewReader(strings.NewReader(lines)).ReadAll())(t)
	var got []string
	var cents int64
	for _, row := range rows[1:] {
		got = append(got, strings.Join([]string{row[3], row[4], row[8], row[16]}, " "))
		if row[16] == "yes" {
			usd, cut, ok := offer.ParseDecimal(strings.TrimPrefix(row[10], "-"), 2)
			require.True(t, ok && !cut)
			if strings.HasPrefix(row[10], "-") {
				usd = -usd
			}
			cents += usd
		}
	}
	require.Equal(t, []string{
		"payment transfer 42.50 yes", "payment transfer 5 yes", "reversal transfer -5 yes",
		"payment transfer 10 yes", "reversal transfer -10 yes", "correction transfer -1 yes", "reversal_undone transfer 10 yes",
	}, got)
	require.Contains(t, sums, "51.50 USD counted\nall movements, of whatever day, add up to the ledger's sums: 51.50 USD received, 51.50 of it from others")
	var report struct{ ReceivedUSDDecimal string }
	require.NoError(t, json.Unmarshal([]byte(o.get(o.service+offer.PathReceived).body), &report))
	require.Equal(t, report.ReceivedUSDDecimal, offer.USD(cents).Decimal())

	answer := o.ask(http.MethodGet, operator.PathMovements, "")
	require.Equal(t, "application/x-ndjson", answer.header.Get("Content-Type"))
	require.Equal(t, http.StatusNotFound, o.ask(http.MethodGet, operator.PathMovements+"?offer=x", "").status)
}
