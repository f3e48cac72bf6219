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
		if !json.Valid(data) {
			require.Error(t, err)
			return
		}
		require.Equal(t, referenceCheck(data), err)
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

// TestDecodingTakesLinearTime compares two lengths with each other, each at its
// quickest of many runs: where the time grew with the square of the length,
// eight times the length would take 64 times as long.
func TestDecodingTakesLinearTime(t *testing.T) {
	const short, factor = 4000, 8
	quickest := func(payload []byte) time.Duration {
		best := time.Hour
		for range 15 {
			start := time.Now()
			for range 5 {
				_, _ = decodePayment(payload) // most of it is refused, at a cost
			}
			best = min(best, time.Since(start))
		}
		return best
	}
	for name, payload := range hostile {
		t.Run(name, func(t *testing.T) {
			small, large := []byte(payload(short)), []byte(payload(factor*short))
			require.InDelta(t, factor, float64(len(large))/float64(len(small)), 2)
			require.Less(t, len(large), maxPayload)
			require.Less(t, float64(quickest(large))/float64(quickest(small)), float64(4*factor))
		})
	}
}

// BenchmarkDecodeHostile shows what the longest payloads cost.
func BenchmarkDecodeHostile(b *testing.B) {
	for name, payload := range hostile {
		b.Run(name, func(b *testing.B) {
			raw := []byte(payload(maxPayload - 1000))
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			for b.Loop() {
				_, _ = decodePayment(raw)
			}
		})
	}
}
