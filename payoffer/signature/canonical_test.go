package signature

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Examples of RFC 8785 sections 3.2.2 and 3.2.3 and appendix B.
func TestCanonicalFollowsTheStandard(t *testing.T) {
	for text, want := range map[string]string{
		`{
		  "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
		  "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
		  "literals": [null, true, false]
		}`: `{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}`,
		`{"\u20ac": 1, "\r": 2, "\ufb33": 3, "1": 4, "\ud83d\ude00": 5, "\u00f6": 6}`: `{"\r":2,"1":4,"ö":6,"€":1,"😀":5,"` + "\ufb33" + `":3}`,
		`"<&> \u2028\u007f\b\f\t"`:                     "\"<&> \u2028\u007f\\b\\f\\t\"",
		"[-0, 9007199254740992, 1e21, 0.000001, 1e-7]": "[0,9007199254740992,1e+21,0.000001,1e-7]",
	} {
		got, err := Canonical([]byte(text))
		require.NoError(t, err, text)
		require.Equal(t, want, string(got))
	}
}

func TestCanonicalRejectsAmbiguousJSON(t *testing.T) {
	for _, text := range []string{
		`{"a":1,"b":2,"a":3}`, `{"a":1,"\u0061":3}`, `"\ud800"`, `{"\udc00":1}`, "\"\xff\"", "1 2", `{"a":1`, `[1,]`, "",
	} {
		_, err := Canonical([]byte(text))
		require.Error(t, err, text)
	}
}
