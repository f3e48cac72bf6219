package x402

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

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

func TestDecodePaymentIgnoresLetterCaseOfHexadecimal(t *testing.T) {
	b := newBuyer(0xabcdef)
	first, err := decodePayment(b.v2(t))
	require.NoError(t, err)
	shouted := *b
	shouted.signature = "0x" + strings.ToUpper(b.sign(t)[2:])
	shouted.token = "0x" + strings.ToUpper(b.token[2:])
	shouted.auth.From = strings.ToLower(b.auth.From)
	shouted.auth.To = "0x" + strings.ToUpper(b.auth.To[2:])
	shouted.auth.Nonce = "0x" + strings.ToUpper(b.auth.Nonce[2:])
	second, err := decodePayment(shouted.v2(t))
	require.NoError(t, err)
	require.Equal(t, first.key(), second.key())
	require.Equal(t, first.fingerprint(), second.fingerprint())
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
		{"nothing", ``, "not one valid JSON"},
		{"cut JSON", mangle(t, valid, "}}", ""), "not one valid JSON"},
		{"bytes after the value", string(valid) + "{}", "not one valid JSON"},
		{"garbage after the value", string(valid) + "x", "not one valid JSON"},
		{"an array", `[]`, "wrong JSON type"},
		{"null", `null`, "x402Version 0"},
		{"too long", `"` + strings.Repeat("x", maxPayload) + `"`, "longer than"},
		{"too deep", strings.Repeat("[", maxDepth+1) + strings.Repeat("]", maxDepth+1), "nested deeper"},
		{"a member twice", mangle(t, valid, from, from+","+from), "two members"},
		{"a member twice in another case", mangle(t, valid, signature, signature+`,"Signature":"0x00"`), "two members"},
		{"a member twice by Unicode folding", mangle(t, valid, signature, signature+`,"`+"\u017f"+`ignature":"0x00"`), "two members"},
		{"a member twice by escapes", mangle(t, valid, from, from+`,"\u0046rom":"0x00"`), "two members"},
		{"a known member in another case", mangle(t, valid, `"authorization":`, `"Authorization":`), `written "authorization"`},
		{"a known member by Unicode folding", mangle(t, valid, `"signature":`, `"`+"\u017f"+`ignature":`), `written "signature"`},
		{"version 3", mangle(t, valid, `"x402Version":2`, `"x402Version":3`), "x402Version 3"},
		{"a version that is text", mangle(t, valid, `"x402Version":2`, `"x402Version":"2"`), "wrong JSON type"},
		{"version 2 in the shape of version 1", strings.Replace(string(b.v1(t)), `"x402Version":1`, `"x402Version":2`, 1), "'accepted'"},
		{"no payload", `{"x402Version":1,"scheme":"exact","network":"base-sepolia"}`, "'payload.authorization'"},
		{"permit2", `{"x402Version":2,"accepted":{},"payload":{"signature":"0x","permit2Authorization":{}}}`, "'payload.authorization'"},
		{"a value that is a number", mangle(t, valid, `"value":"42000000"`, `"value":42000000`), "wrong JSON type"},
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
		{"a payment identifier that is a number", mangle(t, valid, `"x402Version"`, `"extensions":{"payment-identifier":{"info":{"id":5}}},"x402Version"`), "payment-identifier"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := decodePayment([]byte(c.payload))
			require.ErrorContains(t, err, c.complaint)
		})
	}
}

func TestDecodePaymentRefusesTextThatIsNotUnicodeWhereverItStands(t *testing.T) {
	valid := newBuyer(1).named("order_0123456789").v2(t)
	for _, text := range []string{"\xff", "\xc3\x28", "\xed\xa0\x80", `\ud800`, `\udc00`} {
		for _, c := range []struct{ name, old, with string }{
			{"in a member of the payload", `{"accepted"`, `{"x":"` + text + `","accepted"`},
			{"in a name", `{"accepted"`, `{"` + text + `":1,"accepted"`},
			{"in the requirement", `"scheme":"exact"`, `"scheme":"exact` + text + `"`},
			{"in the resource", `"description":"42 USD"`, `"description":"` + text + `"`},
			{"in the authorization", `"authorization":{`, `"authorization":{"x":["` + text + `"],`},
			{"beside the authorization", `"payload":{`, `"payload":{"x":{"y":"` + text + `"},`},
			{"in an extension", `"info":{`, `"info":{"x":"` + text + `",`},
			{"in the name of an extension", `"extensions":{`, `"extensions":{"` + text + `":{},`},
			{"in a foreign extension", `"extensions":{`, `"extensions":{"x":[[{"` + text + `":0}]],`},
		} {
			_, err := decodePayment([]byte(mangle(t, valid, c.old, c.with)))
			require.Equal(t, errNoJSON, err, "%q %s", text, c.name)
		}
	}
}

func TestDecodePaymentLeavesExtensionsAlone(t *testing.T) {
	p, err := decodePayment([]byte(mangle(t, newBuyer(1).v2(t), `"x402Version"`,
		`"extensions":{"bazaar":{"info":{"Network":"x","From":"y"}},"payment-identifier":{"info":{"required":false}}},"x402Version"`)))
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

// referenceCheck is checkJSON on top of the standard library's tokens.
func referenceCheck(data []byte) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := referenceValue(d, 0, false); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is more")
	}
	return nil
}

func referenceValue(d *json.Decoder, depth int, foreign bool) error {
	token, err := d.Token()
	delim, isDelim := token.(json.Delim)
	if err != nil || !isDelim {
		return err
	}
	if depth == maxDepth {
		return fmt.Errorf("it is nested deeper than %d levels", maxDepth)
	}
	seen := make(map[string]bool)
	for d.More() {
		inside := foreign
		if delim == '{' {
			token, err := d.Token()
			if err != nil {
				return err
			}
			if err := checkName(token.(string), seen, foreign); err != nil {
				return err
			}
			inside = foreign || token == "extensions"
		}
		if err := referenceValue(d, depth+1, inside); err != nil {
			return err
		}
	}
	_, err = d.Token()
	return err
}

// replaces reports whether the standard library reads U+FFFD somewhere: it
// takes text that is not UTF-8, and halves of surrogate pairs, for that.
func replaces(t *testing.T, data []byte) bool {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var value any
	require.NoError(t, d.Decode(&value))
	return strings.ContainsRune(fmt.Sprintf("%q", value), utf8.RuneError)
}

func TestCheckJSONRefusesWhatIsNotUnicode(t *testing.T) {
	for name, text := range map[string]string{
		"no UTF-8":                    "{\"a\":\"\xff\"}",
		"no UTF-8 in a name":          "{\"\xff\":1}",
		"half a surrogate pair":       `{"extensions":{"a":"\ud800"}}`,
		"its other half":              `["\udc00\ud800"]`,
		"half a pair in a name":       `{"\ud800":1}`,
		"no UTF-8 inside of a string": "\"\xc3\x28\"",
	} {
		require.Equal(t, errNoJSON, checkJSON([]byte(text)), name)
	}
	require.NoError(t, checkJSON([]byte("{\"a\":\"\ufffd\",\"b\":\"\\ufffd \\ud83d\\ude00\"}")), "U+FFFD itself is a character")
}

func TestFoldMakesOneNameOfWhatEncodingJSONTakesForTheSame(t *testing.T) {
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if next := unicode.SimpleFold(r); fold(string(r)) != fold(string(next)) {
			require.Equal(t, fold(string(r)), fold(string(next)), "%q and %q", r, next)
		}
	}
}

func FuzzCheckJSON(f *testing.F) {
	b := newBuyer(1).named("order_0123456789")
	f.Add(b.v2(f))
	f.Add(b.v1(f))
	for _, seed := range []string{
		" { \"a\" :\t[ 1 , -2.5e+3 ,\r\n true,null ] , \"b\" : { } } ", `{"from":1,"\u0046rom":2}`, "{\"\u017fignature\":\"\"}",
		`{"extensions":{"From":1},"From":2}`, `{"a\"":"\\","a\\":"\""}`, "{\"\xff\":1,\"\xfe\":2}", `"text"`, `7`, `[]`, `{"a":1}x`,
		strings.Repeat("[", maxDepth) + strings.Repeat("]", maxDepth), strings.Repeat(`{"a":`, maxDepth+1) + "1" + strings.Repeat("}", maxDepth+1),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		err := checkJSON(data)
		switch {
		case !json.Valid(data):
			require.Error(t, err)
		case err == errNoJSON:
			require.True(t, replaces(t, data), "it is refused and well-formed")
		default:
			require.Equal(t, referenceCheck(data), err)
		}
	})
}

// hostile are payloads of about n bytes that cost a reader as much as they can.
var hostile = map[string]func(n int) string{
	"nested arrays":       func(n int) string { return strings.Repeat("[", n/2) + strings.Repeat("]", n/2) },
	"nested objects":      func(n int) string { return strings.Repeat(`{"a":`, n/6) + "1" + strings.Repeat("}", n/6) },
	"the deepest allowed": func(n int) string { return repeated("[", strings.Repeat("[", 30)+strings.Repeat("]", 30), n) + "]" },
	"a huge number":       func(n int) string { return `{"x402Version":` + strings.Repeat("9", n) + `}` },
	"a huge exponent":     func(n int) string { return `{"x402Version":1e` + strings.Repeat("9", n) + `}` },
	"a huge fraction":     func(n int) string { return `{"a":0.` + strings.Repeat("1", n) + `}` },
	"a huge value": func(n int) string {
		return `{"x402Version":1,"payload":{"signature":"0x","authorization":{"value":"` + strings.Repeat("9", n) + `"}}}`
	},
	"a huge signature": func(n int) string {
		return strings.Replace(hostileBase, `"signature":"`, `"signature":"0x`+strings.Repeat("ab", n/2)+`","x":"`, 1)
	},
	"many members": func(n int) string {
		var b strings.Builder
		for i := 0; b.Len() < n; i++ {
			fmt.Fprintf(&b, `,"m%d":%d`, i, i)
		}
		return "{" + b.String()[1:] + "}"
	},
	"many members that are folded": func(n int) string {
		var b strings.Builder
		for i := 0; b.Len() < n; i++ {
			fmt.Fprintf(&b, ",\"\u017f\u212a%d\":{}", i)
		}
		return "{" + b.String()[1:] + "}"
	},
	"many extensions":   func(n int) string { return `{"extensions":{"a":` + repeated("[", "{}", n) + `]}}` },
	"escapes":           func(n int) string { return `{"` + strings.Repeat(`\u0041`, n/6) + `":"` + `"}` },
	"an endless string": func(n int) string { return `"` + strings.Repeat(`\"`, n/2) },
	"blanks":            func(n int) string { return strings.Repeat(" ", n) + "{}" },
}

const hostileBase = `{"x402Version":1,"scheme":"exact","network":"base","payload":{"signature":"","authorization":{` +
	`"from":"0x0000000000000000000000000000000000000000","to":"0x0000000000000000000000000000000000000000","value":"1","validAfter":"0",` +
	`"validBefore":"1","nonce":"0x0000000000000000000000000000000000000000000000000000000000000000"}}}`

// repeated is first, and item as often as fits, with commas.
func repeated(first, item string, n int) string {
	return first + strings.TrimSuffix(strings.Repeat(item+",", n/(len(item)+1)), ",")
}

// The benchmark below compares payloads of these lengths.
func TestHostilePayloadsGrowWithTheirLength(t *testing.T) {
	for name, payload := range hostile {
		small, large := len(payload(hostileShort)), len(payload(hostileFactor*hostileShort))
		require.InDelta(t, hostileFactor, float64(large)/float64(small), 2, name)
		require.Less(t, large, maxPayload, name)
	}
}

const hostileShort, hostileFactor = 4000, 8

// BenchmarkDecodeHostile reports how much longer eight times the length takes:
// 8 where the time grows with the length, 64 where it grows with its square.
func BenchmarkDecodeHostile(b *testing.B) {
	for name, payload := range hostile {
		b.Run(name, func(b *testing.B) {
			small, large := []byte(payload(hostileShort)), []byte(payload(hostileFactor*hostileShort))
			var spent [2]time.Duration
			for b.Loop() {
				for n, raw := range [][]byte{small, large} {
					start := time.Now()
					_, _ = decodePayment(raw) // most of it is refused, at a cost
					spent[n] += time.Since(start)
				}
			}
			b.ReportMetric(float64(spent[1])/float64(spent[0]), "times-as-long")
		})
	}
}
