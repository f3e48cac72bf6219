package x402

import (
	"encoding/hex"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// golden was made by ethers 6 (TypedDataEncoder.hash and signTypedData), for
// the domain USDC, 2, 84532 and the token of Base Sepolia.
var golden = struct {
	auth              authorization
	digest, signature string
}{
	auth: authorization{
		From: "0xB9BF31b1F231eA9807FFA77760953f55356E2523", To: testPayTo, Value: "42000000", ValidAfter: "0",
		ValidBefore: "1795255658", Nonce: "0x1cfced7c7afb077fb44235518ad70757f692937d3fd2ce9c3cf36d7180f0b96c",
	},
	digest:    "9539dd20ba9c4f9dcca84452e7355049de1d0fd893986709aa2977450decf7f2",
	signature: "0x20dee50afcf70fb962f97409c2b1326f891727f49a5f3dc904a7c7ac6eff491672025995e6861c40336c7c4c70632fc3207df1074f8a056392410ace38285b541b",
}

func TestSignatureMatchesReferenceWallet(t *testing.T) {
	_, rails := testOffer(t, setup{ledger: nopBook{}}.withDefaults(t))
	rail := &Rail{USDC: rails[0], terms: terms{domain: domainHash(rails[0].Network)}}
	require.Equal(t, golden.digest, hex.EncodeToString(digest(golden.auth, rail.terms.domain)))
	signature := must(hex.DecodeString(golden.signature[2:]))(t)
	require.True(t, golden.auth.isSigned(signature, rail.terms.domain))
	signature[64] -= 27 // some wallets send the recovery id
	require.True(t, golden.auth.isSigned(signature, rail.terms.domain))
}

// mirrored is the other signature that recovers to the same signer: its s is in
// the upper half, which the token contract refuses.
func mirrored(t *testing.T, b *buyer) string {
	raw := must(hex.DecodeString(b.sign(t)[2:]))(t)
	s := new(big.Int).Sub(crypto.S256().Params().N, new(big.Int).SetBytes(raw[32:64]))
	copy(raw[32:64], fixed32(s))
	raw[64] = 27 + (28 - raw[64])
	return "0x" + hex.EncodeToString(raw)
}

func TestPayRefusesInvalidPaymentLocally(t *testing.T) {
	accepting := func(change func(*Requirements)) func(*testing.T, *buyer) []byte {
		accepted := Requirements{
			Scheme: "exact", Network: "eip155:84532", Amount: "42000000", Asset: testToken, PayTo: testPayTo,
			MaxTimeoutSeconds: 300, Extra: extra{domain{Name: "USDC", Version: "2"}, "upfront"},
		}
		change(&accepted)
		return func(t *testing.T, b *buyer) []byte { return b.v2For(t, accepted) }
	}
	says := map[string]string{ // what differs, with both values
		"another scheme":                `scheme is "upto", expected "exact"`,
		"another payee accepted":        `payTo is "` + strings.ToLower(otherPayTo) + `", expected "` + strings.ToLower(testPayTo) + `"`,
		"another chain":                 `network is "eip155:8453", expected "eip155:84532"`,
		"version 1 with a CAIP-2 id":    `network is "eip155:84532", expected "base-sepolia"`,
		"version 2 with a chain's name": `network is "base-sepolia", expected "eip155:84532"`,
		"another recipient":             "authorization.to is " + otherPayTo + ", expected " + testPayTo,
		"too little":                    "authorization.value is 41999999, expected 42000000",
	}
	for _, c := range []struct {
		name, reason string
		payload      func(t *testing.T, b *buyer) []byte
	}{
		{"another scheme", reasonRequirements, accepting(func(a *Requirements) { a.Scheme = "upto" })},
		{"another payee accepted", reasonRequirements, accepting(func(a *Requirements) { a.PayTo = otherPayTo })},
		{"another chain", reasonRequirements, func(t *testing.T, b *buyer) []byte { b.chainID = 8453; return b.v2(t) }},
		{"a chain nobody knows", reasonRequirements, func(t *testing.T, b *buyer) []byte { b.network = "moon"; return b.v1(t) }},
		{"version 1 with a CAIP-2 id", reasonRequirements, func(t *testing.T, b *buyer) []byte { b.network = "eip155:84532"; return b.v1(t) }},
		{"version 2 with a chain's name", reasonRequirements, accepting(func(a *Requirements) { a.Network = "base-sepolia" })},
		{"another recipient", reasonRecipient, func(t *testing.T, b *buyer) []byte { b.auth.To = otherPayTo; return b.v2(t) }},
		{"too little", reasonValue, func(t *testing.T, b *buyer) []byte { b.auth.Value = "41999999"; return b.v2(t) }},
		{"too much", reasonValue, func(t *testing.T, b *buyer) []byte { b.auth.Value = "42000001"; return b.v1(t) }},
		{"the payee as its own payer", reasonSelf, func(t *testing.T, b *buyer) []byte { b.auth.From = strings.ToLower(testPayTo); return b.v2(t) }},
		{"another token's name", reasonSignature, func(t *testing.T, b *buyer) []byte { b.tokenName = "USD Coin"; return b.v2(t) }},
		{"another signer", reasonSignature, func(t *testing.T, b *buyer) []byte { b.auth.From = otherPayTo; return b.v2(t) }},
		{"another version of the signature", reasonSignature, func(t *testing.T, b *buyer) []byte { b.signature = mirrored(t, b); return b.v2(t) }},
		{"a signature of zeros", reasonSignature, func(t *testing.T, b *buyer) []byte {
			b.signature = "0x" + strings.Repeat("00", 65)
			return b.v2(t)
		}},
		{"a recovery id that does not exist", reasonSignature, func(t *testing.T, b *buyer) []byte {
			b.signature = b.sign(t)[:130] + "1d"
			return b.v2(t)
		}},
	} {
		bubble(t, c.name, func(t *testing.T) {
			f := payoffertest.NewPipedFacilitator(t, "one")
			chain, attempts := newChain(t), 1 // what is compared here spends nobody's attempts
			if c.reason == reasonSignature {
				attempts = 3
			}
			s := newShop(t, setup{facilitators: []*payoffertest.Facilitator{f}, chain: chain, limiter: limited(attempts, time.Hour)})
			b := newBuyer(1)

			payload := c.payload(t, b)
			for range 3 {
				got := s.pay(payload)
				require.Equal(t, Refused, got.Status, got.Detail)
				require.Equal(t, c.reason, got.Reason)
				require.NotEmpty(t, got.Detail)
				require.Contains(t, got.Detail, says[c.name])
				require.Nil(t, got.Response)
			}
			require.Empty(t, f.Calls(payoffertest.CallVerify))
			open := must(s.book.OpenIntents(t.Context(), s.Offer.ID, 0, 10))(t)
			require.Empty(t, open)
		})
	}
}

func TestPayMalformedPayload(t *testing.T) {
	withShop(t, "", func(t *testing.T, s *shop, f *payoffertest.Facilitator) {
		got := s.pay([]byte(`{"x402Version":2,"secret":"</script>"}`))
		require.Equal(t, Malformed, got.Status)
		require.NotContains(t, got.Detail, "script")
		require.Empty(t, f.Calls(payoffertest.CallVerify))
	})
}

func TestPayIgnoresAddressCase(t *testing.T) {
	withShop(t, "", func(t *testing.T, s *shop, f *payoffertest.Facilitator) {
		b := newBuyer(1)
		b.auth.To = strings.ToLower(b.auth.To)
		got := s.pay(b.v2For(t, Requirements{
			Scheme: "exact", Network: "eip155:84532", Amount: "42000000", Asset: strings.ToLower(testToken), PayTo: strings.ToLower(testPayTo),
		}))
		require.Equal(t, Settled, got.Status, got.Detail)
		require.Contains(t, string(f.Calls(payoffertest.CallSettle)[0].Body), `"payTo":"`+testPayTo+`"`, "our own requirements are sent")
	})
}

func TestPayFindsRailByChain(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		f := payoffertest.NewPipedFacilitator(t, "one")
		s := newShop(t, setup{facilitators: []*payoffertest.Facilitator{f}, networks: []string{"base-sepolia", "arbitrum-sepolia"}})
		b := newBuyer(1)
		b.chainID, b.token, b.tokenName = 421614, "0x75faf114eafb1BDbe2F0316DF893fd58CE46AA4d", "USD Coin"
		got := s.pay(b.v2(t))
		require.Equal(t, Settled, got.Status, got.Detail)
		require.Equal(t, "eip155:421614", got.Response.Network)
		stored, _ := s.stored(b)
		require.Equal(t, s.rails[1].Account(), stored.Account)
	})
}

// walletOf makes a buyer a contract wallet whose signature has so many bytes; 65 of them recover to no
// key or to another one.
func walletOf(b *buyer, length int) *buyer {
	b.auth.From = "0xC0FFEE0000000000000000000000000000C0FFEE"
	b.signature = "0x" + strings.Repeat(b.auth.Nonce[len(b.auth.Nonce)-2:], length-1) + "01"
	return b
}

func (b *buyer) signatureBytes() []byte { return common.FromHex(b.signature) }

// lengths are those of a wallet's signature: of one owner, and of a passkey.
var lengths = []int{65, 700}

func TestDecodePaymentSignatureLength(t *testing.T) {
	for length, ok := range map[int]bool{64: false, 65: true, 66: true, maxSignature: true, maxSignature + 1: false} {
		b := newBuyer(1)
		b.signature = "0x" + strings.Repeat("ab", length)
		_, err := decodePayment(b.v2(t))
		require.Equal(t, ok, err == nil, "%d bytes: %v", length, err)
	}
}

func TestContractWalletSignatureNeedsChain(t *testing.T) {
	for _, length := range lengths {
		bubble(t, fmt.Sprint(length, " bytes"), func(t *testing.T) {
			f, chain, b := payoffertest.NewPipedFacilitator(t, "one"), newChain(t), walletOf(newBuyer(1), length)
			s := newShop(t, setup{facilitators: one(f), chain: chain})
			got := s.pay(b.v2(t))
			require.Equal(t, Refused, got.Status)
			require.Equal(t, "invalid_exact_evm_signature", got.Reason)
			require.Empty(t, f.Calls(verifyCall))
			s.requireState(b, "")
			chain.Sign(b.auth.From, b.signatureBytes())
			settlesOn(f, chain, b)
			requireChargedBy(t, b, s.pay(b.v2(t)))
			require.Contains(t, string(f.Calls(settleCall)[0].Body), b.signature, "every byte is sent as it was signed")
			requireChargedBy(t, b, s.pay(b.v1(t)))
			require.Len(t, f.Calls(settleCall), 1)
			require.Equal(t, 2, chain.Calls("signed"), "a known payment is not proven again")
		})
	}
}

func TestRateLimitPrecedesChainCalls(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		chain := newChain(t)
		s := newShop(t, setup{facilitators: one(payoffertest.NewPipedFacilitator(t, "one")), chain: chain, limiter: limited(2, time.Minute)})
		for n := range 5 {
			s.pay(walletOf(newBuyer(n), 700).v2(t))
		}
		require.Equal(t, 2, chain.Calls("signed"))
	})
}

// Where the chain says nothing of signatures the facilitator decides, and the exact authorization that
// was answered 409 is never sent, whatever happens to the other.
func TestRejectedUnprovenAuthorizationIsNeverSent(t *testing.T) {
	for _, length := range lengths {
		bubble(t, fmt.Sprint(length, " bytes"), func(t *testing.T) {
			f, a, b := payoffertest.NewPipedFacilitator(t, "one"), walletOf(newBuyer(1), length), walletOf(newBuyer(2), length)
			f.Script(settleCall, payoffertest.FacilitatorReply{Fault: payoffertest.FaultCloseRead}, payoffertest.FacilitatorReply{})
			s := newShop(t, setup{facilitators: one(f)})
			require.Equal(t, Open, s.pay(a.v2(t)).Status)
			before := s.requireState(a, ledger.IntentSettling)
			got := s.pay(b.v2(t))
			require.Equal(t, Conflict, got.Status)
			require.Equal(t, a.auth.Nonce, got.Intent)
			require.False(t, saysNothingCharged(got))
			open := s.requireState(a, ledger.IntentSettling)
			require.Equal(t, before.RejectedUntil, open.RejectedUntil, "what is not proven says nothing of the payer")
			require.Equal(t, before.Unacknowledged, open.Unacknowledged)

			s.run(20 * time.Second)
			got = s.pay(a.v2(t))
			require.Equal(t, Settled, got.Status, "%+v %s", got, s.logs)
			time.Sleep(3 * time.Minute)
			for range 2 {
				got = s.pay(b.v2(t))
				require.Equal(t, Conflict, got.Status, "%+v", got)
				require.Nil(t, got.Response, "another payment's 200")
			}
			settled := 0
			for _, call := range f.Calls(settleCall) {
				require.Contains(t, string(call.Body), strings.ToLower(a.auth.Nonce))
				settled++
			}
			require.Equal(t, 2, settled, "the first one, twice")

			// Another instance, and this one after a restart, know it too.
			other := newShop(t, setup{facilitators: one(f), ledger: s.book, owner: "instance-2"})
			require.Equal(t, Conflict, other.pay(b.v1(t)).Status)
			require.Len(t, f.Calls(settleCall), 2)
			c := walletOf(newBuyer(3), length)
			require.Equal(t, Settled, s.pay(c.v2(t)).Status, "a purchase of its own")
		})
	}
}
