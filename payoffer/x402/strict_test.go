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
