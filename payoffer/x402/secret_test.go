package x402

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// someChallenge is the id of an MPP challenge, of which the chain has only a hash.
const someChallenge = "1hxlFvQ0bKyaT1FRAxbFOjCWVAYi2f-u4DZHMvTSVRk"

// fromCalldata are payloads that everyone can make of a settled authorization.
func fromCalldata(t *testing.T, b *buyer) map[string]Attempt {
	t.Helper()
	all := map[string]Attempt{"in version 1": {Payload: b.v1(t)}}
	for _, token := range []string{"", "TOKENOFASTRANGERXXXXXXXXXX", "short", someChallenge[1:]} {
		rebuilt := *b
		rebuilt.access = token
		all["with the token "+token] = Attempt{Payload: rebuilt.v2(t)}
		all["with the secret "+token] = Attempt{Payload: rebuilt.v2(t), Secret: token}
	}
	return all
}

func TestByPayerNeedsPayerSecret(t *testing.T) {
	tokenless := func(t *testing.T) []byte {
		b := newBuyer(1)
		b.access = ""
		return b.v2(t)
	}
	for name, c := range map[string]struct {
		attempt func(t *testing.T) Attempt
		again   bool // whether the same attempt proves it, too
	}{
		"version 2":                 {func(t *testing.T) Attempt { return Attempt{Payload: newBuyer(1).v2(t)} }, true},
		"MPP":                       {func(t *testing.T) Attempt { return Attempt{Payload: tokenless(t), Secret: someChallenge} }, true},
		"version 1":                 {func(t *testing.T) Attempt { return Attempt{Payload: newBuyer(1).v1(t)} }, false},
		"version 2 without a token": {func(t *testing.T) Attempt { return Attempt{Payload: tokenless(t)} }, false},
	} {
		for _, lost := range []bool{false, true} {
			bubble(t, fmt.Sprintf("%s, outcome unknown at first: %v", name, lost), func(t *testing.T) {
				f, chain, b := payoffertest.NewPipedFacilitator(t, "one"), newChain(t), newBuyer(1)
				settlesOn(f, chain, b)
				status := Settled
				if lost {
					f.Script(settleCall, answerLost, payoffertest.FacilitatorReply{})
					status = Open
				}
				s := newShop(t, setup{facilitators: one(f), chain: chain})
				requireProof := func(a Attempt, proves bool, what string) {
					t.Helper()
					got := s.Pay(t.Context(), a)
					require.Equal(t, status, got.Status, got.Detail)
					require.Equal(t, proves, got.ByPayer, what)
				}
				paid := c.attempt(t)
				requireProof(paid, true, "it was charged")
				for range 2 { // before and after the payer reads the outcome again
					for what, a := range fromCalldata(t, b) {
						requireProof(a, false, what)
					}
					requireProof(paid, c.again, "sent again")
				}
				if lost {
					s.run(20 * time.Second)
					status = Settled
					for what, a := range fromCalldata(t, b) {
						requireProof(a, false, what)
					}
					requireProof(paid, c.again, "sent again once it is settled")
				}
				require.Len(t, f.Calls(settleCall), 1)
			})
		}
	}
}

// A payer that signs again may have lost the token of its first payment.
func TestByPayerWithNewAuthorization(t *testing.T) {
	for _, withChain := range []bool{true, false} {
		bubble(t, fmt.Sprint("with a chain: ", withChain), func(t *testing.T) {
			f, chain, a := payoffertest.NewPipedFacilitator(t, "one"), newChain(t), newBuyer(1)
			settlesOn(f, chain, a)
			c := setup{facilitators: one(f)}
			if withChain {
				c.chain = chain
			}
			s := newShop(t, c)
			require.Equal(t, Settled, s.payAndLeave(a.v1(t)).Status)
			pay := func(b *buyer) Outcome {
				t.Helper()
				got := s.Pay(t.Context(), Attempt{Payload: b.v1(t)})
				requireChargedBy(t, a, got)
				require.Equal(t, s.usdc().USDC.Account(), got.Account)
				return got
			}
			time.Sleep(time.Minute)
			for range 2 {
				require.True(t, pay(signed(2)).ByPayer, "it was signed just now")
			}
			require.False(t, pay(a).ByPayer)

			expired := newBuyer(3)
			expired.auth.ValidBefore = fmt.Sprint(time.Now().Unix() - 1)
			require.False(t, pay(expired).ByPayer, "it may be on a chain since long ago")
			if withChain {
				used := newBuyer(4)
				chain.Transfer(used.key(), someTransaction, 42_000_000, true)
				require.False(t, pay(used).ByPayer, "it is calldata of a payment elsewhere")
				chain.Down(true)
				require.False(t, pay(signed(5)).ByPayer, "it may be used")
			}
		})
	}
}

// An authorization that another service has used was public before it came, so that its first
// sender here may be a stranger.
func TestByPayerFalseIfSettledElsewhere(t *testing.T) {
	for name, covered := range map[string]uint64{"imported": 7, "suspended first": 6} {
		bubble(t, name, func(t *testing.T) {
			s, _, chain, b := onChain(t)
			chain.At(7, time.Now().Unix())
			chain.Cover(1, covered)
			chain.Transfer(b.key(), someTransaction, 42_000_000, false)
			record := func() {
				s.observed(chain, b)
			}
			if name == "imported" {
				record()
			} else {
				got := s.pay(b.v2(t))
				require.Equal(t, Open, got.Status)
				require.False(t, got.ByPayer)
				record()
				s.run(20 * time.Second)
			}
			for range 2 {
				got := s.pay(b.v2(t))
				require.Equal(t, Settled, got.Status)
				require.False(t, got.ByPayer)
			}
			require.Empty(t, s.requireState(b, ledger.IntentSettled).Secret)
		})
	}
}

func TestIdentifyDoesNotCharge(t *testing.T) {
	withShop(t, "", func(t *testing.T, s *shop, f *payoffertest.Facilitator) {
		b := newBuyer(1)
		require.Equal(t, Settled, s.pay(b.v2(t)).Status)
		stored := s.requireState(b, ledger.IntentSettled)
		require.Regexp(t, `^[0-9a-f]{64}$`, stored.Secret)
		calls := len(f.Calls(payoffertest.CallVerify))

		after := newShop(t, setup{facilitators: one(f), ledger: s.book, amount: 4300, owner: "instance-2"})
		for name, shop := range map[string]*shop{"at its price": s, "after a change of price": after} {
			got, err := shop.Identify(Attempt{Payload: b.v2(t)})
			require.NoError(t, err, name)
			require.Equal(t, Identity{stored.Account, stored.From, stored.Nonce, stored.Secret}, got, name)
		}
		got, err := s.Identify(Attempt{Payload: b.v1(t)})
		require.NoError(t, err)
		require.Equal(t, Identity{stored.Account, stored.From, stored.Nonce, ""}, got)
		got = must(s.Identify(Attempt{Payload: b.v1(t), Secret: b.access}))(t)
		require.Equal(t, stored.Secret, got.SecretHash)
		moved := newShop(t, setup{facilitators: one(f), ledger: s.book, payTo: otherPayTo, owner: "instance-3"})
		got, err = moved.Identify(Attempt{Payload: b.v2(t)})
		require.NoError(t, err, "after a change of the payee")
		require.Equal(t, Identity{stored.Account, stored.From, stored.Nonce, stored.Secret}, got)

		for name, change := range map[string]func(*buyer){
			"on another network": func(b *buyer) { b.chainID = 1234 },
			"of another token":   func(b *buyer) { b.token = otherPayTo },
			"malformed":          func(b *buyer) { b.auth.Nonce = "0x12" },
		} {
			other := newBuyer(1)
			change(other)
			_, err := s.Identify(Attempt{Payload: other.v2(t)})
			require.Error(t, err, name)
		}
		require.Len(t, f.Calls(payoffertest.CallVerify), calls)
	})
}

func TestEveryQuoteHasItsOwnToken(t *testing.T) {
	s, tokens := shopOf(t, setup{}), map[string]bool{}
	gated := offer.Resource{URL: "https://shop.example/report", Description: "A report", MimeType: "text/html"}
	quotes := map[string]*Quote{"quote": s.Quote(), "gated": s.QuoteFor(gated, false, "no pass")}
	for n := range 3 { // whatever is left of a group of 3 bytes
		quotes[fmt.Sprint("refusal ", n)] = s.Refusal("refused"[:n+1])
	}
	for name, quote := range quotes {
		for range 2 {
			text, err := base64.StdEncoding.DecodeString(quote.Header())
			require.NoError(t, err, name)
			var required map[string]any
			require.NoError(t, json.Unmarshal(text, &required), name)
			tokens[takeToken(t, required)] = true
		}
	}
	for range 2 {
		var required map[string]any
		require.NoError(t, json.Unmarshal(mustJSON(t, s.Required("")), &required))
		tokens[takeToken(t, required)] = true
	}
	require.Len(t, tokens, 2*len(quotes)+2)
}

func TestQuoteForOtherResource(t *testing.T) {
	s := shopOf(t, setup{})
	gated := offer.Resource{URL: "https://shop.example/report", Description: "A report", MimeType: "text/html"}
	quote := s.QuoteFor(gated, false, "no pass")
	text := must(base64.StdEncoding.DecodeString(quote.Header()))(t)
	var required PaymentRequired
	require.NoError(t, json.Unmarshal(text, &required))
	require.Equal(t, gated, required.Resource)
	require.Equal(t, "no pass", required.Error)
	require.Equal(t, s.Accepts(), required.Accepts)
	require.Len(t, required.Extensions, 2)
	require.Contains(t, required.Extensions, "access")
	require.Contains(t, required.Extensions, "payment-identifier")
	var body PaymentRequiredV1
	require.NoError(t, json.Unmarshal(quote.Body, &body))
	require.Equal(t, gated.URL, body.Accepts[0].Resource)
	require.Equal(t, gated.Description, body.Accepts[0].Description)
	require.Equal(t, "no pass", body.Error)
	require.Empty(t, body.Extensions, "the signed offers are for another resource")
}
