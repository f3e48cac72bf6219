package x402

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

func TestAMessageIsOneShortPrintableLine(t *testing.T) {
	for text, want := range map[string]string{
		"":                                 "",
		"  a \t b\u2003c\n\nd  ":           "a b c d",
		"safe\u202egnp.exe\u2066 a\u200bb": "safegnp.exe ab",
		`say "no" “no” «no»`:               "say 'no' 'no' 'no'",
		strings.Repeat("é", maxMessage):    strings.Repeat("é", maxMessage),
		strings.Repeat("é", maxMessage+1):  strings.Repeat("é", maxMessage-1) + "…",
	} {
		_, got := new(Facilitator).sanitize(reasonUnspecified, text)
		require.Equal(t, want, got)
	}
}

func FuzzSanitize(f *testing.F) {
	f.Add("insufficient funds")
	f.Add("a\n\nb\u202e\"\xff")
	f.Fuzz(func(t *testing.T, text string) {
		_, got := new(Facilitator).sanitize(reasonUnspecified, text)
		require.True(t, utf8.ValidString(got))
		require.LessOrEqual(t, utf8.RuneCountInString(got), maxMessage)
		require.Equal(t, -1, strings.IndexFunc(got, func(r rune) bool { return !unicode.IsPrint(r) || r == '"' }))
	})
}

func TestAFacilitatorsReasonsReachTheBuyer(t *testing.T) {
	for _, c := range []struct {
		name, reason, message string
		code, text            string
	}{
		{"a code", "insufficient_funds", "", "insufficient_funds", ""},
		{"a code and a text", "insufficient_funds", "the payer has 3 of 42 USDC", "insufficient_funds", "the payer has 3 of 42 USDC"},
		{"a text where the code belongs", "authorization is expired", "", "unspecified", "authorization is expired"},
		{"a text that tries more", `"><script>` + "\n\n", "", "unspecified", "'><script>"},
	} {
		bubble(t, c.name, func(t *testing.T) {
			f := payoffertest.NewPipedFacilitator(t, "one")
			f.Script(verifyCall, payoffertest.FacilitatorReply{Reason: c.reason, Message: c.message})
			f.Script(settleCall, payoffertest.FacilitatorReply{Reason: c.reason, Message: c.message})
			s := newShop(t, setup{facilitators: one(f), chain: newChain(t)})
			got := s.pay(newBuyer(1).v2(t))
			require.Equal(t, Refused, got.Status)
			require.Equal(t, c.code, got.Reason)
			require.Equal(t, c.text != "", strings.HasSuffix(got.Detail, `The facilitator says: "`+c.text+`". Nothing was charged.`), got.Detail)

			reply, err := s.facilitators[0].settle(t.Context(), s.request(newBuyer(1)))
			require.NoError(t, err)
			require.Equal(t, c.code, reply.ErrorReason)
			require.Equal(t, c.text, reply.ErrorMessage)
		})
	}
}

func TestNoTextHoldsTheKeyOfAFacilitator(t *testing.T) {
	key := edKey(t).secret
	f, err := NewFacilitator(FacilitatorConfig{
		URL: "https://user-pays.example/facilitator/v2/" + urlKey + "?token=T0P-s3cr3t", KeyID: "0c8d6a1e-key", KeySecret: key,
	})
	require.NoError(t, err)
	for _, secret := range []string{urlKey, "T0P-s3cr3t", "0c8d6a1e-key", key} {
		code, text := f.sanitize(secret, "no such path: /"+secret+"/verify")
		require.Equal(t, [2]string{"unspecified", ""}, [2]string{code, text})
		_, text = f.sanitize("what about "+secret, "")
		require.Empty(t, text)
		_, text = f.sanitize("", strings.Repeat("x", maxMessage-8)+" "+secret)
		require.Empty(t, text, "nor a part of it")
		_, text = f.sanitize("", "about "+secret[:4]+"\x00"+secret[4:])
		require.Empty(t, text, "nor one that becomes it")
	}
	code, text := f.sanitize("v2_payment", "this facilitator is of version v2")
	require.Equal(t, [2]string{"v2_payment", "this facilitator is of version v2"}, [2]string{code, text}, "words of every address are no keys")
}
