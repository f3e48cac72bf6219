package agent

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// What an agent can read has no link to totals that are private.
func TestNoLinkToPrivateTotals(t *testing.T) {
	private := func(o *offer.Terms) { o.PrivateReceived = true }
	for name, body := range map[string]string{
		"tools":   `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`,
		"tool":    `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"first_42_sponsor"}}`,
		"message": `{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{"messageId":"m","role":"user","parts":[{"kind":"text","text":"pay"}]}}}`,
		"push":    `{"jsonrpc":"2.0","id":1,"method":"tasks/pushNotificationConfig/get"}`,
		"start":   `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}`,
	} {
		answer := must(io.ReadAll(post(t, newEndpoint(t, config(t, private)), body).Body))(t)
		require.NotEmpty(t, answer)
		require.NotContains(t, string(answer), "/v1/received", name)
		answer = must(io.ReadAll(post(t, newEndpoint(t, config(t, public)), body).Body))(t)
		if name == "tool" || name == "message" {
			require.Contains(t, string(answer), "https://pay.example.org/v1/received", name)
		}
	}
}
