package agent

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/document"
	"github.com/payoffer/caddy-pay-offer/payoffer/mpp"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

const (
	transaction = "0x1f2e3d4c5b6a79880716253443526170f0e1d2c3b4a5968778695a4b3c2d1e0f"
	payer       = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C"
	// paying is written as no encoder would: what is signed is passed on byte
	// for byte.
	paying = `{"x402Version" : 2,"payload":{},"big":9007199254740993}`
)

// Outcomes of a payment.
var (
	settled = x402.Outcome{Status: x402.Settled, Version: 2, Evidence: "seen", AmountUSD: 4200, Response: &x402.SettleResponse{
		Success: true, Transaction: transaction, Network: "eip155:8453", Payer: payer, Amount: "42000000",
		Extensions: map[string]json.RawMessage{"offer-receipt": json.RawMessage(`{"info":{"receipt":{"format":"jws"}}}`)},
	}}
	rejected = x402.Outcome{Status: x402.Refused, Version: 2, Reason: "invalid_exact_evm_signature", Detail: "The signature is not the payer's."}
	canceled = x402.Outcome{Status: x402.Refused, Version: 2, Reason: "authorization_canceled", Detail: "It did not happen.",
		Response: &x402.SettleResponse{ErrorReason: "authorization_canceled", Network: "eip155:8453", Payer: payer}}
	malformed   = x402.Outcome{Status: x402.Malformed, Reason: "invalid_payload", Detail: "The payment payload is not usable."}
	open        = x402.Outcome{Status: x402.Open, Reason: "settlement_unknown", Intent: "0xabc", RetryAfter: 9500 * time.Millisecond, Detail: "Its outcome is not known yet."}
	unavailable = x402.Outcome{Status: x402.Unavailable, Reason: "facilitator_unavailable", RetryAfter: 10 * time.Second}
	limited     = x402.Outcome{Status: x402.Limited, Reason: "rate_limited", RetryAfter: time.Millisecond}
	conflict    = x402.Outcome{Status: x402.Conflict, Reason: "authorization_in_use", Detail: "Send the first one again."}
)

// shop is an endpoint whose payments come to one outcome.
func shop(t testing.TB, outcome x402.Outcome) (*Endpoint, *payments) {
	t.Helper()
	c := config(t, public)
	taken := takesUSDC()
	taken.outcome = outcome
	c.Payments = taken
	return newEndpoint(t, c), taken
}

func payByTool(t testing.TB, e *Endpoint, payload string) toolResult {
	t.Helper()
	return callTool(t, e, `{"name":"first_42_sponsor","_meta":{"x402/payment":`+payload+`}}`)
}

func TestUnpaidToolCallRequiresPayment(t *testing.T) {
	e, taken := shop(t, settled)
	taken.extensions = map[string]json.RawMessage{"bazaar": json.RawMessage(`{"info":{}}`)}
	want := taken.Required(unpaid)
	tokens := map[string]bool{takeToken(t, want): true}
	var r toolResult
	for range 2 {
		r = callTool(t, e, `{"name":"first_42_sponsor"}`)
		require.True(t, r.IsError)
		require.JSONEq(t, string(r.Structured), r.Content[0].Text)
		require.Empty(t, taken.attempts)
		for _, object := range []json.RawMessage{r.Structured, r.Meta["x402/error"]} {
			var required x402.PaymentRequired
			require.NoError(t, json.Unmarshal(object, &required))
			tokens[takeToken(t, required)] = true
			require.Equal(t, want, required)
		}
	}
	require.Len(t, tokens, 3, "both members of a result have one, and every result has its own")
	require.Len(t, terms42(t, r)["methods"], len(newOffer(t, public, true).Methods(offer.Live{})), "a plain model finds every rail in the same object")
}

func TestToolWithoutUSDCRequiresNoPayment(t *testing.T) {
	c := config(t, public)
	none := &payments{outcome: rejected}
	c.Offer, c.Payments = newOffer(t, public, false), none
	e := newEndpoint(t, c)
	r := callTool(t, e, `{"name":"first_42_sponsor"}`)
	require.False(t, r.IsError)
	require.NotContains(t, r.Meta, "x402/error")
	for _, name := range []string{"accepts", "x402Version", "sponsor", "hint", "error", "resource"} {
		require.NotContains(t, terms42(t, r), name)
	}
	require.Contains(t, terms42(t, r), "fallback")

	r = payByTool(t, e, `{}`)
	require.True(t, r.IsError)
	require.Contains(t, terms42(t, r)["error"], rejected.Reason)
	require.NotContains(t, terms42(t, r), "accepts")
}

func TestToolPaymentSettles(t *testing.T) {
	e, taken := shop(t, settled)
	r := payByTool(t, e, paying)
	require.Equal(t, []x402.Attempt{{Payload: []byte(paying), Client: "192.0.2.7"}}, taken.attempts)
	require.Equal(t, []bool{true}, taken.written, "the charge is acknowledged")
	require.False(t, r.IsError)
	require.JSONEq(t, string(document.Line(settled.Response)), string(r.Meta["x402/payment-response"]))
	require.NotContains(t, r.Meta, "x402/error")
	found := terms42(t, r)
	require.Equal(t, true, found["paid"])
	require.Equal(t, "seen", found["status"])
	require.Equal(t, transaction, found["transaction"])
	require.Equal(t, payer, found["payer"])
	require.EqualValues(t, 42, found["amountUsd"])
	require.Equal(t, "https://pay.example.org/v1/received", found["received"])
	require.Equal(t, receiptURL(settled), found["receiptUrl"])
	require.NotContains(t, found, "methods", "a payer is not asked again")

	var schema jsonschema.Schema
	require.NoError(t, json.Unmarshal(document.Line(outputSchema), &schema))
	resolved := must(schema.Resolve(nil))(t)
	require.NoError(t, resolved.Validate(found))
	requireDescribed(t, &schema, found)
}

func TestRefusedToolPaymentAsksAgain(t *testing.T) {
	for _, outcome := range []x402.Outcome{rejected, canceled, malformed} {
		t.Run(outcome.Reason, func(t *testing.T) {
			e, taken := shop(t, outcome)
			r := payByTool(t, e, `{}`)
			require.True(t, r.IsError)
			require.JSONEq(t, string(r.Structured), r.Content[0].Text)
			found := terms42(t, r)
			require.Contains(t, found["error"], outcome.Reason)
			require.NotContains(t, found["error"], "othing was charged", "only the outcome itself may say so")
			require.Len(t, found["accepts"], len(taken.accepts))
			require.Contains(t, r.Meta, "x402/error")
			require.Equal(t, outcome.Response != nil, r.Meta["x402/payment-response"] != nil)
			require.NotContains(t, callTool(t, e, `{"name":"first_42_sponsor"}`).Content[0].Text, outcome.Reason, "the quote stays as it was")
		})
	}
}

// A client signs again whatever looks like a demand, and would pay twice.
func TestOpenPaymentNeverAsksForAnother(t *testing.T) {
	for _, test := range []struct {
		outcome             x402.Outcome
		status, says, state string
		retry               any
	}{
		{open, "open", "You may have been charged. Send the same payment again", "working", 10.0},
		{x402.Outcome{}, "open", "You may have been charged. Send the same payment again", "working", 1.0},
		{unavailable, "unavailable", "Send the same payment again", "input-required", 10.0},
		{limited, "limited", "Send the same payment again", "input-required", 1.0},
		{conflict, "conflict", conflict.Detail, "input-required", nil},
	} {
		t.Run(test.status, func(t *testing.T) {
			e, _ := shop(t, test.outcome)
			check := func(found map[string]any) {
				require.Equal(t, test.status, found["status"])
				require.Equal(t, false, found["paid"])
				require.Contains(t, found["detail"], test.says)
				require.Equal(t, test.retry, found["retryAfterSeconds"])
				for _, name := range []string{"x402Version", "accepts", "methods"} {
					require.NotContains(t, found, name)
				}
			}
			r := payByTool(t, e, `{}`)
			require.True(t, r.IsError)
			require.NotContains(t, r.Meta, "x402/error")
			check(terms42(t, r))

			task := payByMessage(t, e, `{}`)
			require.Equal(t, test.state, task.Status.State)
			require.NotContains(t, task.Status.Message.Metadata, "x402.payment.required")
			require.NotEqual(t, "payment-required", task.Status.Message.Metadata["x402.payment.status"])
			check(task.Status.Message.Parts[1].Data)
		})
	}
}

func TestNonObjectToolPayment(t *testing.T) {
	e, taken := shop(t, malformed)
	require.Equal(t, "payment required: this is a quote, which charges nothing", terms42(t, payByTool(t, e, `null`))["error"], "null is no payment")
	require.Empty(t, taken.attempts)
	for _, payload := range []string{`7`, `[]`} {
		taken.attempts = nil
		require.True(t, payByTool(t, e, payload).IsError)
		require.Equal(t, payload, string(taken.attempts[0].Payload))
	}
}

func TestPaymentForUnknownToolIsIgnored(t *testing.T) {
	e, taken := shop(t, settled)
	a := decode(t, post(t, e, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"other","_meta":{"x402/payment":{}}}}`))
	require.NotNil(t, a.Error)
	decode(t, post(t, e, `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"x402/payment":{}}}}`))
	require.Empty(t, taken.attempts)
}

// awkward has a byte string whose base64 differs between the alphabets and
// needs padding.
const awkward = `{"a":"??>>~~"}`

func TestToolPaymentEncodings(t *testing.T) {
	texts := map[string]string{"an object": awkward}
	for name, encoding := range map[string]*base64.Encoding{
		"standard": base64.StdEncoding, "standard unpadded": base64.RawStdEncoding,
		"url": base64.URLEncoding, "url unpadded": base64.RawURLEncoding,
	} {
		texts[name] = `"` + encoding.EncodeToString([]byte(awkward)) + `"`
	}
	texts["escaped as JSON may be"] = `"` + strings.ReplaceAll(base64.StdEncoding.EncodeToString([]byte(awkward)), "/", `\/`) + `"`
	for name, text := range texts {
		t.Run(name, func(t *testing.T) {
			e, taken := shop(t, settled)
			r := payByTool(t, e, text)
			require.False(t, r.IsError)
			require.Equal(t, []x402.Attempt{{Payload: []byte(awkward), Client: "192.0.2.7"}}, taken.attempts)
		})
	}
}

func TestMalformedToolPaymentIsNotSent(t *testing.T) {
	const largest = 32 << 10
	inBase64 := base64.StdEncoding.EncodeToString
	for _, c := range []struct{ name, text, complaint string }{
		{"no base64", "{}", "is not base64"},
		{"both alphabets at once", "+_+_", "is not base64"},
		{"nothing", "", "is not the base64 of JSON"},
		{"no JSON", inBase64([]byte("pay")), "is not the base64 of JSON"},
		{"JSON and more", inBase64([]byte("{}{}")), "is not the base64 of JSON"},
		{"too long", inBase64([]byte(`"` + strings.Repeat("x", largest+1) + `"`)), "is longer than 43692 bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, taken := shop(t, settled)
			r := payByTool(t, e, `"`+c.text+`"`)
			require.Empty(t, taken.attempts)
			require.True(t, r.IsError)
			found := terms42(t, r)
			require.Contains(t, found["error"], "invalid_payload: the text of x402/payment "+c.complaint)
			require.Contains(t, found["error"], "of its JSON. The payment was not sent.")
			require.Len(t, found["accepts"], len(taken.accepts), "the client is told again what to pay")
			require.Contains(t, r.Meta, "x402/error")
		})
	}
}

// challenging is an endpoint that speaks the Payment scheme and whose payments come
// to one outcome.
func challenging(t testing.TB, outcome x402.Outcome) (*Endpoint, *payments) {
	t.Helper()
	c, taken := config(t, func(t *offer.Terms) { t.MPP = "Authorization" }), takesUSDC()
	taken.outcome, c.Payments = outcome, taken
	c.Challenges = mpp.New(c.Offer, c.Offer.BaseURL, func() []byte { return []byte("secret") }, func() time.Time { return time.Unix(1_763_724_000, 0) }, c.Live)
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

func TestUnpaidToolCallHasMPPChallenge(t *testing.T) {
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

func TestMPPCredentialPlacement(t *testing.T) {
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

func TestRefusedMPPCredentialIsChallengedAgain(t *testing.T) {
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
