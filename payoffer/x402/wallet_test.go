package x402

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

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

func TestTheLengthOfASignature(t *testing.T) {
	for length, ok := range map[int]bool{64: false, 65: true, 66: true, maxSignature: true, maxSignature + 1: false} {
		b := newBuyer(1)
		b.signature = "0x" + strings.Repeat("ab", length)
		_, err := decodePayment(b.v2(t))
		require.Equal(t, ok, err == nil, "%d bytes: %v", length, err)
	}
}

func TestTheChainProvesTheSignatureOfAWallet(t *testing.T) {
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

func TestTheRateLimitComesBeforeTheChain(t *testing.T) {
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
func TestARejectedUnprovenAuthorizationIsNeverSent(t *testing.T) {
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
