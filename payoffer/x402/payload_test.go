package x402

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDecodePaymentReadsBothDialects(t *testing.T) {
	b := newBuyer(7).named("order_0123456789")
	v2, err := decodePayment(b.v2(t))
	require.NoError(t, err)
	require.Equal(t, 2, v2.version)
	require.Equal(t, b.key(), v2.key())
	require.Equal(t, "order_0123456789", v2.paymentID)
	require.Len(t, v2.signature, 65)

	v1, err := decodePayment(b.v1(t))
	require.NoError(t, err)
	require.Equal(t, 1, v1.version)
	require.Equal(t, v2.key(), v1.key(), "one authorization, whatever the dialect")
	require.Equal(t, v2.fingerprint(), v1.fingerprint())
}

func TestFingerprintCoversEveryFieldOfTheAuthorization(t *testing.T) {
	first := newBuyer(1)
	first.signature = first.sign(t)
	base, err := decodePayment(first.v2(t))
	require.NoError(t, err)
	for name, change := range map[string]func(*buyer){
		"from":         func(b *buyer) { b.auth.From = otherPayTo },
		"to":           func(b *buyer) { b.auth.To = otherPayTo },
		"value":        func(b *buyer) { b.auth.Value = "41" },
		"valid after":  func(b *buyer) { b.auth.ValidAfter = "1" },
		"valid before": func(b *buyer) { b.auth.ValidBefore = "5" },
		"nonce":        func(b *buyer) { b.auth.Nonce = "0x" + strings.Repeat("f", 64) },
		"signature":    func(b *buyer) { b.signature = "0x" + strings.Repeat("11", 65) },
	} {
		t.Run(name, func(t *testing.T) {
			changed := *first
			change(&changed)
			other, err := decodePayment(changed.v2(t))
			require.NoError(t, err)
			require.NotEqual(t, base.fingerprint(), other.fingerprint())
		})
	}
}

// mangle replaces text of a valid payload.
func mangle(t *testing.T, valid []byte, old, replacement string) string {
	t.Helper()
	require.Contains(t, string(valid), old)
	return strings.Replace(string(valid), old, replacement, 1)
}

func TestDecodePaymentRefuses(t *testing.T) {
	b := newBuyer(1)
	valid := b.v2(t)
	from, signature := `"from":"`+b.auth.From+`"`, `"signature":"`+b.sign(t)+`"`
	for _, c := range []struct{ name, payload, complaint string }{
		{"nothing", ``, "JSON object"},
		{"cut JSON", mangle(t, valid, "}}", ""), "JSON object"},
		{"bytes after the value", string(valid) + "{}", "JSON object"},
		{"an array", `[]`, "JSON object"},
		{"null", `null`, "x402Version is 0"},
		{"too long", `"` + strings.Repeat("x", maxPayload) + `"`, "send at most 32768"},
		{"too deep", `{"x":` + strings.Repeat("[", 15_000) + strings.Repeat("]", 15_000) + "}", "JSON object"},
		{"a member twice", mangle(t, valid, from, from+","+from), "JSON object"},
		{"a member twice by escapes", mangle(t, valid, from, from+`,"\u0066rom":"0x00"`), "JSON object"},
		{"a member in another case", mangle(t, valid, `"authorization":`, `"Authorization":`), "'payload.authorization'"},
		{"a member by Unicode folding", mangle(t, valid, `"signature":`, `"`+"\u017f"+`ignature":`), "payload.signature"},
		{"text that is not Unicode", mangle(t, valid, `"authorization":{`, `"authorization":{"x":["`+"\xff"+`"],`), "JSON object"},
		{"half a surrogate pair", mangle(t, valid, `"scheme":"exact"`, `"scheme":"exact\ud800"`), "JSON object"},
		{"version 3", mangle(t, valid, `"x402Version":2`, `"x402Version":3`), "x402Version is 3"},
		{"a version that is text", mangle(t, valid, `"x402Version":2`, `"x402Version":"2"`), "JSON object"},
		{"version 2 in the shape of version 1", strings.Replace(string(b.v1(t)), `"x402Version":1`, `"x402Version":2`, 1), "'accepted'"},
		{"no payload", `{"x402Version":1,"scheme":"exact","network":"base-sepolia"}`, "'payload.authorization'"},
		{"permit2", `{"x402Version":2,"accepted":{},"payload":{"signature":"0x","permit2Authorization":{}}}`, "'payload.authorization'"},
		{"a value that is a number", mangle(t, valid, `"value":"42000000"`, `"value":42000000`), "JSON object"},
		{"a value with a sign", mangle(t, valid, `"value":"42000000"`, `"value":"-1"`), "authorization.value"},
		{"a value with zeros before it", mangle(t, valid, `"value":"42000000"`, `"value":"042000000"`), "authorization.value"},
		{"a value with an exponent", mangle(t, valid, `"value":"42000000"`, `"value":"42e6"`), "authorization.value"},
		{"a value above 256 bits", mangle(t, valid, `"value":"42000000"`, `"value":"`+strings.Repeat("9", 78)+`"`), "authorization.value"},
		{"a payer that is no address", mangle(t, valid, from, `"from":"0x12"`), "authorization.from"},
		{"a payer with a prefix of 0X", mangle(t, valid, b.auth.From, "0X"+b.auth.From[2:]), "authorization.from"},
		{"a payee that is no address", mangle(t, valid, `"to":"`+testPayTo, `"to":"`+testPayTo+"00"), "authorization.to"},
		{"a short nonce", mangle(t, valid, b.auth.Nonce, "0x00"), "authorization.nonce"},
		{"a short signature", mangle(t, valid, signature, `"signature":"0x`+strings.Repeat("00", 64)+`"`), "payload.signature"},
		{"half a byte of signature", mangle(t, valid, signature, `"signature":"0x`+strings.Repeat("0", 131)+`"`), "payload.signature"},
		{"a signature that is no hexadecimal", mangle(t, valid, signature, `"signature":"0x`+strings.Repeat("zz", 65)+`"`), "payload.signature"},
		{"a short payment identifier", string(newBuyer(1).named("short").v2(t)), "payment identifier"},
		{"a payment identifier with a space", string(newBuyer(1).named("0123456789 123456").v2(t)), "payment identifier"},
		{"a payment identifier that is a number", mangle(t, valid, `"extensions":{`, `"extensions":{"payment-identifier":{"info":{"id":5}},`), "payment-identifier"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := decodePayment([]byte(c.payload))
			require.ErrorContains(t, err, c.complaint)
		})
	}
}

func TestDecodePaymentLeavesExtensionsAlone(t *testing.T) {
	p, err := decodePayment([]byte(mangle(t, newBuyer(1).v2(t), `"extensions":{`,
		`"extensions":{"bazaar":{"info":{"Network":"x","From":"y"}},"payment-identifier":{"info":{"required":false}},`)))
	require.NoError(t, err)
	require.Empty(t, p.paymentID, "a client that only echoes the extension names nothing")
}

func FuzzDecodePayment(f *testing.F) {
	b := newBuyer(1)
	f.Add(b.v2(f))
	f.Add(b.v1(f))
	f.Add(newBuyer(2).named("order_0123456789").v2(f))
	f.Add([]byte(`{"x402Version":2,"accepted":null,"payload":{"authorization":{}}}`))
	f.Add([]byte(strings.Repeat(`{"a":`, 40)))
	f.Fuzz(func(t *testing.T, raw []byte) {
		p, err := decodePayment(raw)
		if err != nil {
			return
		}
		again, err := decodePayment(bytes.Clone(raw))
		require.NoError(t, err)
		require.Equal(t, p.key(), again.key())
		require.Equal(t, p.fingerprint(), again.fingerprint())
		require.Equal(t, p.authorization.isSigned(p.signature, domainType), again.authorization.isSigned(again.signature, domainType))

		// The members in another order and with other whitespace.
		var members map[string]json.RawMessage
		require.NoError(t, json.Unmarshal(raw, &members))
		indented, err := json.MarshalIndent(members, "", " ")
		require.NoError(t, err)
		if len(indented) > maxPayload {
			return
		}
		ordered, err := decodePayment(indented)
		require.NoError(t, err, string(indented))
		require.Equal(t, p.key(), ordered.key())
		require.Equal(t, p.fingerprint(), ordered.fingerprint())
	})
}
