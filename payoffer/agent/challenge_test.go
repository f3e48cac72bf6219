package agent

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/mpp"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// challenging is an endpoint that speaks the Payment scheme and whose payments come
// to one outcome.
func challenging(t testing.TB, outcome x402.Outcome) (*Endpoint, *payments) {
	t.Helper()
	c, taken := config(t, func(t *offer.Terms) { t.MPP = "Authorization" }), takesUSDC()
	taken.outcome, c.Payments = outcome, taken
	c.Challenges = mpp.New(c.Offer, c.Offer.BaseURL, func() []byte { return []byte("secret") }, func() time.Time { return time.Unix(1_763_724_000, 0) })
	return newEndpoint(t, c), taken
}

// demanded is what a result challenges with.
type demanded struct {
	HTTPStatus int
	Challenges []json.RawMessage
	Problem    *mpp.Problem
}

func challengesOf(t *testing.T, r toolResult) (d demanded) {
	t.Helper()
	require.NoError(t, json.Unmarshal(r.Meta["org.paymentauth/payment-required"], &d))
	require.Equal(t, 402, d.HTTPStatus)
	require.Len(t, d.Challenges, 1)
	return d
}

func credential(challenge json.RawMessage) string {
	return `{"challenge":` + string(challenge) + `,"payload":{"type":"authorization","from":"` + payTo + `"}}`
}

func TestAnUnpaidCallIsChallengedBesideTheDemandOfX402(t *testing.T) {
	e, _ := challenging(t, settled)
	first, second := callTool(t, e, `{"name":"first_42_sponsor"}`), callTool(t, e, `{"name":"first_42_sponsor"}`)
	require.Contains(t, first.Meta, "x402/error")
	challenge := challengesOf(t, first).Challenges[0]
	require.NotEqual(t, string(challenge), string(challengesOf(t, second).Challenges[0]))
	var c struct {
		ID, Realm, Method, Intent, Expires string
		Request                            map[string]any
	}
	require.NoError(t, json.Unmarshal(challenge, &c))
	require.Equal(t, []string{"pay.example.org", "evm", "charge", "2025-11-21T11:25:00Z"}, []string{c.Realm, c.Method, c.Intent, c.Expires})
	require.Equal(t, "42000000", c.Request["amount"])
	require.Nil(t, challengesOf(t, first).Problem)
	none, _ := shop(t, settled)
	require.NotContains(t, callTool(t, none, `{"name":"first_42_sponsor"}`).Meta, "org.paymentauth/payment-required")
}

func TestACredentialIsTakenInTheParametersAndInTheMessage(t *testing.T) {
	e, taken := challenging(t, settled)
	for name, body := range map[string]string{
		"parameters": `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"first_42_sponsor","_meta":{"org.paymentauth/credential":CREDENTIAL}}}`,
		"message":    `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"first_42_sponsor"},"_meta":{"org.paymentauth/credential":CREDENTIAL}}`,
	} {
		challenge := challengesOf(t, callTool(t, e, `{"name":"first_42_sponsor"}`)).Challenges[0]
		taken.attempts = nil
		a := decode(t, post(t, e, strings.Replace(body, "CREDENTIAL", credential(challenge), 1)))
		var r toolResult
		require.NoError(t, json.Unmarshal(a.Result, &r), name)
		require.False(t, r.IsError, name)
		require.Len(t, taken.attempts, 1, name)
		require.Contains(t, string(taken.attempts[0].Payload), `"network":"eip155:8453"`)
		var id struct{ ID string }
		require.NoError(t, json.Unmarshal(challenge, &id))
		var receipt mpp.Receipt
		require.NoError(t, json.Unmarshal(r.Meta["org.paymentauth/receipt"], &receipt))
		require.Equal(t, "success", receipt.Status)
		require.Equal(t, id.ID, receipt.ChallengeID)
		require.Equal(t, transaction, receipt.Reference)
		require.EqualValues(t, 8453, receipt.ChainID)
		require.NotContains(t, r.Meta, "x402/payment-response")
		require.NotContains(t, r.Meta, "org.paymentauth/payment-required")
		require.Equal(t, true, terms42(t, r)["paid"])
	}
}

func TestARefusedCredentialIsChallengedAgainAndToldWhy(t *testing.T) {
	const types = "https://paymentauth.org/problems/"
	challenge := func(e *Endpoint) json.RawMessage {
		return challengesOf(t, callTool(t, e, `{"name":"first_42_sponsor"}`)).Challenges[0]
	}
	for name, c := range map[string]struct {
		outcome x402.Outcome
		meta    func(e *Endpoint) string
		problem string
		sent    int
	}{
		"refused":                 {rejected, func(e *Endpoint) string { return `"org.paymentauth/credential":` + credential(challenge(e)) }, types + "verification-failed", 1},
		"no JSON of a credential": {settled, func(*Endpoint) string { return `"org.paymentauth/credential":"e30"` }, types + "malformed-credential", 0},
		"of another method": {settled, func(e *Endpoint) string {
			return `"org.paymentauth/credential":` + credential([]byte(strings.Replace(string(challenge(e)), `"evm"`, `"tempo"`, 1)))
		}, types + "method-unsupported", 0},
		"beside x402": {settled, func(e *Endpoint) string {
			return `"x402/payment":{},"org.paymentauth/credential":` + credential(challenge(e))
		}, "", 0},
		"beside another in the message": {settled, func(e *Endpoint) string {
			return `"org.paymentauth/credential":` + credential(challenge(e)) + `}},"_meta":{"org.paymentauth/credential":` + credential(challenge(e))
		}, "", 0},
		"beside x402 in the message": {settled, func(e *Endpoint) string {
			return `"org.paymentauth/credential":` + credential(challenge(e)) + `}},"_meta":{"x402/payment":{}`
		}, "", 0},
	} {
		e, taken := challenging(t, c.outcome)
		var r toolResult
		closing := map[bool]string{true: "}", false: "}}"}[strings.Contains(name, "in the message")]
		a := decode(t, post(t, e, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"first_42_sponsor","_meta":{`+c.meta(e)+closing+`}`))
		require.NoError(t, json.Unmarshal(a.Result, &r), name)
		require.True(t, r.IsError, name)
		require.Len(t, taken.attempts, c.sent, name)
		d := challengesOf(t, r)
		if c.problem == "" {
			require.Nil(t, d.Problem, name)
			require.Contains(t, terms42(t, r)["error"], "none was sent")
			continue
		}
		require.Equal(t, c.problem, d.Problem.Type, name)
	}
	for _, outcome := range []x402.Outcome{open, unavailable, conflict, limited} {
		e, _ := challenging(t, outcome)
		r := callTool(t, e, `{"name":"first_42_sponsor","_meta":{"org.paymentauth/credential":`+credential(challenge(e))+`}}`)
		require.True(t, r.IsError)
		require.NotContains(t, r.Meta, "org.paymentauth/payment-required", "whoever is challenged signs again")
		require.NotContains(t, r.Meta, "org.paymentauth/receipt")
	}
}
