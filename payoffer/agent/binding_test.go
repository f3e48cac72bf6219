package agent

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestClientOfTheExtensionGetsAResultOfItsOwn(t *testing.T) {
	e, taken := shop(t, rejected)
	call := func(payment string) (r struct {
		ResultType      string
		PaymentRequired map[string]any
		IsError         *bool
		Meta            map[string]json.RawMessage `json:"_meta"`
	}) {
		body := stateless("tools/call", `"name":"first_42_sponsor",`)
		body = body[:len(body)-len(`{}}}}`)] + `{"extensions":{"org.x402/payment":{}}}` + payment + `}}}`
		response := post(t, e, body, "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "first_42_sponsor")
		require.Equal(t, http.StatusOK, response.StatusCode)
		a := decode(t, response)
		require.NoError(t, json.Unmarshal(a.Result, &r))
		return r
	}
	r := call("")
	require.Equal(t, "payment_required", r.ResultType)
	require.Nil(t, r.IsError)
	require.Equal(t, unpaid, r.PaymentRequired["error"])
	require.Len(t, r.PaymentRequired["accepts"], 1)
	require.Contains(t, r.Meta, "io.modelcontextprotocol/serverInfo")
	require.NotContains(t, r.Meta, "x402/error", "it stands in the result once")

	r = call(`,"x402/payment":{}`)
	require.Equal(t, "payment_required", r.ResultType)
	require.Contains(t, r.PaymentRequired["error"], rejected.Reason)

	taken.outcome = settled
	r = call(`,"x402/payment":{}`)
	require.Equal(t, "complete", r.ResultType)
	require.Contains(t, r.Meta, "x402/payment-response")

	taken.outcome = open
	require.Equal(t, "complete", call(`,"x402/payment":{}`).ResultType, "an open payment is not demanded again")
}

func TestExtensionIsAnnouncedWhereItCanBeUsed(t *testing.T) {
	discover := func(c Config) string {
		return string(decode(t, post(t, newEndpoint(t, c), stateless("server/discover", ""), "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "server/discover")).Result)
	}
	c := config(t, public)
	require.Contains(t, discover(c), `"extensions":{"org.x402/payment":{}}`)
	c.Offer, c.Payments = newOffer(t, public, false), new(payments)
	require.NotContains(t, discover(c), "org.x402/payment")
}
