package payoffer

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/logging"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// logged is the line of a request in a log with the filter at what the shipped Caddyfile
// has it at.
func logged(t *testing.T, request *http.Request, answer http.Header) map[string]any {
	t.Helper()
	encoder := new(logging.FilterEncoder)
	require.NoError(t, encoder.UnmarshalCaddyfile(caddyfile.NewTestDispenser("filter {\n request>uri pay_offer\n request>headers pay_offer\n resp_headers pay_offer\n}")))
	ctx, cancel := caddy.NewContext(caddy.Context{Context: t.Context()})
	t.Cleanup(cancel)
	require.NoError(t, encoder.Provision(ctx))
	line, err := encoder.EncodeEntry(zapcore.Entry{}, []zap.Field{
		zap.Object("request", caddyhttp.LoggableHTTPRequest{Request: request, ShouldLogCredentials: true}),
		zap.Object("resp_headers", caddyhttp.LoggableHTTPHeader{Header: answer, ShouldLogCredentials: true}),
	})
	require.NoError(t, err)
	var entry map[string]any
	require.NoError(t, json.Unmarshal(line.Bytes(), &entry))
	return entry
}

func TestALogContainsNoSecretOfAnAddress(t *testing.T) {
	const id = "cmVjZWlwdA.bWFj"
	for _, address := range []string{
		"/v1/receipt/" + id, "/v1/receipt/" + id + "/receipt.jws", "/v1/hook/tip-jar/" + id, "/V1/HOOK/tip-jar/" + id, "/v1//hook/tip-jar/" + id,
		"/v1/thanks?lang=de&session_id=" + id + "&a=b", "/elsewhere?next=/v1/receipt/" + id, "/v1/thanks?cs_live_" + id,
		"/v1/%72eceipt/" + id, "/v1/receipt%2F" + id, "/v1/h%6fok/tip-jar/" + id, "/v1/thanks?session%5fid=" + id, "/v1/%72eceipt/" + id + "?x=%zz", "/ȺȺȺȺȺȺȺȺȺȺ/v1/receipt/" + id,
	} {
		request := &http.Request{RequestURI: address, Header: http.Header{
			"Referer": {address, "https://other.example" + address}, "X-Original-Uri": {address}, "User-Agent": {"test"},
		}}
		entry := logged(t, request, http.Header{"Location": {address}, "Link": {"<" + address + ">; rel=next"}, "Etag": {"1"}})
		line, err := json.Marshal(entry)
		require.NoError(t, err)
		require.NotContains(t, string(line), id, address)
		require.Equal(t, 6, strings.Count(string(line), "REDACTED"), address)
		require.Contains(t, string(line), `"User-Agent":["test"]`, "other headers are logged")
	}
}

// Everyone who reads a payment can send it.
func TestALogContainsNoPayment(t *testing.T) {
	request, answer := make(http.Header), make(http.Header)
	for _, name := range []string{"PAYMENT-SIGNATURE", "X-PAYMENT", "Authorization", "Payment-Authorization"} {
		request.Set(name, "secret")
	}
	for _, name := range []string{"PAYMENT-RESPONSE", "X-PAYMENT-RESPONSE", "Payment-Receipt"} {
		answer.Set(name, "secret")
	}
	entry := logged(t, &http.Request{RequestURI: "/v1/sponsor", Header: request}, answer)
	require.Empty(t, entry["resp_headers"])
	require.Empty(t, entry["request"].(map[string]any)["headers"])
	require.Len(t, request, 4, "the filter changes a copy")
}

func TestALogContainsOtherAddressesUnchanged(t *testing.T) {
	for _, address := range []string{"/", "*", "", "/v1/%72eceived?after=%2F1", "/v1/receipt", "/v1/pay/transfer?lang=de"} {
		require.Equal(t, address, logged(t, &http.Request{RequestURI: address}, nil)["request"].(map[string]any)["uri"])
	}
}
