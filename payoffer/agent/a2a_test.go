package agent

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"regexp"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/document"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// Requests as the reference clients send them: the JavaScript client 1.3.0 by
// A2A 0.3 and 1.0, the Go client 0.3.3.
const (
	js03 = `{"id":1,"jsonrpc":"2.0","method":"message/send","params":{"message":{"kind":"message","messageId":"m-1","role":"user","parts":[{"kind":"text","text":"how do I pay?"}]},"configuration":{"blocking":true,"acceptedOutputModes":[]}}}`
	js10 = `{"id":1,"jsonrpc":"2.0","method":"SendMessage","params":{"message":{"messageId":"m-1","role":"ROLE_USER","parts":[{"text":"how do I pay?"}]},"configuration":{}}}`
	go03 = `{"jsonrpc":"2.0","id":"0c4e1a5e-6c5e-4f8a-9d0f-2f1a8e7b6c5d","method":"message/send","params":{"message":{"kind":"message","messageId":"m-1","role":"user","parts":[{"kind":"text","text":"how do I pay?"}]}}}`
)

type a2aPart struct {
	Kind, Text, MediaType string
	Data                  map[string]any
}

type a2aMessage struct {
	Kind, MessageID, Role, ContextID, TaskID string
	Parts                                    []a2aPart
	Metadata                                 map[string]any
	Extensions                               []string
}

type a2aTask struct {
	Kind, ID, ContextID string
	Status              struct {
		State   string
		Message a2aMessage
	}
}

func TestA2AMessageSendReturnsOffer(t *testing.T) {
	e := newEndpoint(t, config(t, public))
	for _, body := range []string{js03, go03} {
		response := post(t, e, body, "Content-Type", "application/json", "A2A-Version", "0.3")
		require.Equal(t, http.StatusOK, response.StatusCode)
		var m a2aMessage
		require.NoError(t, json.Unmarshal(decode(t, response).Result, &m))
		require.Equal(t, "message", m.Kind)
		require.Equal(t, "agent", m.Role)
		require.NotEmpty(t, m.MessageID)
		require.NotEqual(t, "m-1", m.MessageID)
		require.Len(t, m.Parts, 2)
		require.Equal(t, "text", m.Parts[0].Kind)
		requireOffer(t, m.Parts[0].Text)
		require.Equal(t, "data", m.Parts[1].Kind)
		require.EqualValues(t, 42, m.Parts[1].Data["amountUsd"])
		require.Empty(t, m.Parts[0].MediaType, "a member of 1.0")
	}
}

func TestA2AVersion1SendMessage(t *testing.T) {
	response := post(t, newEndpoint(t, config(t, public)), js10, "Content-Type", "application/json", "Accept", "application/json", "A2A-Version", "1.0")
	require.Equal(t, http.StatusOK, response.StatusCode)
	var result struct{ Message a2aMessage }
	require.NoError(t, json.Unmarshal(decode(t, response).Result, &result))
	m := result.Message
	require.Empty(t, m.Kind, "a member of 0.3")
	require.Equal(t, "ROLE_AGENT", m.Role)
	require.Len(t, m.Parts, 2)
	require.Equal(t, "text/plain", m.Parts[0].MediaType)
	requireOffer(t, m.Parts[0].Text)
	require.Equal(t, "application/json", m.Parts[1].MediaType)
	require.EqualValues(t, 42, m.Parts[1].Data["amountUsd"])
}

func requireOffer(t testing.TB, text string) {
	t.Helper()
	require.Contains(t, text, "42 USD")
	require.Contains(t, text, "charges nothing")
	require.Contains(t, text, "https://checkout.example/pay?a=1&b=2\n")
	require.Contains(t, text, "ethereum:0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913@8453/transfer?")
	require.Contains(t, text, "bitcoin:"+bitcoin+"?amount=0.00045")
}

func TestA2AResponsesMatchSchema(t *testing.T) {
	text := must(os.ReadFile("../../caddy/e2e/testdata/schemas/a2a-0.3.0.schema.json"))(t)
	var schema jsonschema.Schema
	require.NoError(t, json.Unmarshal(text, &schema))
	e := newEndpoint(t, config(t, public))
	for definition, body := range map[string]string{
		"SendMessageSuccessResponse": js03,
		"JSONRPCErrorResponse":       `{"jsonrpc":"2.0","id":"a","method":"tasks/get","params":{"id":"t"}}`,
	} {
		schema.Ref = "#/definitions/" + definition
		resolved := must(schema.Resolve(nil))(t)
		for _, extensions := range []string{"", extensionURI} {
			raw := must(io.ReadAll(post(t, e, body, "X-A2A-Extensions", extensions).Body))(t)
			require.Equal(t, extensions != "" && body == js03, bytes.Contains(raw, []byte(`"kind":"task"`)))
			var answer any
			require.NoError(t, json.Unmarshal(raw, &answer))
			require.NoError(t, resolved.Validate(answer), definition)
		}
	}
}

func TestA2AResponseIsDeterministic(t *testing.T) {
	e := newEndpoint(t, config(t, public))
	token := regexp.MustCompile(`"token":"[A-Z2-7]{26}"`)
	send := func(id string) (m a2aMessage) {
		a := decode(t, post(t, e, `{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{"messageId":"`+id+`","role":"user","contextId":"c","parts":[{"kind":"text","text":"x"}]}}}`))
		require.NoError(t, json.Unmarshal(token.ReplaceAll(a.Result, []byte(`"token":""`)), &m))
		return m
	}
	require.Equal(t, send("a"), send("a"), "but for the token of the quote")
	require.NotEqual(t, send("a").MessageID, send("b").MessageID)
	require.Equal(t, "c", send("a").ContextID)
}

func TestA2AErrors(t *testing.T) {
	e := newEndpoint(t, config(t, public))
	send := func(message, configuration string) string {
		return `{"message":` + message + `,"configuration":` + configuration + `}`
	}
	for _, test := range []struct {
		method, params string
		code           int
	}{
		{"message/stream", `{}`, -32004},
		{"tasks/resubscribe", `{"id":"t"}`, -32004},
		{"SendStreamingMessage", `{}`, -32004},
		{"SubscribeToTask", `{"id":"t"}`, -32004},
		{"ListTasks", `{}`, -32004},
		{"tasks/get", `{"id":"t"}`, -32001},
		{"tasks/cancel", `{"id":"t"}`, -32001},
		{"GetTask", `{"id":"t"}`, -32001},
		{"CancelTask", `{"id":"t"}`, -32001},
		{"tasks/pushNotificationConfig/set", `{}`, -32003},
		{"tasks/pushNotificationConfig/get", `{}`, -32003},
		{"tasks/pushNotificationConfig/list", `{}`, -32003},
		{"tasks/pushNotificationConfig/delete", `{}`, -32003},
		{"CreateTaskPushNotificationConfig", `{}`, -32003},
		{"agent/getAuthenticatedExtendedCard", `{}`, -32007},
		{"GetExtendedAgentCard", `{}`, -32004},
		{"message/send", `{}`, -32602},
		{"message/send", `null`, -32602},
		{"message/send", send(`null`, `{}`), -32602},
		{"message/send", send(`{"role":"user","parts":[{}]}`, `{}`), -32602},
		{"message/send", send(`{"messageId":"a","role":"agent","parts":[{}]}`, `{}`), -32602},
		{"message/send", send(`{"messageId":"a","role":"user","parts":[]}`, `{}`), -32602},
		{"message/send", send(`{"messageId":"a","role":"user","parts":[null]}`, `{}`), -32602},
		{"message/send", send(`{"messageId":"a","role":"user","taskId":"t","parts":[{}]}`, `{}`), -32001},
		{"message/send", send(`{"messageId":"a","role":"user","parts":[{}]}`, `{"pushNotificationConfig":{"url":"https://x.example"}}`), -32003},
		{"message/send", send(`{"messageId":"a","role":"user","parts":[{}],"metadata":{"x402.payment.status":"payment-submitted"}}`, `{}`), -32602},
		{"message/send", send(`{"messageId":"a","role":"user","parts":[{}],"metadata":{"x402.payment.status":"payment-rejected","x402.payment.payload":{}}}`, `{}`), -32602},
		{"message/send", send(`{"messageId":"a","role":"user","parts":[{}],"metadata":{"x402.payment.status":1,"x402.payment.payload":{}}}`, `{}`), -32602},
		{"SendMessage", send(`{"messageId":"a","role":"user","parts":[{}]}`, `{}`), -32602},
		{"SendMessage", send(`{"messageId":"a","role":"ROLE_USER","parts":[{}]}`, `{"taskPushNotificationConfig":{"url":"https://x.example"}}`), -32003},
	} {
		t.Run(test.method+" "+test.params, func(t *testing.T) {
			response := post(t, e, `{"jsonrpc":"2.0","id":"a","method":"`+test.method+`","params":`+test.params+`}`)
			require.Equal(t, http.StatusOK, response.StatusCode)
			a := decode(t, response)
			require.NotNil(t, a.Error)
			require.Equal(t, test.code, a.Error.Code, a.Error.Message)
			require.NotEmpty(t, a.Error.Message)
			require.Equal(t, `"a"`, string(a.ID))
		})
	}
}

const extensionURI = "https://github.com/google-a2a/a2a-x402/v0.1"

// sendTask sends a message/send with members besides the least.
func sendTask(t testing.TB, e *Endpoint, members string, headers ...string) (task a2aTask, response *http.Response) {
	t.Helper()
	response = post(t, e, `{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{"kind":"message","messageId":"m-1","role":"user","parts":[{"kind":"text","text":"x"}]`+members+`}}}`, headers...)
	a := decode(t, response)
	require.Nil(t, a.Error, "%+v", a.Error)
	require.NoError(t, json.Unmarshal(a.Result, &task))
	require.Equal(t, "task", task.Kind)
	require.Equal(t, task.ID, task.Status.Message.TaskID)
	require.Equal(t, task.ContextID, task.Status.Message.ContextID)
	require.NotEmpty(t, task.ContextID)
	require.Equal(t, []string{cmp.Or(response.Header.Get("A2A-Extensions"), response.Header.Get("X-A2A-Extensions"), extensionURI)}, task.Status.Message.Extensions)
	return task, response
}

func payByMessage(t testing.TB, e *Endpoint, payload string) a2aTask {
	t.Helper()
	task, _ := sendTask(t, e, `,"metadata":{"x402.payment.status":"payment-submitted","x402.payment.payload":`+payload+`}`)
	return task
}

func TestX402ExtensionReturnsPaymentTask(t *testing.T) {
	e, taken := shop(t, settled)
	want := taken.Required(unpaid)
	tokens := map[string]bool{takeToken(t, want): true}
	for header, value := range map[string]string{"X-A2A-Extensions": extensionURI, "A2A-Extensions": "https://other.example/v1, " + extensionURI} {
		task, response := sendTask(t, e, "", header, value)
		require.Equal(t, extensionURI, response.Header.Get(header), "what is activated, and nothing else")
		require.Equal(t, "input-required", task.Status.State)
		require.NotEmpty(t, task.ID)
		m := task.Status.Message
		requireOffer(t, m.Parts[0].Text)
		require.EqualValues(t, 42, m.Parts[1].Data["amountUsd"])
		require.Equal(t, "payment-required", m.Metadata["x402.payment.status"])
		required := must(json.Marshal(m.Metadata["x402.payment.required"]))(t)
		var got x402.PaymentRequired
		require.NoError(t, json.Unmarshal(required, &got))
		tokens[takeToken(t, got)] = true
		require.Equal(t, want, got)
	}
	require.Len(t, tokens, 3, "every answer has its own")
	require.Empty(t, taken.attempts)
}

// Of several versions that a client has, the newest is activated.
func TestX402ExtensionVersions(t *testing.T) {
	const older, newer = extensionURI, "https://github.com/google-agentic-commerce/a2a-x402/blob/main/spec/v0.2"
	for value, want := range map[string]string{older: older, newer: newer, older + ", " + newer: newer, newer + "," + older: newer} {
		e, _ := shop(t, settled)
		task, response := sendTask(t, e, "", "A2A-Extensions", value)
		require.Equal(t, want, response.Header.Get("A2A-Extensions"))
		require.Equal(t, []string{want}, task.Status.Message.Extensions)
		require.Equal(t, "payment-required", task.Status.Message.Metadata["x402.payment.status"])
	}
}

func TestA2AUnknownVersionIsRefused(t *testing.T) {
	for version, known := range map[string]bool{"": true, "0.3": true, "0.3.0": true, "1.0": true, "1.0.1": true, "0.2": false, "2.0": false, "1": false, "x": false} {
		e, taken := shop(t, settled)
		answer := decode(t, post(t, e, js03, "A2A-Version", version))
		if known {
			require.Nil(t, answer.Error, version)
			continue
		}
		require.EqualValues(t, -32009, answer.Error.Code, version)
		require.Contains(t, answer.Error.Message, "send 0.3 or 1.0")
		require.Empty(t, taken.attempts)
	}
}

func TestOtherExtensionIsNotActivated(t *testing.T) {
	none := config(t, public)
	none.Offer, none.Payments = newOffer(t, public, false), new(payments)
	for name, ask := range map[string]struct {
		e   *Endpoint
		uri string
	}{
		"another extension": {newEndpoint(t, config(t, public)), extensionURI + "1"},
		"no USDC rail":      {newEndpoint(t, none), extensionURI},
	} {
		t.Run(name, func(t *testing.T) {
			response := post(t, ask.e, js03, "X-A2A-Extensions", ask.uri)
			require.Empty(t, response.Header.Get("X-A2A-Extensions"))
			var m a2aMessage
			require.NoError(t, json.Unmarshal(decode(t, response).Result, &m))
			require.Equal(t, "message", m.Kind)
			require.Empty(t, m.Metadata)
		})
	}
}

func TestA2APaymentCompletesTask(t *testing.T) {
	e, taken := shop(t, settled)
	demanded, _ := sendTask(t, e, "", "X-A2A-Extensions", extensionURI)
	paid, _ := sendTask(t, e, `,"taskId":"`+demanded.ID+`","metadata":{"x402.payment.status":"payment-submitted","x402.payment.payload":`+paying+`}`)
	require.Equal(t, demanded.ID, paid.ID)
	require.Equal(t, demanded.ContextID, paid.ContextID)
	require.Equal(t, []x402.Attempt{{Payload: []byte(paying), Client: "192.0.2.7"}}, taken.attempts)
	require.Equal(t, []bool{true}, taken.written, "the charge is acknowledged")
	require.Equal(t, "completed", paid.Status.State)
	m := paid.Status.Message
	require.Equal(t, "payment-completed", m.Metadata["x402.payment.status"])
	receipts := must(json.Marshal(m.Metadata["x402.payment.receipts"]))(t)
	require.JSONEq(t, string(document.Line([]*x402.SettleResponse{settled.Response})), string(receipts))
	require.Equal(t, true, m.Parts[1].Data["paid"])
	require.Equal(t, receiptURL(settled), m.Parts[1].Data["receiptUrl"])
	require.Contains(t, m.Parts[0].Text, "do not pay again")
	require.Equal(t, paid, payByMessage(t, e, paying), "a payment needs no task that went before, and is answered again")
}

func TestA2AVersion1Payment(t *testing.T) {
	e, taken := shop(t, settled)
	send := func(metadata string, headers ...string) (result struct{ Task a2aTask }) {
		a := decode(t, post(t, e, `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"x"}],"metadata":`+metadata+`}}}`, headers...))
		require.Nil(t, a.Error)
		require.NoError(t, json.Unmarshal(a.Result, &result))
		require.Empty(t, result.Task.Kind, "a member of 0.3")
		require.Equal(t, "ROLE_AGENT", result.Task.Status.Message.Role)
		return result
	}
	require.Equal(t, "TASK_STATE_INPUT_REQUIRED", send(`{}`, "A2A-Extensions", extensionURI).Task.Status.State)
	require.Equal(t, "TASK_STATE_COMPLETED", send(`{"x402.payment.payload":{}}`).Task.Status.State)
	taken.outcome = open
	require.Equal(t, "TASK_STATE_WORKING", send(`{"x402.payment.payload":{}}`).Task.Status.State)
}

func TestA2ARefusedPaymentFailsTask(t *testing.T) {
	reason := func(reason string) x402.Outcome { return x402.Outcome{Status: x402.Refused, Reason: reason} }
	for _, test := range []struct {
		outcome x402.Outcome
		code    string
	}{
		{rejected, "INVALID_SIGNATURE"},
		{malformed, "SETTLEMENT_FAILED"},
		{canceled, "SETTLEMENT_FAILED"},
		{reason("invalid_exact_evm_payload_authorization_valid_before"), "EXPIRED_PAYMENT"},
		{reason("authorization_expired"), "EXPIRED_PAYMENT"},
		{reason("invalid_exact_evm_insufficient_balance"), "INSUFFICIENT_FUNDS"},
		{reason("invalid_exact_evm_nonce_already_used"), "DUPLICATE_NONCE"},
		{reason("invalid_network"), "NETWORK_MISMATCH"},
		{reason("invalid_exact_evm_payload_authorization_value_mismatch"), "INVALID_AMOUNT"},
	} {
		t.Run(test.outcome.Reason, func(t *testing.T) {
			e, _ := shop(t, test.outcome)
			task := payByMessage(t, e, `{}`)
			require.Equal(t, "failed", task.Status.State)
			m := task.Status.Message
			require.Equal(t, "payment-failed", m.Metadata["x402.payment.status"])
			require.Equal(t, test.code, m.Metadata["x402.payment.error"])
			receipt := m.Metadata["x402.payment.receipts"].([]any)[0].(map[string]any)
			require.Equal(t, false, receipt["success"])
			require.Equal(t, test.outcome.Reason, receipt["errorReason"], "the exact reason")
			require.Equal(t, "", receipt["transaction"])
		})
	}
}

// Another payment, which was sent first, may be taken: nothing has failed, and
// nothing must be signed anew.
func TestA2AConflictKeepsTaskOpen(t *testing.T) {
	e, _ := shop(t, conflict)
	task := payByMessage(t, e, `{}`)
	require.Equal(t, "input-required", task.Status.State)
	m := task.Status.Message
	require.Equal(t, "payment-submitted", m.Metadata["x402.payment.status"])
	require.Equal(t, "DUPLICATE_NONCE", m.Metadata["x402.payment.error"])
	require.NotContains(t, m.Metadata, "x402.payment.receipts")
}

// A client that asks for a task by polling may have an undecided payment.
func TestA2ATaskErrorsNeverDenyCharge(t *testing.T) {
	e, _ := shop(t, open)
	for _, body := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"id":"t"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"t"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{"messageId":"m","role":"user","taskId":"t","parts":[{"kind":"text","text":"x"}]}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{"messageId":"m","role":"user","taskId":"t","parts":[{"kind":"text","text":"x"}],"metadata":{"x402.payment.status":"payment-submitted"}}}}`,
	} {
		answer := decode(t, post(t, e, body))
		require.NotNil(t, answer.Error, body)
		require.NotContains(t, answer.Error.Message, "othing was charged")
	}
}

func TestA2ADeclinedPaymentChargesNothing(t *testing.T) {
	e, taken := shop(t, settled)
	task, _ := sendTask(t, e, `,"taskId":"t","metadata":{"x402.payment.status":"payment-rejected"}`)
	require.Equal(t, "t", task.ID)
	require.Equal(t, "failed", task.Status.State)
	require.Equal(t, "payment-rejected", task.Status.Message.Metadata["x402.payment.status"])
	require.Empty(t, taken.attempts)
}
