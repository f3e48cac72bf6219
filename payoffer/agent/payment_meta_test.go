package agent

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// awkward has a byte string whose base64 differs between the alphabets and
// needs padding.
const awkward = `{"a":"??>>~~"}`

func TestPaymentInMetadataIsReadAsAnObjectAndAsTheBase64OfOne(t *testing.T) {
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

func TestTextThatIsNoPaymentIsMalformedAndSentToNobody(t *testing.T) {
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
