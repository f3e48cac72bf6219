package x402

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

func TestDecodePaymentBothVersions(t *testing.T) {
	b := newBuyer(7).named("order_0123456789")
	v2 := must(decodePayment(b.v2(t)))(t)
	require.Equal(t, 2, v2.version)
	require.Equal(t, b.key(), v2.key())
	require.Equal(t, "order_0123456789", v2.paymentID)
	require.Len(t, v2.signature, 65)

	v1 := must(decodePayment(b.v1(t)))(t)
	require.Equal(t, 1, v1.version)
	require.Equal(t, v2.key(), v1.key(), "one authorization, whatever the dialect")
	require.Equal(t, v2.fingerprint(), v1.fingerprint())
}

func TestFingerprintCoversEveryField(t *testing.T) {
	first := newBuyer(1)
	first.signature = first.sign(t)
	base := must(decodePayment(first.v2(t)))(t)
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
			other := must(decodePayment(changed.v2(t)))(t)
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

func TestDecodePaymentIgnoresOtherExtensions(t *testing.T) {
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
		again := must(decodePayment(bytes.Clone(raw)))(t)
		require.Equal(t, p.key(), again.key())
		require.Equal(t, p.fingerprint(), again.fingerprint())
		require.Equal(t, p.authorization.isSigned(p.signature, domainType), again.authorization.isSigned(again.signature, domainType))

		// The members in another order and with other whitespace.
		var members map[string]json.RawMessage
		require.NoError(t, json.Unmarshal(raw, &members))
		indented := must(json.MarshalIndent(members, "", " "))(t)
		if len(indented) > maxPayload {
			return
		}
		ordered, err := decodePayment(indented)
		require.NoError(t, err, string(indented))
		require.Equal(t, p.key(), ordered.key())
		require.Equal(t, p.fingerprint(), ordered.fingerprint())
	})
}

// awkward has a byte string whose base64 differs between the alphabets and
// needs padding.
const awkward = `{"a":"??>>~~"}`

func TestPayloadFromHeaderReadsEveryBase64(t *testing.T) {
	for name, encoding := range map[string]*base64.Encoding{
		"standard": base64.StdEncoding, "standard unpadded": base64.RawStdEncoding,
		"url": base64.URLEncoding, "url unpadded": base64.RawURLEncoding,
	} {
		for _, header := range []string{HeaderSignature, HeaderSignatureV1} {
			t.Run(name+" in "+header, func(t *testing.T) {
				h := http.Header{}
				h.Set(header, " "+encoding.EncodeToString([]byte(awkward)))
				payload, present, err := PayloadFromHeader(h)
				require.NoError(t, err)
				require.True(t, present)
				require.Equal(t, awkward, string(payload))
			})
		}
	}
	require.NotEqual(t, base64.StdEncoding.EncodeToString([]byte(awkward)), base64.URLEncoding.EncodeToString([]byte(awkward)))
}

func TestPayloadFromHeaderRefuses(t *testing.T) {
	valid := base64.StdEncoding.EncodeToString([]byte("{}"))
	signature, v1 := http.CanonicalHeaderKey(HeaderSignature), http.CanonicalHeaderKey(HeaderSignatureV1)
	for _, c := range []struct {
		name, complaint string
		header          http.Header
	}{
		{"both headers", "more than one", http.Header{signature: {valid}, v1: {valid}}},
		{"the header twice", "more than one", http.Header{signature: {valid, valid}}},
		{"the old header twice", "more than one", http.Header{v1: {valid, valid}}},
		{"1 MiB", "longer than", http.Header{signature: {strings.Repeat("A", 1<<20)}}},
		{"other characters", "not base64", http.Header{signature: {"{}"}}},
		{"both alphabets at once", "not base64", http.Header{signature: {"+_+_"}}},
		{"a cut group", "not base64", http.Header{signature: {"eyJ4N"}}},
		{"bits after the end", "not base64", http.Header{signature: {"e31="}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, present, err := PayloadFromHeader(c.header)
			require.True(t, present, "an unreadable payment is not an unpaid request")
			require.ErrorContains(t, err, c.complaint)
		})
	}
}

func TestPayloadFromHeaderWithoutPayment(t *testing.T) {
	payload, present, err := PayloadFromHeader(http.Header{"Accept": {"*/*"}})
	require.NoError(t, err)
	require.False(t, present)
	require.Empty(t, payload)
}

// sentIn is the body of the last call of a kind.
func sentIn(f *payoffertest.Facilitator, call string) string {
	calls := f.Calls("/" + call)
	return string(calls[len(calls)-1].Body)
}

// rebuilt is what becomes of a reference client's payload: in version 2 it echoes
// the resource and the extensions as they were quoted.
func (s *shop) rebuilt(payload []byte) string {
	s.t.Helper()
	var members map[string]any
	require.NoError(s.t, json.Unmarshal(payload, &members))
	if members["x402Version"] == 2.0 {
		members["resource"] = s.Offer.Resource()
		extensions, _ := members["extensions"].(map[string]any)
		if extensions == nil {
			extensions = map[string]any{}
		}
		extensions[extensionBazaar] = s.bazaar()
		delete(extensions, ExtensionAccess) // only the payer and this server know the token
		members["extensions"] = extensions
	}
	return string(mustJSON(s.t, members))
}

func TestRebuildDropsUnknownFields(t *testing.T) {
	const foreign = "by a stranger"
	for _, c := range []struct{ name, old, added string }{
		{"beside the authorization", `"payload":{`, `"payload":{"permit2Authorization":{"by a stranger":1},`},
		{"null beside the authorization", `"payload":{`, `"payload":{"permit2Authorization":null,"x":"by a stranger",`},
		{"in the authorization", `"authorization":{`, `"authorization":{"by a stranger":{},`},
		{"in the payload", `{"accepted"`, `{"by a stranger":[],"accepted"`},
		{"in the requirement", `"accepted":{`, `"accepted":{"by a stranger":"",`},
		{"in the token's domain", `"extra":{`, `"extra":{"by a stranger":"",`},
		{"in the resource", `"resource":{`, `"resource":{"by a stranger":"",`},
		{"as an extension", `"extensions":{`, `"extensions":{"by a stranger":{},`},
		{"in an extension of ours", `"info":{"id"`, `"info":{"by a stranger":0,"id"`},
		{"as an extension of ours", `"extensions":{`, `"extensions":{"bazaar":{"info":{"input":"by a stranger"}},`},
	} {
		withShop(t, c.name, func(t *testing.T, s *shop, f *payoffertest.Facilitator) {
			b := newBuyer(1).named("order_0123456789")
			payload := mangle(t, b.v2(t), c.old, c.added)
			require.Contains(t, payload, foreign)
			require.Equal(t, Settled, s.pay([]byte(payload)).Status)
			for _, call := range []string{callVerify, callSettle} {
				var body struct{ PaymentPayload, PaymentRequirements json.RawMessage }
				require.NoError(t, json.Unmarshal([]byte(sentIn(f, call)), &body))
				require.JSONEq(t, s.rebuilt(b.v2(t)), string(body.PaymentPayload))
				require.JSONEq(t, string(s.usdc().terms.v2), string(body.PaymentRequirements))
			}
			stored, _ := s.stored(b)
			require.NotContains(t, string(stored.Payload), foreign)
		})
	}
}

func TestRebuildIsCanonical(t *testing.T) {
	s := newShop(t, setup{facilitators: one(payoffertest.NewFacilitator(t))})
	b := newBuyer(0xabcdef)
	of := must(decodePayment(b.v2(t)))(t)
	rebuild := func(payload []byte) string {
		p := must(decodePayment(payload))(t)
		require.Equal(t, of.key(), p.key())
		require.Equal(t, of.fingerprint(), p.fingerprint())
		return string(p.rebuild(&s.usdc().terms, s.currentlyQuoted().extensions))
	}
	want := rebuild(b.v2(t))
	require.Equal(t, want, rebuild([]byte(want)))
	shouted := *b
	shouted.token = "0x" + strings.ToUpper(b.token[2:])
	shouted.signature = "0x" + strings.ToUpper(b.sign(t)[2:])
	shouted.auth.From, shouted.auth.To = strings.ToLower(b.auth.From), "0x"+strings.ToUpper(b.auth.To[2:])
	shouted.auth.Nonce = "0x" + strings.ToUpper(b.auth.Nonce[2:])
	require.Equal(t, want, rebuild(shouted.v2(t)))
	require.Contains(t, want, `"from":"`+b.auth.From+`"`, "addresses carry their checksum, as wallets write them")
	require.NotContains(t, want, extensionOfferReceipt, "what was quoted to be kept is not sent on")
	require.NotContains(t, rebuild(b.v1(t)), extensionBazaar, "version 1 has no extensions")
}
