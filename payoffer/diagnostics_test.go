package payoffer

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/operator"
)

// The command compares the settings of its configuration with those of the server.
func TestTheAdminAPIReportsDiagnostics(t *testing.T) {
	o := newOperated(t, books+secondBooks)
	got := o.ask(http.MethodGet, operator.PathDiagnostics, "")
	require.Equal(t, http.StatusOK, got.status, got.body)
	var reply struct{ Offers []operator.Diagnostics }
	require.NoError(t, json.Unmarshal([]byte(got.body), &reply))
	require.Len(t, reply.Offers, 2)
	settings := make(map[string]string)
	for _, d := range reply.Offers {
		require.True(t, d.Ledger.Writable)
		require.NotEmpty(t, d.Keys)
		settings[d.ID] = d.Settings
	}
	require.Contains(t, settings, offer.Host(o.service))
	for _, checked := range activeApp().Checked() {
		require.Equal(t, checked.Key.String(), settings[checked.Offer.ID])
	}
	require.Equal(t, http.StatusMethodNotAllowed, o.ask(http.MethodPost, operator.PathDiagnostics, "{}").status)
}

func TestTheLinksOfAnOfferAllAnswer(t *testing.T) {
	o := newOperated(t, books)
	var links []string
	for _, checked := range activeApp().Checked() {
		links = append(links, checked.Links...)
	}
	require.Greater(t, len(links), 30)
	require.Contains(t, links, o.service+"/v1/pay/usdc.uri")
	for _, link := range links {
		require.NotContains(t, link, "{")
		status := o.get(link).status
		require.True(t, status < 400 || status == http.StatusPaymentRequired, "%s answers %d", link, status)
	}
}
