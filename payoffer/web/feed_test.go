package web

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/accounting"
)

func TestTheFeedTellsWhatBecameOfAReceipt(t *testing.T) {
	w := newWorld(t)
	w.changes = []ledger.Transition{{
		Seq: 3, Tag: -1, Offer: "pay.example.org", Account: "secret account", Rail: "transfer", ExternalID: "inv.7 ä", Version: 1, To: ledger.StatusSeen,
		Amount: 4200, Cause: "operator", Note: "secret note", At: at.Unix(), ReceiptID: 9, Asset: "USD", EvidenceLevel: ledger.LevelManual,
		OccurredAt: at.Unix() - 60, After: accounting.Facts{Classification: accounting.Classification{Status: ledger.StatusSeen}},
	}, {
		Seq: 8, Tag: 0x1f, Rail: "usdc", ExternalID: "eip155:8453:0xab:0", ReceiptID: 7, Version: 2, From: ledger.StatusSeen, To: ledger.StatusConfirmed,
		Amount: 42_000_000, Refunded: 1, Via: "x402", Asset: "USDC", USDCents: cents(41_50), EvidenceLevel: ledger.LevelChain,
		Own: true, Testnet: true, Cause: "poll", At: at.Unix(), OccurredAt: at.Unix(),
		Before: accounting.Facts{Classification: accounting.Classification{Status: ledger.StatusSeen}},
		After:  accounting.Facts{Classification: accounting.Classification{Status: ledger.StatusConfirmed}},
	}}
	s := w.server(t)
	res := send(t, s, "GET", "/v1/received?after=0", "", "Accept", browser)
	require.Equal(t, "application/json", res.Header.Get("Content-Type"), "the feed is for programs alone")
	require.Equal(t, "no-store", res.Header.Get("Cache-Control"))
	require.JSONEq(t, `{"offer": "pay.example.org", "cursor": "8.000000000000001f", "next": "https://pay.example.org/v1/received?after=8.000000000000001f&limit=100", "transitions": [{
		"seq": 3, "cursor": "3.ffffffffffffffff", "number": 9, "counted": false, "id": "transfer:inv%2E7%20%C3%A4:1:ffffffffffffffff", "rail": "transfer", "receipt": "inv.7 ä", "version": 1, "from": null, "to": "seen", "status": "seen", "change": "new",
		"amountAtomic": "4200", "refundedAtomic": "0", "amountUsd": null, "amountUsdDecimal": null, "asset": "USD",
		"evidence": "manual", "own": false, "testnet": false, "occurredAt": "2026-11-21T13:13:15Z", "cause": "operator", "at": "2026-11-21T13:14:15Z"
	}, {
		"seq": 8, "cursor": "8.000000000000001f", "number": 7, "counted": false, "id": "usdc:eip155:8453:0xab:0:2:000000000000001f", "rail": "usdc", "receipt": "eip155:8453:0xab:0", "version": 2, "from": "seen", "to": "confirmed", "status": "confirmed", "change": "status from seen to confirmed",
		"amountAtomic": "42000000", "refundedAtomic": "1", "amountUsd": 41.50, "amountUsdDecimal": "41.50", "asset": "USDC", "via": "x402",
		"evidence": "chain", "own": true, "testnet": true, "occurredAt": "2026-11-21T13:14:15Z", "cause": "poll", "at": "2026-11-21T13:14:15Z"
	}]}`, read(t, res))

	end := readJSON(t, send(t, s, "GET", "/v1/received?after=8.000000000000001f&limit=7", ""))
	require.Equal(t, map[string]any{
		"offer": "pay.example.org", "cursor": "8.000000000000001f", "next": baseURL + "/v1/received?after=8.000000000000001f&limit=7", "transitions": []any{},
	}, end, "there is always something to ask for next time")
	require.Len(t, readJSON(t, send(t, s, "GET", "/v1/received?after=0&limit=1", ""))["transitions"], 1)
}

func TestACursorOfAnotherHistoryIsGone(t *testing.T) {
	w := newWorld(t)
	w.err = ledger.ErrBookmark
	s := w.server(t)
	res := send(t, s, "GET", "/v1/received?after=4.00000000000000ff", "", "Accept", browser)
	require.Equal(t, 410, res.StatusCode)
	require.Equal(t, "application/problem+json", res.Header.Get("Content-Type"))
	body := readJSON(t, res)
	require.Equal(t, "urn:pay-offer:problem:unknown-cursor", body["type"])
	require.Equal(t, "This cursor is no longer valid. Read again from after=0 and replace what you stored.", body["detail"])
}
