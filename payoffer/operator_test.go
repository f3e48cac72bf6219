package payoffer

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// record puts one confirmed Transfer of 42 USDC into the running ledger.
func record(t *testing.T) {
	t.Helper()
	svc := running.newest().offers()[0]
	account := accounts(svc.offer)[0]
	cents := int64(4200)
	_, err := svc.ledger.Record(t.Context(), nil, ledger.Sighting{
		Offer: account.Offer, Account: account.ID, Rail: account.Rail, ExternalID: "eip155:84532:0x01:0",
		Transaction: "0x01", Asset: "USDC", Amount: 42_000_000, USDCents: &cents, State: ledger.StatusConfirmed,
		EvidenceLevel: ledger.LevelChain, Evidence: json.RawMessage(`{}`), Testnet: true,
		OccurredAt: time.Now().Unix(), Cause: "test",
	})
	require.NoError(t, err)
}

func TestAdminAPIReportsTheSumsOfEveryOffer(t *testing.T) {
	i := newInstance(t)
	require.NoError(t, i.load(smallest))
	record(t)
	api := new(AdminAPI)

	recorder := httptest.NewRecorder()
	require.NoError(t, api.received(recorder, httptest.NewRequest(http.MethodGet, adminPath, nil)))

	require.JSONEq(t, `{"offers": [{"id": "`+offer.Host(i.service)+`", "base_url": "`+i.service+`", "totals": [
		{"rail": "usdc", "status": "confirmed", "evidence": "chain", "counted": true, "testnet": true,
		 "count": 1, "amount_atomic": 42000000, "usd": 42}]}]}`, recorder.Body.String())
	require.Error(t, api.received(recorder, httptest.NewRequest(http.MethodPost, adminPath, nil)))
}

// metric is the value of a metric in a registry as a configuration makes one.
func metric(t *testing.T, name string) float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registerMetrics(registry))
	require.NoError(t, registerMetrics(registry), "a second site registers them again")
	families, err := registry.Gather()
	require.NoError(t, err)
	value := 0.0
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if family.GetName() == name {
				value += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return value
}

// Collectors outlive configurations, each of which has a registry of its own.
func TestMetricsCountAttemptsOverReloads(t *testing.T) {
	i := newInstance(t)
	require.NoError(t, i.load(smallest))
	const counter = "caddy_pay_offer_payment_attempts_total"
	before := metric(t, counter)
	pay := meteredPayments{running.newest().offers()[0].payments}

	require.Equal(t, x402.Malformed, pay.Pay(t.Context(), x402.Attempt{Payload: []byte("{")}).Status)
	require.NoError(t, i.load(smallest))

	require.InDelta(t, before+1, metric(t, counter), 0)
	require.Zero(t, metric(t, "caddy_pay_offer_open_intents"))
}

func TestCommandCheckPrintsWhatIsPublished(t *testing.T) {
	file := filepath.Join(t.TempDir(), "Caddyfile")
	i := newInstance(t)
	require.NoError(t, os.WriteFile(file, []byte(i.caddyfile(smallest)), 0o600))
	command := checkCommand()
	var out bytes.Buffer
	command.SetOut(&out)
	command.SetArgs([]string{"--config", file})

	require.NoError(t, command.Execute())

	require.Contains(t, out.String(), i.service+"/v1/pay")
	require.Contains(t, out.String(), "https://checkout.example/pay")
	require.Contains(t, out.String(), "uint256=42000000")
	require.NoFileExists(t, i.ledgerPath())
}

func TestCommandQRPrintsARailsURI(t *testing.T) {
	h := &Handler{
		BaseURL: "http://localhost:8402", Card: &CardConfig{URL: "https://checkout.example/pay"},
		Bitcoin: &BitcoinConfig{Account: "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4"},
	}
	s, err := h.settings(newResolver(), today)
	require.NoError(t, err)
	offers := []*offer.Offer{s.offer}

	var out bytes.Buffer
	require.NoError(t, printQR(&out, offers, "card"))
	require.Contains(t, out.String(), "https://checkout.example/pay\n")
	require.Contains(t, out.String(), "█")
	require.ErrorContains(t, printQR(&out, offers, "btc"), "http://localhost:8402/v1/pay/btc.uri")
	require.ErrorContains(t, printQR(&out, offers, "pack"), "there are: card, btc")
}

func TestCommandSiteWritesThePage(t *testing.T) {
	folder := t.TempDir()
	command := siteCommand()
	command.SetArgs([]string{folder})
	require.NoError(t, command.Execute())
	require.FileExists(t, filepath.Join(folder, "offer", "index.html"))
}
