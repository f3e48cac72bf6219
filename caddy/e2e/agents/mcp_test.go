package agents

import (
	"encoding/json"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/node"
	"github.com/payoffer/caddy-pay-offer/payoffer/document"
)

// toolResult is the result of tools/call.
type toolResult struct {
	IsError bool `json:"isError"`
	Content []struct{ Type, Text string }
	// StructuredContent stands in the text too.
	StructuredContent json.RawMessage `json:"structuredContent"`
	Meta              struct {
		Payment *settlement `json:"x402/payment-response"`
	} `json:"_meta"`
}

func (r toolResult) terms(t testing.TB) (terms struct {
	AmountUSD   float64
	Paid        bool
	Status      string
	Error       string
	Methods     []struct{ Rail string }
	Transaction string
}) {
	t.Helper()
	require.Len(t, r.Content, 1)
	require.Equal(t, "text", r.Content[0].Type)
	require.JSONEq(t, string(r.StructuredContent), r.Content[0].Text)
	require.NoError(t, json.Unmarshal(r.StructuredContent, &terms))
	require.EqualValues(t, 42, terms.AmountUSD)
	return terms
}

// requireQuote checks that a result quotes every rail, and demands a payment.
func (r toolResult) requireQuote(t testing.TB) {
	t.Helper()
	require.True(t, r.IsError)
	terms := r.terms(t)
	require.False(t, terms.Paid)
	require.Contains(t, terms.Error, "charges nothing")
	rails := make(map[string]bool)
	for _, method := range terms.Methods {
		rails[method.Rail] = true
	}
	require.Equal(t, map[string]bool{"card": true, "usdc": true}, rails)
}

func TestOfficialTypeScriptClientPaysByMCP(t *testing.T) {
	m := openMarket(t)
	buyer := m.chain.Buyers[0]
	var visit struct {
		Tools              []string
		Quote, Paid, Again toolResult
	}
	node.Visit(t, node.AgentMCP, m.base, buyer, &visit)
	require.Equal(t, []string{document.ToolName}, visit.Tools)
	visit.Quote.requireQuote(t)
	for _, result := range []toolResult{visit.Paid, visit.Again} {
		require.False(t, result.IsError)
		require.True(t, result.terms(t).Paid)
		require.NotNil(t, result.Meta.Payment)
		m.requirePaid(buyer, *result.Meta.Payment)
	}
}

func TestOfficialGoClientPaysByMCP(t *testing.T) {
	m := openMarket(t)
	session, err := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1"}, nil).
		Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: m.base + "/mcp"}, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = session.Close() })
	call := func(meta mcp.Meta) (result toolResult) {
		called, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: document.ToolName, Meta: meta})
		require.NoError(t, err)
		decode(t, called, &result)
		return result
	}
	quote := call(nil)
	quote.requireQuote(t)

	buyer := m.chain.Buyers[0]
	payment := m.sign(quote.StructuredContent, buyer)
	forged := m.sign(quote.StructuredContent, m.chain.Buyers[1])
	forged["payload"].(map[string]any)["authorization"] = payment["payload"].(map[string]any)["authorization"]
	var refused, paid toolResult
	m.settled(func() string {
		refused = call(mcp.Meta{"x402/payment": forged})
		return refused.terms(t).Status
	})
	require.True(t, refused.IsError)
	require.Contains(t, refused.terms(t).Error, "signature")
	require.Empty(t, m.chain.TransfersTo(t, m.payee))

	m.settled(func() string {
		paid = call(mcp.Meta{"x402/payment": payment})
		return paid.terms(t).Status
	})
	require.False(t, paid.IsError, "%s", paid.StructuredContent)
	require.NotNil(t, paid.Meta.Payment)
	m.requirePaid(buyer, *paid.Meta.Payment)
	require.Equal(t, paid.Meta.Payment.Transaction.Hex(), paid.terms(t).Transaction)
}
