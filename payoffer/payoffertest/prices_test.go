package payoffertest

import (
	"context"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func fixedNow() time.Time { return time.Unix(1_795_250_000, 0) }

// get returns the status and the body at a path of the stand-in.
func get(t *testing.T, p *Prices, path string) (int, string) {
	t.Helper()
	resp, err := p.server.Client().Get(p.URL() + path)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(body)
}

func TestPricesSpeakTheRecordedShapes(t *testing.T) {
	p := NewPrices(t, fixedNow)
	p.SetAll(PriceReply{Price: "90000.12", Age: time.Minute})
	for path, want := range map[string]string{
		"/api/v1/prices":                 `{"time":1795249940,"USD":90000,"EUR":-1}`,
		"/v2/prices/BTC-USD/spot":        `{"data":{"amount":"90000.12","base":"BTC","currency":"USD"}}`,
		"/0/public/Ticker?pair=XBTUSD":   `{"error":[],"result":{"XXBTZUSD":{"a":["90000.12","1","1.000"],"b":["90000.12","2","2.000"],"c":["90000.12","0.01686188"],"v":["1414.57420708","1686.74719574"],"t":[20034,23808],"o":"90000.12"}}}`,
		"/0/public/Ticker?pair=NOTAPAIR": `{"error":["EQuery:Unknown asset pair"]}`,
		"/api/v2/ticker/btcusd/":         `{"timestamp":"1795249940","last":"90000.12","bid":"90000.12","ask":"90000.12","open":"90000.12","volume":"2897.05432716"}`,
	} {
		status, body := get(t, p, path)
		require.Equal(t, http.StatusOK, status, path)
		require.JSONEq(t, want, body, path)
	}
}

func TestPricesFailAsScripted(t *testing.T) {
	p := NewPrices(t, fixedNow)
	p.Set("mempool", PriceReply{Status: http.StatusTooManyRequests, Body: "later"})
	status, body := get(t, p, "/api/v1/prices")
	require.Equal(t, http.StatusTooManyRequests, status)
	require.Equal(t, "later", body)

	p.Set("kraken", PriceReply{KrakenError: "EGeneral:Too many requests"})
	status, body = get(t, p, "/0/public/Ticker?pair=XBTUSD")
	require.Equal(t, http.StatusOK, status)
	require.JSONEq(t, `{"error":["EGeneral:Too many requests"]}`, body)
	require.Equal(t, 1, p.Requests("kraken"))
	require.Zero(t, p.Requests("coinbase"))
}

func TestAHangingPriceEndsWithItsClient(t *testing.T) {
	p := NewPrices(t, fixedNow)
	p.Set("coinbase", PriceReply{Hang: true})
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.URL()+"/v2/prices/BTC-USD/spot", nil)
	require.NoError(t, err)
	failed := make(chan error)
	go func() {
		resp, err := p.server.Client().Do(req)
		if err == nil {
			resp.Body.Close()
		}
		failed <- err
	}()
	p.Await("coinbase", 1)
	cancel()
	require.ErrorIs(t, <-failed, context.Canceled)
}
