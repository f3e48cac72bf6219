package payoffer

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/desk"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/service"
)

// What arrives at one offer is told of that one, and of nobody else's requests.
func TestTheAdminAPITellsWhatArrivesOfACheck(t *testing.T) {
	o := newOperated(t, books+secondBooks)
	token := strings.Repeat("c3", 16)
	inspect := func() (offers []desk.Inspection) {
		got := o.ask(http.MethodPost, desk.PathInspection, `{"token":"`+token+`"}`)
		require.Equal(t, http.StatusOK, got.status, got.body)
		var answer struct{ Offers []desk.Inspection }
		require.NoError(t, json.Unmarshal([]byte(got.body), &answer))
		require.Len(t, answer.Offers, 2)
		if answer.Offers[0].ID != offer.Host(o.service) {
			answer.Offers[0], answer.Offers[1] = answer.Offers[1], answer.Offers[0]
		}
		return answer.Offers
	}
	require.Empty(t, inspect()[0].Arrivals)
	for _, header := range []string{token, strings.Repeat("d4", 16), ""} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, o.service+"/humans.txt", nil)
		require.NoError(t, err)
		request.Header.Set(service.HeaderSounding, header)
		answer, err := o.client.Do(request)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
	}
	told := inspect()
	require.Equal(t, []desk.Arrival{{Method: http.MethodGet, Peer: "127.0.0.1", Counted: "127.0.0.1"}}, told[0].Arrivals)
	require.Empty(t, told[1].Arrivals)
	require.NotEqual(t, told[0].Settings, told[1].Settings)
	require.Equal(t, activeApp().Inspected()[0].Key.String(), map[bool]string{true: told[0].Settings, false: told[1].Settings}[activeApp().Inspected()[0].Offer.ID == told[0].ID])
	for _, i := range told {
		require.True(t, i.Ledger.Writable)
		require.NotEmpty(t, i.Keys)
	}

	require.Equal(t, http.StatusMethodNotAllowed, o.ask(http.MethodGet, desk.PathInspection, "").status)
	require.Equal(t, http.StatusBadRequest, o.ask(http.MethodPost, desk.PathInspection, `{"other":1}`).status)
	for _, guessed := range []string{"", "1", token[1:], token + "0", strings.ToUpper(token), strings.Repeat("g", 32), token[1:] + "\\n"} {
		refused := o.ask(http.MethodPost, desk.PathInspection, `{"token":"`+guessed+`"}`)
		require.Equal(t, http.StatusBadRequest, refused.status, guessed)
		require.Contains(t, refused.body, "token must be 32 hexadecimal digits")
	}
	require.Equal(t, http.StatusBadRequest, o.ask(http.MethodPost, desk.PathInspection, `{}`).status)
}

func TestTheLinksOfAnOfferAllAnswer(t *testing.T) {
	o := newOperated(t, books)
	var links []string
	for _, inspected := range activeApp().Inspected() {
		links = append(links, inspected.Links...)
	}
	require.Greater(t, len(links), 30)
	require.Contains(t, links, o.service+"/v1/pay/usdc.uri")
	for _, link := range links {
		require.NotContains(t, link, "{")
		status := o.get(link).status
		require.True(t, status < 400 || status == http.StatusPaymentRequired, "%s answers %d", link, status)
	}
}
