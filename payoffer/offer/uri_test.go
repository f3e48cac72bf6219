package offer

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseURLKeepsPathAndQuery(t *testing.T) {
	for _, in := range []string{
		"https://checkout.example/pay", "https://checkout.example/a%2Fb?x=1&y=%20#part", "https://checkout.example:8443/", "https://checkout.example",
		"https://checkout.example/a+b?q=a+b;c", "http://127.0.0.1:9/x", "https://my_shop.example/", "https://checkout.example./",
	} {
		u, err := ParseURL(in)
		require.NoError(t, err, in)
		require.Equal(t, in, u.String())
	}
	for _, in := range []string{"https://h.example/%zz", "https://h.example/?a=%zz", "https://h.example/?a=%2", "https://h.example/#%"} {
		require.Error(t, errorOf(ParseURL(in)), in)
	}
}

func TestURLErrorsNeverRepeatASecret(t *testing.T) {
	for _, in := range []string{
		"https://user:s3cr3tkey@h.example/", "https://user:s3cr3tkey@h.example:x/", "https://user:s3cr3tkey@h.example/<", "https://h.example/s3cr3tkey\n",
		"https://h.example/s3cr3tkey?%zz", "http://h.example/s3cr3tkey", "https://h.example:0/s3cr3tkey", "s3cr3tkey", "h.example/s3cr3tkey",
	} {
		_, err := ParseURL(in)
		require.Error(t, err, in)
		require.NotContains(t, err.Error(), "s3cr3tkey")
	}
}

func TestPercentEncodeLeavesNothingToMisread(t *testing.T) {
	for _, text := range append([]string{"\r\n", "\x00", "~", "-_."}, hostile...) {
		encoded := percentEncode(text)
		require.Regexp(t, `^([A-Za-z0-9._~-]|%[0-9A-F]{2})*$`, encoded, "RFC 3986 unreserved or escaped")
		require.Equal(t, text, unescape(t, encoded))
	}
}
