package attack

import (
	"crypto/rand"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The calldata of a settled payment is public. Only the payer learns the receipt's address by it, before and after the
// payer asks again.
func TestAPaymentFromCalldataLearnsNoReceipt(t *testing.T) {
	t.Parallel()
	m := openMarket(t, 6)
	facilitator := m.facilitator()
	s := openShop(m, m.payee(), unlimited, rail{"base-sepolia", m.chain.URL, []string{facilitator}})
	const receipt = "/v1/receipt/"
	for way, proves := range map[string]bool{
		"HTTP version 2": true, "MPP": true, "MPP over MCP": true, "MCP": true, "A2A": true, "HTTP version 1": false,
	} {
		p := s.sign(s.buyer())
		p.token = rand.Text()
		paid := s.followBy(transports[way], p, func(a answer) bool { return a.status == http.StatusOK })
		require.Contains(t, paid[0].text, receipt, way)
		for range 2 {
			for _, token := range []string{"", rand.Text()} {
				for _, by := range []string{"HTTP version 2", "HTTP version 1", "MCP", "A2A"} {
					rebuilt := p
					rebuilt.token = token
					got := transports[by](t.Context(), s, rebuilt)
					require.Equal(t, http.StatusOK, got.status, got.text)
					require.True(t, got.names(p))
					require.NotContains(t, got.text, receipt, "%s, rebuilt as %s", way, by)
				}
			}
			again := transports[way](t.Context(), s, p)
			require.Equal(t, http.StatusOK, again.status, again.text)
			require.Equal(t, proves, strings.Contains(again.text, receipt), "%s: %s", way, again.text)
		}
	}
}
