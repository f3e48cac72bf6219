package announce

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/accounting"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

func transition() ledger.Transition {
	cents := int64(4250)
	after := accounting.Facts{
		Classification: accounting.Classification{Status: ledger.StatusConfirmed, EvidenceLevel: ledger.LevelChain},
		Asset:          "USDC", Amount: 42_500_000, USDCents: &cents, OccurredAt: 1_800_000_000,
	}
	before := after
	before.Status = ledger.StatusSeen
	return ledger.Transition{
		Before: before, After: after,
		Seq: 12, Tag: 255, Offer: "pay.example", Account: "0xaccount", Rail: "usdc", ExternalID: "eip155:8453:0xab:0", Version: 3,
		From: ledger.StatusSeen, To: ledger.StatusConfirmed, Amount: 42_500_000, Cause: "poll", At: 1_800_000_100,
		ReceiptID: 7, Via: "x402", Asset: "USDC", USDCents: &cents, EvidenceLevel: ledger.LevelChain,
		OccurredAt: 1_800_000_000,
	}
}

func TestAnEventSaysWhatTheReceiptAmountsTo(t *testing.T) {
	body, err := newEvent(&Config{Offer: offer.Offer{Terms: offer.Terms{BaseURL: "https://pay.example"}}}, transition(), false).body()
	require.NoError(t, err)
	require.JSONEq(t, `{
		"type": "payment_confirmed",
		"timestamp": "2027-01-15T08:01:40Z",
		"data": {
			"id": "usdc:eip155:8453:0xab:0:3:00000000000000ff", "seq": 12, "cursor": "12.00000000000000ff", "offer": "pay.example", "baseUrl": "https://pay.example",
			"rail": "usdc", "externalId": "eip155:8453:0xab:0", "number": 7, "version": 3, "change": "status from seen to confirmed", "from": "seen", "status": "confirmed", "via": "x402",
			"evidence": "chain", "asset": "USDC", "amountAtomic": "42500000", "refundedAtomic": "0",
			"amountUsd": 42.50, "amountUsdDecimal": "42.50", "own": false, "testnet": false, "counted": true,
			"occurredAt": "2027-01-15T08:00:00Z", "recordedAt": "2027-01-15T08:01:40Z"
		}
	}`, string(body))
	require.Contains(t, string(body), `"amountUsd":42.50,`, "dollars go through no floating point")
}

func TestAnUnknownValueIsNullAndWhatIsUnsaidIsAbsent(t *testing.T) {
	unknown := transition()
	unknown.USDCents, unknown.Via = nil, ""
	data, err := newEvent(&Config{}, unknown, false).members()
	require.NoError(t, err)
	require.Contains(t, data, "amountUsd")
	require.Nil(t, data["amountUsd"])
	require.Contains(t, data, "amountUsdDecimal")
	require.Nil(t, data["amountUsdDecimal"])
	require.NotContains(t, data, "via")
	require.NotContains(t, data, "baseUrl")
}

func FuzzAnEventIDIsSafeInASignatureAndAHeader(f *testing.F) {
	f.Add("INV.42/a b", "INV-42")
	f.Add("x\r\nwebhook-signature: v1,", "%2E")
	f.Add("Überweisung", ".")
	f.Fuzz(func(t *testing.T, one, other string) {
		tr := transition()
		tr.ExternalID = one
		e := newEvent(&Config{}, tr, false)
		require.NotContains(t, e.id, ".")
		for _, b := range []byte(e.id) {
			require.True(t, b > ' ' && b < 0x7f, "%q", e.id)
		}
		body, err := e.body()
		require.NoError(t, err)
		require.True(t, json.Valid(body))
		tr.ExternalID = other
		require.Equal(t, one == other, e.id == newEvent(&Config{}, tr, false).id, "two movements, two ids")
	})
}

func TestAnEventHoldsAnOddReferenceAsItIs(t *testing.T) {
	tr := transition()
	tr.Rail, tr.ExternalID = "transfer", "INV.42/Ä <b>"
	e := newEvent(&Config{}, tr, false)
	require.Equal(t, "transfer:INV%2E42%2F%C3%84%20%3Cb%3E:3:00000000000000ff", e.id)
	body, err := e.body()
	require.NoError(t, err)
	require.True(t, utf8.Valid(body))
	require.False(t, strings.Contains(string(body), "<b>"), "no markup, wherever it is shown")
	var payload struct{ Data struct{ ExternalID string } }
	require.NoError(t, json.Unmarshal(body, &payload))
	require.Equal(t, tr.ExternalID, payload.Data.ExternalID)
}

func TestMoneyThatMovedWithinTheAccountIsNewsOnlyWhereItWasTakenForAPayment(t *testing.T) {
	for _, test := range []struct {
		from, to ledger.Status
		kind     string // empty where nobody is told
	}{
		{"", ledger.StatusMoved, ""},
		{ledger.StatusMoved, ledger.StatusMoved, ""},
		{ledger.StatusDropped, ledger.StatusMoved, ""},
		{ledger.StatusMoved, ledger.StatusDropped, ""},
		{ledger.StatusSeen, ledger.StatusMoved, "payment_dropped"},
		{ledger.StatusConfirmed, ledger.StatusMoved, "payment_dropped"},
		{ledger.StatusMoved, ledger.StatusConfirmed, "payment_confirmed"},
		{ledger.StatusSeen, ledger.StatusDropped, "payment_dropped"},
	} {
		tr := transition()
		tr.From, tr.To = test.from, test.to
		require.Equal(t, test.kind != "", announced(tr), "%s to %s", test.from, test.to)
		if test.kind != "" {
			require.Equal(t, test.kind, newEvent(&Config{}, tr, false).kind)
		}
	}
}

func TestAnEventSaysThatItsPaymentWasFoundLate(t *testing.T) {
	tr := transition()
	require.False(t, newEvent(&Config{}, tr, false).data.Backfilled)
	tr.Cause = ledger.CauseBackfilled
	require.True(t, newEvent(&Config{}, tr, false).data.Backfilled)
}
