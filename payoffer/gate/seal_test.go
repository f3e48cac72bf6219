package gate

import (
	"encoding/base64"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/cases"
)

// Of a million texts that look like passes and codes, none opens; nor does one with a
// changed byte.
func TestForgedPassesAndCodesOpenNothing(t *testing.T) {
	w, random := newWorld(t), rand.New(rand.NewPCG(1, 2))
	h := w.pays("pi_1", nil)
	genuine := map[string]string{useCookie: w.enters(w.Keeper, h), useCode: w.Code(h), useBack: w.Back(w.Offer.Gates[0], "/members/x"), useReplace: w.seal(useReplace, w.Code(h), "b")}
	reads := w.ledger.reads.Load()
	n := cases.Count(t)
	for range n {
		for use, text := range genuine {
			forged := forge(random, text)
			require.ErrorIs(t, errorOf(w.open(use, forged, strings.Count(decoded(text), separator))), ErrClosed, forged)
		}
	}
	require.Equal(t, reads, w.ledger.reads.Load(), "a forged text costs no query")
	t.Logf("%d forged texts of each of %d uses", n, len(genuine))
}

func decoded(sealed string) string {
	encoded, _, _ := strings.Cut(sealed, ".")
	text, _ := base64.RawURLEncoding.DecodeString(encoded)
	return string(text)
}

// forge changes one character, the length, the MAC or the text.
func forge(random *rand.Rand, text string) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	at := random.IntN(len(text))
	switch random.IntN(4) {
	case 0:
		return text[:at]
	case 1:
		return text + string(alphabet[random.IntN(len(alphabet))])
	case 2:
		body, _, _ := strings.Cut(text, ".")
		mac := make([]byte, macSize)
		for i := range mac {
			mac[i] = byte(random.Uint32())
		}
		return body + "." + base64.RawURLEncoding.EncodeToString(mac)
	}
	for {
		if c := alphabet[random.IntN(len(alphabet))]; c != text[at] {
			return text[:at] + string(c) + text[at+1:]
		}
	}
}
