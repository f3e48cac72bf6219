package payoffer

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

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
	svc := running.newest().offers()[0]
	pay := meteredPayments{svc.payments, svc.offer.ID}

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
