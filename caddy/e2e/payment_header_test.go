package e2e

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
)

// headerSchemas are the schemas of the payment headers of POST /v1/sponsor by name, as the description at url has them. They
// decode a header and validate its content. They are closed, so that a member that is not described fails.
func headerSchemas(t *testing.T, url string) map[string]*jsonschema.Schema {
	t.Helper()
	_, text := get(t, url)
	whole := lab.Must(jsonschema.UnmarshalJSON(strings.NewReader(text)))(t).(object)
	for _, schema := range whole["components"].(object)["schemas"].(object) {
		schema.(object)["additionalProperties"] = false
	}
	const file, operation = "https://schemas.example/openapi.json", "/paths/~1v1~1sponsor/post"
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.AssertContent()
	require.NoError(t, compiler.AddResource(file, whole))
	all := make(map[string]*jsonschema.Schema)
	for name, at := range map[string]string{
		"PAYMENT-SIGNATURE": operation + "/parameters/0/schema", "X-PAYMENT": operation + "/parameters/1/schema",
		"PAYMENT-REQUIRED":   operation + "/responses/402/headers/PAYMENT-REQUIRED/schema",
		"PAYMENT-RESPONSE":   operation + "/responses/200/headers/PAYMENT-RESPONSE/schema",
		"X-PAYMENT-RESPONSE": operation + "/responses/200/headers/X-PAYMENT-RESPONSE/schema",
	} {
		all[name] = lab.Must(compiler.Compile(file + "#" + at))(t)
	}
	return all
}

// inBase64 is the base64 of JSON.
func inBase64(t *testing.T, content any) string {
	t.Helper()
	return base64.StdEncoding.EncodeToString(lab.Must(json.Marshal(content))(t))
}

// TestPaymentHeadersFollowTheirSchemas pays by both versions and is refused, and compares every header with its schema.
func TestPaymentHeadersFollowTheirSchemas(t *testing.T) {
	readTexts(t)
	sale := startSale(t)
	d := describe(t, sale.service)
	schemas := headerSchemas(t, sale.service+"/openapi.json")
	seen := map[string]int{}
	send := func(status int, headers ...string) {
		answer, body := d.ask(t, http.MethodPost, "/v1/sponsor", "/v1/sponsor", "", headers...)
		require.Equal(t, status, answer.StatusCode, "%s", body)
		all := answer.Header
		if len(headers) > 0 {
			all.Set(headers[0], headers[1])
		}
		for name, schema := range schemas {
			if value := all.Get(name); value != "" {
				require.NoError(t, schema.Validate(value), name)
				seen[name]++
			}
		}
	}
	pay := func(version, buyer, status int) object {
		a := chain.NewAuthorization(t, chain.Address(sale.chain.Buyers[buyer]), sale.payee, price)
		signature := a.Sign(t, sale.chain.Buyers[buyer])
		sale.settle = func() common.Hash { return sale.chain.Transact(t, sale.chain.Facilitator, a.Call(t, signature)).TxHash }
		payload := a.Payload(signature)
		if version == 1 {
			send(status, "X-PAYMENT", inBase64(t, object{
				"x402Version": 1, "scheme": "exact", "network": "base-sepolia", "payload": payload["payload"],
			}))
		} else {
			send(status, "PAYMENT-SIGNATURE", inBase64(t, payload))
		}
		return payload
	}
	send(http.StatusPaymentRequired)
	payload := pay(2, 0, http.StatusOK)
	pay(2, 1, http.StatusPaymentRequired)
	pay(1, 0, http.StatusOK)
	require.Equal(t, map[string]int{"PAYMENT-SIGNATURE": 2, "X-PAYMENT": 1, "PAYMENT-REQUIRED": 2, "PAYMENT-RESPONSE": 1, "X-PAYMENT-RESPONSE": 1}, seen)

	v2, v1 := schemas["PAYMENT-SIGNATURE"], schemas["X-PAYMENT"]
	require.Error(t, v2.Validate("no payment"))
	require.Error(t, v2.Validate(base64.StdEncoding.EncodeToString([]byte("{"))))
	require.Error(t, v1.Validate(inBase64(t, payload)), "a payment of version 2")
	signed := payload["payload"].(map[string]any)
	authorization := object{}
	require.NoError(t, json.Unmarshal(lab.Must(json.Marshal(signed["authorization"]))(t), &authorization))
	signed["authorization"] = authorization
	require.NoError(t, v2.Validate(inBase64(t, payload)))
	for _, wrong := range []struct {
		of    object
		name  string
		value any
	}{
		{payload, "x402Version", 1}, {payload, "accepted", nil}, {payload, "payload", hexutil.Encode([]byte("x"))}, {payload, "unknown", true},
		{signed, "signature", "0x0"}, {signed, "authorization", nil}, {authorization, "from", "vitalik.eth"}, {authorization, "to", nil},
		{authorization, "value", 42_000_000}, {authorization, "validBefore", "soon"}, {authorization, "validAfter", "-1"}, {authorization, "nonce", "0x01"},
	} {
		right, had := wrong.of[wrong.name]
		wrong.of[wrong.name] = wrong.value
		require.Error(t, v2.Validate(inBase64(t, payload)), "%s: %v", wrong.name, wrong.value)
		delete(wrong.of, wrong.name)
		if had {
			require.Error(t, v2.Validate(inBase64(t, payload)), "without %s", wrong.name)
			wrong.of[wrong.name] = right
		}
	}
}
