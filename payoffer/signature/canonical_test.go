package signature

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The examples of RFC 8785 sections 3.2.2 and 3.2.3.
func TestCanonicalFollowsTheExamplesOfTheStandard(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"values": {
			`{
			  "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
			  "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
			  "literals": [null, true, false]
			}`,
			`{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}`,
		},
		"names": {
			`{
			  "\u20ac": "Euro Sign",
			  "\r": "Carriage Return",
			  "\ufb33": "Hebrew Letter Dalet With Dagesh",
			  "1": "One",
			  "\ud83d\ude00": "Emoji: Grinning Face",
			  "\u0080": "Control",
			  "\u00f6": "Latin Small Letter O With Diaeresis"
			}`,
			`{"\r":"Carriage Return","1":"One","` + "\u0080" + `":"Control","ö":"Latin Small Letter O With Diaeresis",` +
				`"€":"Euro Sign","😀":"Emoji: Grinning Face","` + "\ufb33" + `":"Hebrew Letter Dalet With Dagesh"}`,
		},
		"nothing that HTML or JavaScript would escape": {`"<&> \u2028\u007f\b\f\t"`, "\"<&> \u2028\u007f\\b\\f\\t\""},
		"U+FFFD, which is a character":                 {`["\ufffd","` + "\ufffd" + `"]`, `["` + "\ufffd" + `","` + "\ufffd" + `"]`},
		"empty values":                                 {` [ { } , [ ] , "" ] `, `[{},[],""]`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Canonical([]byte(c.text))
			require.NoError(t, err)
			require.Equal(t, c.want, string(got))
		})
	}
}

// The numbers of RFC 8785 appendix B.
func TestCanonicalWritesNumbersAsTheStandardDoes(t *testing.T) {
	for bits, want := range map[uint64]string{
		0x0000000000000000: "0",
		0x8000000000000000: "0",
		0x0000000000000001: "5e-324",
		0x8000000000000001: "-5e-324",
		0x7fefffffffffffff: "1.7976931348623157e+308",
		0xffefffffffffffff: "-1.7976931348623157e+308",
		0x4340000000000000: "9007199254740992",
		0xc340000000000000: "-9007199254740992",
		0x4430000000000000: "295147905179352830000",
		0x44b52d02c7e14af5: "9.999999999999997e+22",
		0x44b52d02c7e14af6: "1e+23",
		0x44b52d02c7e14af7: "1.0000000000000001e+23",
		0x444b1ae4d6e2ef4e: "999999999999999700000",
		0x444b1ae4d6e2ef4f: "999999999999999900000",
		0x444b1ae4d6e2ef50: "1e+21",
		0x3eb0c6f7a0b5ed8c: "9.999999999999997e-7",
		0x3eb0c6f7a0b5ed8d: "0.000001",
		0x41b3de4355555553: "333333333.3333332",
		0x41b3de4355555554: "333333333.33333325",
		0x41b3de4355555555: "333333333.3333333",
		0x41b3de4355555556: "333333333.3333334",
		0x41b3de4355555557: "333333333.33333343",
		0xbecbf647612f3696: "-0.0000033333333333333333",
		0x43143ff3c1cb0959: "1424953923781206.2",
	} {
		got, err := Canonical([]byte(strconv.FormatFloat(math.Float64frombits(bits), 'e', 25, 64)))
		require.NoError(t, err)
		require.Equal(t, want, string(got), "%x", bits)
	}
}

func TestCanonicalRefusesWhatIsReadInTwoWays(t *testing.T) {
	for name, text := range map[string]string{
		"a name twice":               `{"a":1,"b":2,"a":3}`,
		"a name twice, once escaped": `{"a":1,"\u0061":3}`,
		"half a surrogate pair":      `"\ud800"`,
		"in a name":                  `{"\udc00":1}`,
		"no UTF-8":                   "\"\xff\"",
		"a number without end":       "1e999",
		"two values":                 "1 2",
		"an open object":             `{"a":1`,
		"a comma too many":           `[1,]`,
		"a closing bracket":          `]`,
		"nothing":                    "",
		"deep nesting":               strings.Repeat("[", 40) + strings.Repeat("]", 40),
	} {
		_, err := Canonical([]byte(text))
		require.Error(t, err, name)
	}
}

func FuzzCanonical(f *testing.F) {
	f.Add([]byte(`{"b":[1.5e3,null,"\u20ac\n"],"a":{"":true}}`))
	f.Add([]byte(`[1,]`))
	f.Fuzz(func(t *testing.T, text []byte) {
		once, err := Canonical(text)
		if err != nil {
			return
		}
		require.True(t, json.Valid(text), "%q is taken and is no JSON", text)
		twice, err := Canonical(once)
		require.NoError(t, err)
		require.True(t, bytes.Equal(once, twice), "%q becomes %q", once, twice)
		var in, out any
		require.NoError(t, json.Unmarshal(text, &in))
		require.NoError(t, json.Unmarshal(once, &out))
		require.Equal(t, in, out)
	})
}
