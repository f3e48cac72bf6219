package rate

import (
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// toStandIn carries every call to a stand-in.
type toStandIn struct{ host string }

func (to toStandIn) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.URL.Scheme, r.URL.Host = "http", to.host
	return http.DefaultTransport.RoundTrip(r)
}

func TestEachPriceSourceIsLookedAtOnce(t *testing.T) {
	prices := payoffertest.NewPrices(t, time.Now)
	prices.Set("kraken", payoffertest.PriceReply{Price: "90000", Status: http.StatusForbidden})
	prices.Set("bitstamp", payoffertest.PriceReply{Price: "45000"})
	at, err := url.Parse(prices.Endpoints()["mempool"])
	require.NoError(t, err)

	looks, err := LookOnce(t.Context(), nil, toStandIn{at.Host})

	require.NoError(t, err)
	require.Equal(t, []Look{
		{"mempool", "mempool.space", "disagree"}, {"coinbase", "api.coinbase.com", "disagree"},
		{"kraken", "api.kraken.com", "status_403"}, {"bitstamp", "www.bitstamp.net", "disagree"},
	}, looks, "without an agreement of three nobody knows who is wrong")

	prices.Set("kraken", payoffertest.PriceReply{Price: "90000"})
	looks, err = LookOnce(t.Context(), nil, toStandIn{at.Host})
	require.NoError(t, err)
	require.Equal(t, Look{"bitstamp", "www.bitstamp.net", "outlier"}, looks[3])
	require.Equal(t, 2, prices.Requests("mempool"))

	_, err = LookOnce(t.Context(), []string{"none"}, nil)
	require.ErrorContains(t, err, "none")
}
