package e2e

import (
	"encoding/json"
	"fmt"
	"math/big"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/node"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
)

// received is the part of GET /v1/received that a payee looks at first.
type received struct {
	GoalMet  bool
	Receipts []struct{ ID string }
}

func TestOfficialClientsPayTheOffer(t *testing.T) {
	lab.RequireNode(t)
	c := chain.Start(t)
	facilitator := node.StartFacilitator(t, c.URL, c.Facilitator)
	payee := chain.NewAddress(t)
	base, process := server.StartPayable(t, payee.Hex(), facilitator, c.URL)

	for i, sale := range []struct {
		buyer   node.Buyer
		network string
	}{
		{node.BuyerV2, "eip155:84532"},
		{node.BuyerV1, "base-sepolia"},
	} {
		key := c.Buyers[i]
		answer := node.Pay(t, sale.buyer, base+"/v1/sponsor", key)
		require.Equal(t, http.StatusOK, answer.Status, "%s: %s", sale.buyer, answer.Body)
		require.NotNil(t, answer.Payment, "%s got no payment response header", sale.buyer)
		require.True(t, answer.Payment.Success)
		require.Equal(t, sale.network, answer.Payment.Network)
		require.Equal(t, chain.Address(key), answer.Payment.Payer)

		transfers := c.TransfersTo(t, payee)
		require.Len(t, transfers, i+1)
		require.Equal(t, transfers[i].Tx, answer.Payment.Transaction, "the named transaction is the one on the chain")
		require.Equal(t, chain.Address(key), transfers[i].From)
		require.Equal(t, big.NewInt(price), transfers[i].Value)
	}
	require.Equal(t, big.NewInt(2*price), c.BalanceOf(t, payee))

	var report received
	server.Eventually(t, "two receipts and the goal", func() bool {
		report = received{}
		_, body, err := fetch(base + "/v1/received")
		return err == nil && json.Unmarshal([]byte(body), &report) == nil && report.GoalMet && len(report.Receipts) == 2
	})

	var want, got []string
	for _, transfer := range c.TransfersTo(t, payee) {
		want = append(want, fmt.Sprintf("eip155:%d:%s:%d", chain.ID, transfer.Tx.Hex(), transfer.Ordinal))
	}
	for _, receipt := range report.Receipts {
		got = append(got, receipt.ID)
	}
	require.ElementsMatch(t, want, got)

	process.Terminate()
	process.Await(t)
	require.Contains(t, process.Log(), `"status":"success"`, "the facilitator, which has a Bazaar, lists what was paid for")
}
