package report

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/accounting"
)

func TestAReceiptIsReadAsItIsWritten(t *testing.T) {
	row := ledger.Receipt{
		ID: 7, Rail: "btc", ExternalID: "ab:0", Asset: "BTC", Amount: 70_000, Refunded: 20_000, USDCents: cents(42_50), RefundedCents: 12_14,
		ValueBasis: ledger.BasisQuote, Status: ledger.StatusConfirmed, EvidenceLevel: ledger.LevelChain, Final: true, OccurredAt: at.Unix(), ObservedAt: at.Unix(), Payer: "secret",
	}
	text := encode(t, NewReceipt(row, false))
	require.JSONEq(t, `{"id": "ab:0", "number": 7, "rail": "btc", "status": "confirmed", "evidence": "chain", "counted": true, "final": true,
		"own": false, "testnet": false, "asset": "BTC", "amountAtomic": "70000", "refundedAtomic": "20000", "amountUsd": 42.50, "amountUsdDecimal": "42.50",
		"refundedUsd": 12.14, "refundedUsdDecimal": "12.14", "valueBasis": "quote", "occurredAt": "2026-11-21T13:14:15Z", "recordedAt": "2026-11-21T13:14:15Z"}`, string(text))
	var read Receipt
	require.NoError(t, json.Unmarshal(text, &read))
	require.Equal(t, NewReceipt(row, false), read)
	require.Equal(t, "0.0007 BTC, 0.0002 BTC, 42.50 USD", read.Paid()+", "+read.Refunded()+", "+read.Value())

	refund := NewMovement(row, accounting.Movement{
		Kind: accounting.MovementRefund, At: at.Unix(), Amount: -20_000, USDCents: cents(-12_14), Arrived: true,
		Version: 3, Part: 2, RecordedAt: at.Unix() + 60, Reason: "half of it",
	}, "cd", false)
	var movement Movement
	require.NoError(t, json.Unmarshal(encode(t, refund), &movement))
	require.Equal(t, refund, movement)
	require.Equal(t, []string{
		"2026-11-21T13:14:15Z", "2026-11-21", "UTC", "refund", "btc", "ab:0", "7", "BTC", "-0.0002", "-20000",
		"-12.14", "quote", "confirmed", "chain", "no", "no", "yes", "cd",
		"2026-11-21T13:15:15Z", "7v3p2", "half of it",
	}, movement.Row(at, "UTC"))
	require.Len(t, MovementColumns, len(movement.Row(at, "UTC")))
}

func TestADayHoldsOnlyWithItsOwnTime(t *testing.T) {
	midnight := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC).Unix()
	entry := func(level ledger.EvidenceLevel, evidence string) ledger.Receipt {
		return ledger.Receipt{EvidenceLevel: level, Evidence: json.RawMessage(evidence), OccurredAt: midnight}
	}
	require.Equal(t, "2026-11-20", Day(entry(ledger.LevelManual, `{"day":"2026-11-20"}`)))
	for name, r := range map[string]ledger.Receipt{
		"a moment":         entry(ledger.LevelManual, `{"enteredAt":"2026-11-21T12:00:00Z"}`),
		"no evidence":      entry(ledger.LevelManual, ""),
		"not a day":        entry(ledger.LevelManual, `{"day":"redacted-20"}`),
		"another evidence": entry(ledger.LevelSigned, `{"day":"2026-11-20"}`),
		"a later time":     entry(ledger.LevelManual, `{"day":"2026-11-19"}`),
		"an earlier time":  entry(ledger.LevelManual, `{"day":"2026-11-21"}`),
	} {
		require.Empty(t, Day(r), name)
	}
}
