package x402

import (
	"bytes"
	"encoding/base64"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

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

func FuzzPayloadFromHeader(f *testing.F) {
	f.Add(base64.StdEncoding.EncodeToString([]byte(awkward)), "", false)
	f.Add(base64.RawURLEncoding.EncodeToString([]byte(awkward)), "", true)
	f.Add("====", "-_", false)
	f.Fuzz(func(t *testing.T, one, two string, old bool) {
		name := HeaderSignature
		if old {
			name = HeaderSignatureV1
		}
		h := http.Header{}
		h.Set(name, one)
		if two != "" {
			h.Add(name, two)
		}
		payload, present, err := PayloadFromHeader(h)
		require.True(t, present)
		if err != nil {
			require.Nil(t, payload)
			return
		}
		require.Empty(t, two)
		for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.RawURLEncoding} {
			h.Set(name, encoding.EncodeToString(payload))
			again, _, err := PayloadFromHeader(h)
			require.NoError(t, err)
			require.True(t, bytes.Equal(payload, again))
		}
	})
}
