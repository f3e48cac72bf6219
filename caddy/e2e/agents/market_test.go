// Package agents tests that clients nobody here wrote discover, understand and pay the offer of the built server.
package agents

import (
	"crypto/ecdsa"
	"encoding/json"
	"fmt"
	"math/big"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/node"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
)

// price is the amount of the offer in atomic units of USDC.
const price = 42_000_000

// market is the built server with an offer on a chain, and the official facilitator.
type market struct {
	*testing.T
	chain *chain.Chain
	payee common.Address
	// base is the address of the service.
	base string
}

// openMarket starts them, with options of the offer beside those of the Caddyfile.
func openMarket(t *testing.T, options ...string) *market {
	t.Helper()
	lab.RequireNode(t)
	m := &market{T: t, chain: chain.Start(t)}
	m.payee = chain.NewAddress(t)
	facilitator := node.StartFacilitator(t, m.chain.URL, m.chain.Facilitator)
	m.base, _ = server.StartPayable(t, m.payee.Hex(), facilitator, m.chain.URL, "\t\tcard ", "\t\t"+strings.Join(append(options, "card "), "\n\t\t"))
	return m
}

// settlement is an x402 SettleResponse.
type settlement struct {
	Success     bool           `json:"success"`
	Transaction common.Hash    `json:"transaction"`
	Network     string         `json:"network"`
	Payer       common.Address `json:"payer"`
}

// requirePaid checks that the settlement names the one transfer to the payee, and that the offer reports its receipt.
func (m *market) requirePaid(by *ecdsa.PrivateKey, s settlement) {
	m.Helper()
	transfers := m.chain.TransfersTo(m, m.payee)
	require.Len(m, transfers, 1, "charged once")
	require.Equal(m, big.NewInt(price), transfers[0].Value)
	require.Equal(m, settlement{true, transfers[0].Tx, "eip155:" + strconv.Itoa(chain.ID), chain.Address(by)}, s)

	want := fmt.Sprintf("eip155:%d:%s:%d", chain.ID, transfers[0].Tx.Hex(), transfers[0].Ordinal)
	server.Eventually(m, "the receipt and the goal", func() bool {
		var report struct {
			GoalMet  bool
			Receipts []struct{ ID string }
		}
		a, err := server.Do(server.Client, http.MethodGet, m.base+"/v1/received", "", nil)
		return err == nil && json.Unmarshal([]byte(a.Body), &report) == nil && report.GoalMet && len(report.Receipts) == 1 && report.Receipts[0].ID == want
	})
}

// sign answers a demand for payment as a client does that reads it and nothing else.
func (m *market) sign(demand json.RawMessage, buyer *ecdsa.PrivateKey) map[string]any {
	m.Helper()
	var required struct {
		X402Version int               `json:"x402Version"`
		Resource    json.RawMessage   `json:"resource"`
		Accepts     []json.RawMessage `json:"accepts"`
	}
	require.NoError(m, json.Unmarshal(demand, &required))
	require.Equal(m, 2, required.X402Version)
	require.Len(m, required.Accepts, 1)
	var accepted struct{ Amount, Network, PayTo string }
	require.NoError(m, json.Unmarshal(required.Accepts[0], &accepted))
	value, err := strconv.ParseInt(accepted.Amount, 10, 64)
	require.NoError(m, err)
	authorization := chain.NewAuthorization(m, chain.Address(buyer), common.HexToAddress(accepted.PayTo), value)
	return map[string]any{
		"x402Version": 2, "resource": required.Resource, "accepted": required.Accepts[0],
		"payload": map[string]any{"signature": authorization.Sign(m, buyer), "authorization": authorization},
	}
}

// settled sends a payment again and again until its outcome is known, as the service asks when it has just started and
// knows no facilitator yet.
func (m *market) settled(send func() (status string)) {
	m.Helper()
	require.Eventually(m, func() bool {
		status := send()
		return status != "unavailable" && status != "open"
	}, server.Patience, time.Second)
}

// decode reads what a client made of JSON.
func decode(t testing.TB, value, into any) {
	t.Helper()
	text, err := json.Marshal(value)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, into), "%s", text)
}
