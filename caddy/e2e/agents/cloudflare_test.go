package agents

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/node"
)

// Its buyer sends the payment as text, where the specification has an object.
func TestCloudflaresClientPaysByMCP(t *testing.T) {
	lab.RequirePackages(t, "caddy/e2e/node/cloudflare")
	m := openMarket(t)
	buyer := m.chain.Buyers[0]
	var paid toolResult
	node.Visit(t, node.AgentCloudflare, m.base, buyer, &paid)
	require.False(t, paid.IsError, "%s", paid.StructuredContent)
	require.True(t, paid.terms(t).Paid)
	require.NotNil(t, paid.Meta.Payment)
	m.requirePaid(buyer, *paid.Meta.Payment)
}
