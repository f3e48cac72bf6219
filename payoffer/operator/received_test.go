package operator

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/accounting"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

func TestReceivedIsTheReportAndTheSumsBehindIt(t *testing.T) {
	o := newOffice(t)
	o.Summary = func(context.Context) (json.RawMessage, error) { return json.RawMessage(`{"status":"observed"}`), nil }
	o.sees("usdc", "eip155:8453:0x1:0", ledger.LevelChain, ledger.StatusConfirmed)
	o.facilitators = []x402.FacilitatorHealth{
		{Host: "one.example", Network: "eip155:8453", Listing: x402.Listing{Status: "rejected", Reason: "no schema"}},
		{Host: "two.example", Network: "eip155:8453", Reason: "timeout"},
	}

	got, err := o.Received(t.Context())

	require.NoError(t, err)
	encoded, err := json.Marshal(got)
	require.NoError(t, err)
	require.JSONEq(t, `{"id": "pay.example", "base_url": "https://pay.example", "report": {"status": "observed"}, "totals": [{
		"rail": "usdc", "account": "eip155:8453/erc20:0x833589fcd6edb6e08f4c7c32d4f71b54bda02913/0x52908400098527886e0f7030069857d2e4169ee7",
		"status": "confirmed", "evidence": "chain", "counted": true, "count": 1, "amount_atomic": 4200, "usd": 42}],
		"facilitators": [{"host": "one.example", "network": "eip155:8453", "bazaar_status": "rejected", "bazaar_reason": "no schema"},
			{"host": "two.example", "network": "eip155:8453", "reason": "timeout"}]}`, string(encoded))
}

func TestTestMoneyIsCalledCountedWhereItCounts(t *testing.T) {
	confirmed := func(level ledger.EvidenceLevel, testnet bool) ledger.Total {
		return ledger.Total{Place: accounting.Place{Standing: accounting.Standing{Status: ledger.StatusConfirmed, EvidenceLevel: level, Testnet: testnet}}}
	}
	totals := []ledger.Total{
		confirmed(ledger.LevelChain, true), confirmed(ledger.LevelSigned, true), confirmed(ledger.LevelSigned, false),
		{Place: accounting.Place{Standing: accounting.Standing{Status: ledger.StatusSeen, EvidenceLevel: ledger.LevelChain}}},
	}
	for allTest, want := range map[bool][]bool{
		true:  {true, false, true, false},
		false: {false, false, true, false},
	} {
		var counted []bool
		for _, sum := range sums(totals, allTest) {
			counted = append(counted, sum.Counted)
		}
		require.Equal(t, want, counted)
	}
}

func TestTheOperatorIsGivenThePageOfEachReceipt(t *testing.T) {
	o := newOffice(t)
	o.sees("card", "pi_1", ledger.LevelSigned, ledger.StatusConfirmed)
	listed, err := o.Desk.Receipts(t.Context(), 0, 10)
	require.NoError(t, err)
	require.Equal(t, "https://pay.example/v1/receipt/pi_1", listed.Receipts[0].Page)
	require.NotContains(t, o.log.String(), "/v1/receipt/")
}
