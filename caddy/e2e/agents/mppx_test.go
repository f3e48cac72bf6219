package agents

import (
	"crypto/ecdsa"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/node"
)

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
	command := exec.CommandContext(t.Context(), "node", "--import", "./public-rpc.mjs", "node_modules/.bin/mppx", "validate", m.base, "--yes", "--output-json")
	command.Dir = lab.Path(t, "caddy/e2e/node")
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
