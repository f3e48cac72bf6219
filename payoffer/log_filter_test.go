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

// escaped writes every character of a text as an escape.
func escaped(s string) string {
	var all strings.Builder
	for _, c := range []byte(s) {
		all.WriteString("%" + strings.ToUpper(string("0123456789abcdef"[c>>4])) + string("0123456789abcdef"[c&15]))
	}
	return all.String()
}

// What is secret in an address is in no log, however the address is written and wherever
// a log holds one.
func TestALogHoldsNoSecretOfAnAddressInAnySpelling(t *testing.T) {
	const id = "cmVjZWlwdA.bWFj"
	spellings := map[string]func(string) string{
		"as it is": func(s string) string { return s },
		"a letter": func(s string) string {
			return strings.NewReplacer("rec", "%72ec", "hoo", "h%6fo", "sess", "%73ess").Replace(s)
		},
		"slashes":               func(s string) string { return s[:1] + strings.ReplaceAll(s[1:], "/", "%2f") },
		"slashes in capitals":   func(s string) string { return s[:1] + strings.ReplaceAll(s[1:], "/", "%2F") },
		"underscore and equals": func(s string) string { return strings.NewReplacer("_", "%5F", "=", "%3d").Replace(s) },
		"everything": func(s string) string {
			path, query, _ := strings.Cut(s[1:], "?")
			return "/" + escaped(path) + "?" + escaped(query)
		},
		"everything, and the mark": func(s string) string { return "/" + escaped(s[1:]) },
		"twice":                    func(s string) string { return "/" + escaped(escaped(s[1:])) },
		"the id alone":             func(s string) string { return strings.ReplaceAll(s, id, escaped(id)) },
		"capitals":                 strings.ToUpper,
		"two slashes":              func(s string) string { return strings.ReplaceAll(s, "/", "//") },
		"whole":                    func(s string) string { return "http://pay.example" + s },
		"below a prefix":           func(s string) string { return "/shop" + s },
		"an escape that is none":   func(s string) string { return s + "%zz%" },
	}
	for _, address := range []string{
		"/v1/receipt/" + id, "/v1/receipt/" + id + "?lang=de", "/v1/receipt/" + id + "/receipt.jws", "/v1/hook/tip-jar/" + id, "/v1/hook/tip-jar/" + id + "/more",
		"/v1/thanks?session_id=" + id, "/v1/thanks?lang=de&session_id=" + id + "&a=b", "/elsewhere?next=/v1/receipt/" + id, "/v1/pay?a=%zz&session_id=" + id,
		// What people make of them who copy by hand.
		"/v1/hooks/tip-jar/" + id, "/v1/webhook/tip-jar/" + id, "/v1/hook-tip-jar/" + id, "/v1/hook/tip-jar?" + id, "/v1/receipts/" + id, "/v1/reciept/" + id,
		"/v1/receipt?" + id, "/v1/receipt?id=" + id, "/v1/receipt;" + id, `/v1/receipt\` + id, "/v1/thanks/" + id, "/v1/thanks?session=" + id, "/v1/thanks?sessionId=" + id,
		"/v1/thanks?cs_live_" + id,
	} {
		for name, spelling := range spellings {
			written := spelling(address)
			request := &http.Request{RequestURI: written, Header: http.Header{
				"Referer": {written, "https://other.example/" + written}, "X-Original-Uri": {written}, "User-Agent": {"test"},
			}}
			entry := logged(t, request, http.Header{"Location": {written}, "Link": {"<" + written + ">; rel=next"}, "Etag": {"1"}})
			line, err := json.Marshal(entry)
			require.NoError(t, err)
			for _, secret := range []string{id, strings.ToUpper(id), escaped(id), escaped(escaped(id)), escaped("bWFj"), "bWFj", "BWFJ"} {
				require.NotContains(t, string(line), secret, "%s: %s", name, written)
			}
			require.Equal(t, 6, strings.Count(string(line), "REDACTED"), "%s: %s", name, written)
			require.Contains(t, string(line), `"User-Agent":["test"]`, "other headers are logged")
			require.Contains(t, string(line), `"Etag":["1"]`)
		}
	}
}

// Whoever reads a payment can send it; what its buyer is answered is the buyer's.
func TestALogHoldsNoPayment(t *testing.T) {
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
	require.Len(t, request, 4, "what is logged is a copy")
}

// What holds no secret is logged as it was written.
func TestALogHoldsOtherAddressesAsTheyAre(t *testing.T) {
	for _, address := range []string{"/", "*", "", "/v1/%72eceived?after=%2F1", "/v1/hook/card", "/v1/receipt", "/v1/pay/transfer?lang=%64e", "/%", "/%zz?%", "/?a?b"} {
		require.Equal(t, address, logged(t, &http.Request{RequestURI: address}, nil)["request"].(map[string]any)["uri"])
	}
	line := logged(t, &http.Request{RequestURI: "/v1/receipt/a.b?lang=de"}, nil)
	require.Equal(t, "/v1/receipt/REDACTED?lang=de", line["request"].(map[string]any)["uri"])
}
