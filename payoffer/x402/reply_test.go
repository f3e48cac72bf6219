package x402

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

const (
	textOfReply = "the description is too long"
	jwtOfReply  = "eyJhbGciOiJFZERTQSJ9.eyJzdWIiOiJrZXkifQ.c2lnbmF0dXJl"
)

// The operator reads why a facilitator answers 4xx, and the payer gets only a code.
func TestFacilitatorStatus4xxReason(t *testing.T) {
	const verifyCode, settleCode = "unexpected_verify_error", "unexpected_settle_error"
	for name, c := range map[string]struct {
		status int
		body   string
		// log is what the operator reads after the status; reason what the payer gets from verify, with a status of the
		// payment, and settled the code of an open settlement.
		log, reason string
		want        Status
		settled     string
	}{
		"a verdict":                {400, `{"isValid":false,"success":false,"invalidReason":"invalid_payload","errorReason":"invalid_payload","invalidMessage":"` + textOfReply + `","errorMessage":"` + textOfReply + `"}`, "invalid_payload: " + textOfReply, "invalid_payload", Refused, "invalid_payload"},
		"a code alone":             {422, `{"invalidReason":"invalid_payload","errorReason":"invalid_payload"}`, "invalid_payload", "invalid_payload", Refused, "invalid_payload"},
		"a text for a code":        {400, `{"invalidReason":"` + textOfReply + `","errorReason":"` + textOfReply + `"}`, "unspecified: " + textOfReply, verifyCode, Unavailable, settleCode},
		"words of CDP":             {400, `{"errorType":"invalid_request","errorMessage":"` + textOfReply + `"}`, "invalid_request: " + textOfReply, verifyCode, Unavailable, settleCode},
		"an error":                 {400, `{"error":"` + textOfReply + `"}`, "unspecified: " + textOfReply, verifyCode, Unavailable, settleCode},
		"an object":                {400, `{"error":{"why":"` + textOfReply + `"}}`, "unspecified: {'error':{'why':'" + textOfReply + "'}}", verifyCode, Unavailable, settleCode},
		"an object with an escape": {400, `{"error":{"why":"\u0073` + urlKey[1:] + `"}}`, "unspecified", verifyCode, Unavailable, settleCode},
		"no JSON":                  {413, "<h1>" + textOfReply + "</h1>", "unspecified: <h1>" + textOfReply + "</h1>", verifyCode, Unavailable, settleCode},
		"nothing":                  {400, " ", "unspecified", verifyCode, Unavailable, settleCode},
		"a yes":                    {400, `{"isValid":true,"success":true,"message":"` + textOfReply + `"}`, "unspecified: " + textOfReply, verifyCode, Unavailable, settleCode},
		"terminal escapes":         {400, `{"error":"a\u001b[31m\u202eb\u0000\nc"}`, "unspecified: a[31mb c", verifyCode, Unavailable, settleCode},
		"a long text":              {400, `{"error":"` + strings.Repeat("x", 2000) + `"}`, "unspecified: " + strings.Repeat("x", maxMessage-1) + "…", verifyCode, Unavailable, settleCode},
		"our key":                  {400, `{"error":"bad \u0073` + urlKey[1:] + `"}`, "unspecified", verifyCode, Unavailable, settleCode},
		"our key as the code":      {400, `{"invalidReason":"` + urlKey + `","errorReason":"` + urlKey + `"}`, "unspecified", verifyCode, Unavailable, settleCode},
		"our token":                {400, "Bearer " + jwtOfReply, "unspecified", verifyCode, Unavailable, settleCode},
		"a refused key":            {401, `{"isValid":false,"success":false,"error":"` + textOfReply + `"}`, "unspecified: " + textOfReply, "facilitator_unavailable", Unavailable, "status_401"},
		"a limit":                  {429, textOfReply, "unspecified: " + textOfReply, "facilitator_unavailable", Unavailable, "status_429"},
	} {
		for _, call := range []string{verifyCall, settleCall} {
			bubble(t, name+call, func(t *testing.T) {
				stand, chain, b := payoffertest.NewPipedFacilitator(t, "one"), newChain(t), newBuyer(1)
				var logs strings.Builder
				made := must(NewFacilitator(FacilitatorConfig{URL: stand.URL() + "/" + urlKey, Transport: stand.Transport(), Logger: slog.New(slog.NewTextHandler(&logs, nil))}))(t)
				s := newShop(t, setup{made: []*Facilitator{made}, chain: chain})
				// The fake knows its calls by their whole path.
				stand.Script("/"+urlKey+verifyCall, payoffertest.FacilitatorReply{Body: `{"isValid":true}`})
				stand.Script("/"+urlKey+call, payoffertest.FacilitatorReply{Status: c.status, Body: c.body})
				got := s.pay(b.v2(t))
				line := "reply=\"" + strings.TrimPrefix(call, "/") + " HTTP " + fmt.Sprint(c.status) + " " + c.log + "\""
				require.Contains(t, logs.String()+s.logs.String(), line)
				require.NotContains(t, logs.String()+s.logs.String(), urlKey)
				require.NotContains(t, logs.String()+s.logs.String(), jwtOfReply)
				require.NotContains(t, got.Reason+got.Detail, textOfReply)
				require.NotContains(t, got.Reason+got.Detail, "xxx")
				if call == settleCall {
					require.Equal(t, Open, got.Status, "it may have been sent to the chain")
					require.Equal(t, "settlement_unknown", got.Reason)
					require.Contains(t, got.Detail, " The reason is "+c.settled+".")
					open := s.requireState(b, ledger.IntentSettling)
					require.True(t, strings.HasPrefix(open.Reason, c.settled), open.Reason)
					require.Equal(t, strings.TrimSuffix(strings.TrimPrefix(line, `reply="`), `"`), s.Facilitators()[0].Rejection)
					chain.Transfer(b.key(), someTransaction, 42_000_000, false)
					s.run(10 * time.Second)
					require.Equal(t, Settled, s.pay(b.v2(t)).Status, "it was")
					return
				}
				require.Equal(t, c.want, got.Status)
				require.Equal(t, c.reason, got.Reason)
				s.requireState(b, "")
				// A payer can make a facilitator refuse a payment.
				require.Equal(t, c.want != Refused, s.Facilitators()[0].Rejection != "")
				stand.Script("/"+urlKey+verifyCall, payoffertest.FacilitatorReply{Body: `{"isValid":true}`})
				settlesOn(stand, chain, b)
				s.pay(b.v2(t))
				require.Empty(t, s.Facilitators()[0].Rejection, "it takes payments again")
			})
		}
	}
}

// A body that could be read whole only in part shows nothing.
func TestOversizedReplyIsNotLogged(t *testing.T) {
	withShop(t, "", func(t *testing.T, s *shop, f *payoffertest.Facilitator) {
		f.Script(verifyCall, payoffertest.FacilitatorReply{Status: 400, Body: `{"error":"` + strings.Repeat("x", maxReply) + `"}`})
		require.Equal(t, Unavailable, s.pay(newBuyer(1).v2(t)).Status)
		require.NotContains(t, s.logs.String(), "xxx")
		require.Contains(t, s.logs.String(), `reply="verify HTTP 400 unspecified"`)
	})
}

// The payer does not get the text, and it still shows that an authorization may have been charged elsewhere.
func TestReplyTextAuthorizationUsedIsConflict(t *testing.T) {
	for _, text := range []string{"the authorization is expired", "this nonce was spent", "execution reverted in the simulation"} {
		withShop(t, text, func(t *testing.T, s *shop, f *payoffertest.Facilitator) {
			f.Script(verifyCall, payoffertest.FacilitatorReply{Reason: "invalid_payload", Message: text})
			got := s.pay(newBuyer(1).v2(t))
			require.Equal(t, Conflict, got.Status)
			require.NotContains(t, got.Detail, text)
		})
	}
}
