package agent

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"regexp"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/stretchr/testify/require"
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

func TestMessageSendAnswersTheOffer(t *testing.T) {
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

func TestSendMessageAnswersInTheNewerShape(t *testing.T) {
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

func TestAnswersFollowThePublishedSchema(t *testing.T) {
	text, err := os.ReadFile("../../caddy/e2e/testdata/schemas/a2a-0.3.0.schema.json")
	require.NoError(t, err)
	var schema jsonschema.Schema
	require.NoError(t, json.Unmarshal(text, &schema))
	e := newEndpoint(t, config(t, public))
	for definition, body := range map[string]string{
		"SendMessageSuccessResponse": js03,
		"JSONRPCErrorResponse":       `{"jsonrpc":"2.0","id":"a","method":"tasks/get","params":{"id":"t"}}`,
	} {
		schema.Ref = "#/definitions/" + definition
		resolved, err := schema.Resolve(nil)
		require.NoError(t, err)
		for _, extensions := range []string{"", extensionURI} {
			raw, err := io.ReadAll(post(t, e, body, "X-A2A-Extensions", extensions).Body)
			require.NoError(t, err)
			require.Equal(t, extensions != "" && body == js03, bytes.Contains(raw, []byte(`"kind":"task"`)))
			var answer any
			require.NoError(t, json.Unmarshal(raw, &answer))
			require.NoError(t, resolved.Validate(answer), definition)
		}
	}
}

func TestTheSameMessageHasTheSameAnswer(t *testing.T) {
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

func TestA2ARefusals(t *testing.T) {
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
