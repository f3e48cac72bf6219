package agent

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/document"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

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
	require.Equal(t, []string{extensionURI}, task.Status.Message.Extensions)
	return task, response
}

func payByMessage(t testing.TB, e *Endpoint, payload string) a2aTask {
	t.Helper()
	task, _ := sendTask(t, e, `,"metadata":{"x402.payment.status":"payment-submitted","x402.payment.payload":`+payload+`}`)
	return task
}

func TestActivatedExtensionDemandsPaymentByATask(t *testing.T) {
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
		required, err := json.Marshal(m.Metadata["x402.payment.required"])
		require.NoError(t, err)
		var got x402.PaymentRequired
		require.NoError(t, json.Unmarshal(required, &got))
		tokens[takeToken(t, got)] = true
		require.Equal(t, want, got)
	}
	require.Len(t, tokens, 3, "every answer has its own")
	require.Empty(t, taken.attempts)
}

func TestExtensionOfOthersIsNotActivated(t *testing.T) {
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

func TestPaymentByMessageCompletesItsTask(t *testing.T) {
	e, taken := shop(t, settled)
	demanded, _ := sendTask(t, e, "", "X-A2A-Extensions", extensionURI)
	paid, _ := sendTask(t, e, `,"taskId":"`+demanded.ID+`","metadata":{"x402.payment.status":"payment-submitted","x402.payment.payload":`+paying+`}`)
	require.Equal(t, demanded.ID, paid.ID)
	require.Equal(t, demanded.ContextID, paid.ContextID)
	require.Equal(t, []x402.Attempt{{Payload: []byte(paying), Client: "192.0.2.7"}}, taken.attempts)
	require.Equal(t, "completed", paid.Status.State)
	m := paid.Status.Message
	require.Equal(t, "payment-completed", m.Metadata["x402.payment.status"])
	receipts, err := json.Marshal(m.Metadata["x402.payment.receipts"])
	require.NoError(t, err)
	require.JSONEq(t, string(document.Line([]*x402.SettleResponse{settled.Response})), string(receipts))
	require.Equal(t, true, m.Parts[1].Data["paid"])
	require.Equal(t, receiptURL(settled), m.Parts[1].Data["receiptUrl"])
	require.Contains(t, m.Parts[0].Text, "do not pay again")
	require.Equal(t, paid, payByMessage(t, e, paying), "a payment needs no task that went before, and is answered again")
}

func TestPaymentByTheNewerVersion(t *testing.T) {
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

func TestRefusedPaymentFailsItsTask(t *testing.T) {
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
func TestConflictFailsNoTask(t *testing.T) {
	e, _ := shop(t, conflict)
	task := payByMessage(t, e, `{}`)
	require.Equal(t, "input-required", task.Status.State)
	m := task.Status.Message
	require.Equal(t, "payment-submitted", m.Metadata["x402.payment.status"])
	require.Equal(t, "DUPLICATE_NONCE", m.Metadata["x402.payment.error"])
	require.NotContains(t, m.Metadata, "x402.payment.receipts")
}

// A client that asks for a task by polling may have an undecided payment.
func TestNoAnswerAboutATaskSaysThatNothingWasCharged(t *testing.T) {
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

func TestDeclinedPaymentChargesNothing(t *testing.T) {
	e, taken := shop(t, settled)
	task, _ := sendTask(t, e, `,"taskId":"t","metadata":{"x402.payment.status":"payment-rejected"}`)
	require.Equal(t, "t", task.ID)
	require.Equal(t, "failed", task.Status.State)
	require.Equal(t, "payment-rejected", task.Status.Message.Metadata["x402.payment.status"])
	require.Empty(t, taken.attempts)
}
