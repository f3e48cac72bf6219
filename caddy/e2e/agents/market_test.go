// Package agents tests that clients nobody here wrote discover, understand and pay the offer of the built server, also
// through a proxy with default settings, and that the official verifier takes what the server signs.
package agents

import (
	"crypto/ecdsa"
	"encoding/json"
	"fmt"
	"math/big"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"
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
	value := lab.Must(strconv.ParseInt(accepted.Amount, 10, 64))(m)
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
	text := lab.Must(json.Marshal(value))(t)
	require.NoError(t, json.Unmarshal(text, into), "%s", text)
}

// mppReceipt is what the Payment scheme says of a payment.
type mppReceipt struct {
	Method, Status, ChallengeID string
	Reference                   common.Hash
	ChainID                     int64
}

// TestOfficialClientAndValidatorPayByMPP has one purchase over HTTP and one over MCP by the client, and one by the validator,
// where x402 is offered too.
func TestOfficialClientAndValidatorPayByMPP(t *testing.T) {
	for field, options := range map[string][]string{"authorization": nil, "payment-authorization": {"mpp header"}} {
		t.Run(field, func(t *testing.T) {
			m := openMarket(t, options...)
			m.visitByMPP(m.chain.Buyers[0], field)
			m.validateMPP(m.chain.Buyers[1])
			transfers := m.chain.TransfersTo(t, m.payee)
			require.Len(t, transfers, 3)
			require.Equal(t, chain.Address(m.chain.Buyers[1]), transfers[2].From)
		})
	}
}

// visitByMPP lets the client pay twice, which does so natively: its credential stands in a field of the request.
func (m *market) visitByMPP(buyer *ecdsa.PrivateKey, field string) {
	m.Helper()
	t := m.T
	var visit struct {
		Requests   [][]string
		Status     int
		Receipt    *mppReceipt
		Body       string
		Capability json.RawMessage
		Result     struct {
			toolResult
			Receipt *mppReceipt
		}
	}
	node.Visit(t, node.AgentMPP, m.base, buyer, &visit)

	require.Equal(t, http.StatusOK, visit.Status, visit.Body)
	require.Len(t, visit.Requests, 2)
	require.NotContains(t, visit.Requests[0], field)
	require.Contains(t, visit.Requests[1], field)
	for _, request := range visit.Requests {
		require.Contains(t, request, "accept-payment")
		require.NotContains(t, request, "payment-signature")
	}
	require.JSONEq(t, `{"methods":{"evm":{"intents":["charge"]}}}`, string(visit.Capability))
	require.False(t, visit.Result.IsError, "%s", visit.Result.StructuredContent)
	require.True(t, visit.Result.terms(t).Paid)
	require.Equal(t, visit.Result.Receipt.Reference.Hex(), visit.Result.terms(t).Transaction)

	transfers := m.chain.TransfersTo(t, m.payee)
	require.Len(t, transfers, 2, "two purchases")
	for i, receipt := range []*mppReceipt{visit.Receipt, visit.Result.Receipt} {
		require.NotNil(t, receipt)
		require.NotEmpty(t, receipt.ChallengeID)
		require.Equal(t, mppReceipt{"evm", "success", receipt.ChallengeID, transfers[i].Tx, chain.ID}, *receipt)
		require.Equal(t, chain.Address(buyer), transfers[i].From)
	}
}

// validateMPP lets the validator look at the offer from its description to a real payment. It sends that once, so that the
// service must know its facilitator already.
func (m *market) validateMPP(buyer *ecdsa.PrivateKey) {
	m.Helper()
	t := m.T
	command := exec.CommandContext(t.Context(), "node", "--import", node.Bundle(t, "public-rpc.mjs"), node.Bundle(t, "mppx.mjs"), "validate", m.base, "--yes", "--output-json")
	command.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "RPC_URL=" + m.chain.URL, "NO_UPDATE_NOTIFIER=1",
		"MPPX_PRIVATE_KEY=" + hexutil.Encode(crypto.FromECDSA(buyer)),
	}
	output, err := command.Output()
	require.NoError(t, err, "%s", output)
	type verdict struct{ Label, Severity, Detail string }
	var report struct {
		Summary   struct{ Passed, Failed, Warnings, Suggested, Skipped int }
		Discovery struct{ Checks []verdict }
		Endpoints []struct {
			Method, Path                      string
			Challenge, ErrorHandling, Payment []verdict
		}
	}
	require.NoError(t, json.Unmarshal(output, &report), "%s", output)
	require.Len(t, report.Endpoints, 1)
	sponsor := report.Endpoints[0]
	require.Equal(t, "POST /v1/sponsor", sponsor.Method+" "+sponsor.Path)
	for _, checks := range [][]verdict{report.Discovery.Checks, sponsor.Challenge, sponsor.ErrorHandling, sponsor.Payment} {
		require.NotEmpty(t, checks)
		for _, check := range checks {
			require.Equal(t, "pass", check.Severity, "%s: %s", check.Label, check.Detail)
		}
	}
}
