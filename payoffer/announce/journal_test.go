package announce

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// journal is a log of lines in JSON.
type journal struct{ bytes.Buffer }

func (j *journal) logger() *slog.Logger { return slog.New(slog.NewJSONHandler(j, nil)) }

// The line holds what a payment is looked up by, and not what its payer alone knows.
func TestALineOfTheLogSaysAllButTheAddressOfThePage(t *testing.T) {
	j := new(journal)
	c := Config{Journal: j.logger(), Offer: offer.Offer{Terms: offer.Terms{BaseURL: "https://pay.example"}}}
	require.Equal(t, failure{}, c.write(t.Context(), newEvent(&c, transition(), false)))
	var line map[string]any
	require.NoError(t, json.Unmarshal(j.Bytes(), &line))
	delete(line, "time")
	require.Equal(t, map[string]any{
		"level": "INFO", "msg": "a receipt has changed", "change": "status from seen to confirmed; it was read from the chain", "rail": "usdc", "amount": "42.5 USDC", "usd": "42.50", "refunded": "0 USDC",
		"before": "seen", "status": "confirmed", "evidence": "chain", "counted": true, "own": false, "testnet": false,
		"reference": "eip155:8453:0xab:0", "number": 7.0, "version": 3.0, "cause": "poll", "cursor": "12.00000000000000ff", "id": "usdc:eip155:8453:0xab:0:3:00000000000000ff",
		"page": "caddy pay-offer received --receipts --before 8 --offer pay.example",
	}, line)
	require.NotContains(t, j.String(), "/receipt/")
}

// What was redacted is told of by its new name alone.
func TestALineOfARedactionHoldsNoNameOfBefore(t *testing.T) {
	d, j, hook := newFixture(t), new(journal), payoffertest.NewReceiver(t)
	entered := cardObservation("Jane Doe", ledger.StatusConfirmed)
	entered.EvidenceLevel, entered.Note = ledger.LevelManual, "of Jane Doe"
	d.record(entered)
	a := d.configured(Config{Journal: j.logger(), Endpoints: []Endpoint{Webhook{URL: hook.URL()}}, Transport: hook.Transport()})
	_, err := d.outbox.Redact(t.Context(), testOffer, cardAccount, "Jane Doe", "redacted-1", "a name")
	require.NoError(t, err)
	a.rounds(t.Context())
	require.Equal(t, 1, strings.Count(j.String(), "\n"))
	require.Contains(t, j.String(), `"change":"another reference; you replaced its reference"`)
	require.NotContains(t, j.String(), "Jane")
	require.Empty(t, hook.Requests(), "no money moved")
}
