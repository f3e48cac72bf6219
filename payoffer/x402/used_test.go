package x402

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// saysNothingCharged reports whether an outcome tells its buyer so.
func saysNothingCharged(o Outcome) bool {
	return strings.Contains(strings.ToLower(o.Reason+o.Detail), "nothing was charged")
}

// What others had settled before it came here was paid all the same.
func TestUsedAuthorizationFollowsReceipts(t *testing.T) {
	for _, verified := range []string{"before it came", "during verification"} {
		for _, c := range []struct {
			name    string
			amount  int64
			covered bool
			row     bool
			since   int64
			status  Status
			reason  string
		}{
			{"a row shows it", 42_000_000, true, true, 0, Settled, ""},
			{"a row shows it before the observer has passed its block", 42_000_000, false, true, 0, Settled, ""},
			{"the observer has not passed its block", 42_000_000, false, false, 0, Open, reasonUsed},
			{"another amount was paid", 1_000_000, true, true, 0, Refused, reasonElsewhere},
			{"no row shows it", 42_000_000, true, false, -3600, Refused, reasonElsewhere},
			{"the rows may have begun after it was signed", 42_000_000, true, false, -59, Conflict, reasonUsed},
			{"the rows began before it, by whatever clock", 42_000_000, true, false, -60, Refused, reasonElsewhere},
		} {
			bubble(t, c.name+", used "+verified, func(t *testing.T) {
				f, chain, b := payoffertest.NewPipedFacilitator(t, "one"), newChain(t), newBuyer(1)
				var duringVerify func()
				s := newShop(t, setup{made: hooked(t, f, &duringVerify), chain: chain})
				chain.At(7, time.Now().Unix())
				chain.Cover(time.Now().Unix()+c.since, 6)
				if c.covered {
					chain.Cover(time.Now().Unix()+c.since, 7)
				}
				use := func() {
					chain.Transfer(b.key(), someTransaction, c.amount, false)
					if !c.row {
						return
					}
					s.observed(chain, b)
				}
				if verified == "before it came" {
					use()
				} else {
					duringVerify = use
					f.Script(payoffertest.CallVerify, payoffertest.FacilitatorReply{Reason: "invalid_payload"})
				}
				for range 2 {
					got := s.pay(b.v2(t))
					require.Equal(t, c.status, got.Status, got.Detail)
					require.Empty(t, f.Calls(settleCall))
					if c.status == Settled {
						require.Equal(t, "seen", got.Evidence)
						require.Equal(t, someTransaction, got.Response.Transaction)
						require.Equal(t, strings.ToLower(b.auth.Nonce), got.Intent)
						continue
					}
					require.Equal(t, c.reason, got.Reason)
					require.False(t, saysNothingCharged(got) && c.reason != reasonElsewhere, got.Detail)
					if c.status == Open {
						break // the second time it is known
					}
				}
			})
		}
	}
}

func TestSuspendedPaymentFollowsReceipts(t *testing.T) {
	for name, c := range map[string]struct {
		then   func(*testing.T, *shop, *payoffertest.Chain, *buyer)
		status Status
		state  ledger.IntentState
	}{
		"which come to show it": {func(t *testing.T, s *shop, chain *payoffertest.Chain, b *buyer) {
			s.observed(chain, b)
		}, Settled, ledger.IntentSettled},
		"which do not come to show it": {func(_ *testing.T, _ *shop, chain *payoffertest.Chain, _ *buyer) {
			chain.Cover(1, 7)
		}, Refused, ledger.IntentRefused},
		"which began too late": {func(_ *testing.T, _ *shop, chain *payoffertest.Chain, _ *buyer) {
			chain.Cover(time.Now().Unix()+1, 7)
		}, Conflict, ""},
		"which say nothing yet": {func(*testing.T, *shop, *payoffertest.Chain, *buyer) {}, Open, ledger.IntentSettling},
		"which cannot be read": {func(_ *testing.T, _ *shop, chain *payoffertest.Chain, _ *buyer) {
			chain.Down(true)
		}, Open, ledger.IntentSettling},
	} {
		bubble(t, name, func(t *testing.T) {
			s, f, chain, b := onChain(t)
			chain.At(7, time.Now().Unix())
			chain.Cover(1, 6)
			chain.Transfer(b.key(), someTransaction, 42_000_000, false)
			got := s.pay(b.v2(t))
			require.Equal(t, Open, got.Status)
			require.Equal(t, b.auth.Nonce, got.Intent)
			require.Contains(t, s.pay(b.v2(t)).Detail, "it was not sent")
			again := s.pay(newBuyer(2).v2(t))
			require.Equal(t, Conflict, again.Status, "another one could be charged besides")
			require.Equal(t, b.auth.Nonce, again.Intent)

			c.then(t, s, chain, b)
			s.run(20 * time.Second)
			require.Equal(t, c.status, s.pay(b.v2(t)).Status)
			s.requireState(b, c.state)
			require.Empty(t, f.Calls(settleCall))
		})
	}
}

// The row is of a block that another one replaced: the payment is in another transaction, or in none.
func TestImportNeedsChainProof(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		s, f, chain, b := onChain(t)
		chain.At(7, time.Now().Unix())
		chain.Cover(1, 7)
		chain.Transfer(b.key(), "0x"+strings.Repeat("0e", 32), 42_000_000, false)
		s.observed(chain, b)
		chain.Transfer(b.key(), someTransaction, 42_000_000, false)
		require.Equal(t, Open, s.pay(b.v2(t)).Status)
		s.requireState(b, ledger.IntentSettling)
		require.Empty(t, f.Calls(settleCall))
	})
}

// The chain cannot be read while a facilitator says no.
func TestRefusalWaitsForChain(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		f, chain, b := payoffertest.NewPipedFacilitator(t, "one"), newChain(t), newBuyer(1)
		f.Script(payoffertest.CallVerify, payoffertest.FacilitatorReply{Reason: "blocked"}, payoffertest.FacilitatorReply{Reason: "blocked"})
		duringVerify := func() { chain.Down(true) }
		s := newShop(t, setup{made: hooked(t, f, &duringVerify), chain: chain})
		require.Equal(t, Open, s.pay(b.v2(t)).Status)
		s.run(20 * time.Second)
		require.Equal(t, Open, s.pay(b.v2(t)).Status)

		duringVerify = nil
		chain.Down(false)
		s.run(20 * time.Second)
		s.requireState(b, "")
		got := s.pay(b.v2(t))
		require.Equal(t, Refused, got.Status)
		require.Equal(t, "blocked", got.Reason)
		require.True(t, saysNothingCharged(got), "the chain says so")
	})
}

func TestFacilitatorRefusalNeedsChainProof(t *testing.T) {
	for _, c := range []struct {
		reason        string
		with, without Status
	}{
		{"invalid_exact_evm_nonce_already_used", Open, Conflict},
		{"invalid_exact_evm_payload_authorization_valid_before", Refused, Conflict},
		{"invalid_exact_evm_transaction_simulation_failed", Refused, Conflict},
		{"invalid_exact_evm_insufficient_balance", Refused, Refused},
		{"blocked", Refused, Refused},
		{"refused_by_policy", Refused, Refused},
	} {
		for _, withChain := range []bool{true, false} {
			bubble(t, fmt.Sprintf("%s, chain %t", c.reason, withChain), func(t *testing.T) {
				f := payoffertest.NewPipedFacilitator(t, "one")
				f.Script(payoffertest.CallVerify, payoffertest.FacilitatorReply{Reason: c.reason})
				setup, want := setup{facilitators: one(f)}, c.without
				if withChain {
					setup.chain, want = newChain(t), c.with
				}
				got := newShop(t, setup).pay(newBuyer(1).v2(t))
				require.Equal(t, want, got.Status, got.Detail)
				require.Equal(t, withChain && want == Refused, saysNothingCharged(got), got.Detail)
				require.Equal(t, want == Open, got.RetryAfter > 0)
			})
		}
	}
}

// Whoever sends a signature that cannot be checked now, for an authorization that is public on the
// chain, gets no receipt. The wallet gets it once the signature can be checked.
func TestContractWalletReceiptNeedsSignature(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		s, f, chain, _ := onChain(t)
		b := walletOf(newBuyer(1), 99)
		chain.Fail("signed", true)
		chain.Transfer(b.key(), someTransaction, 42_000_000, false)
		s.observed(chain, b)
		got := s.pay(b.v2(t))
		require.Equal(t, Open, got.Status, "it may come again")
		require.Contains(t, got.Detail, someTransaction)
		require.Nil(t, got.Response)
		s.requireState(b, "")

		chain.Fail("signed", false)
		require.Equal(t, Refused, s.pay(b.v2(t)).Status, "nobody signed it")
		chain.Sign(b.auth.From, b.signatureBytes())
		got = s.pay(b.v2(t))
		require.Equal(t, Settled, got.Status, "%+v", got)
		require.Equal(t, someTransaction, got.Response.Transaction)
		require.Empty(t, f.Calls(verifyCall))
	})
}

// hooked is a facilitator that does something besides while it verifies.
func hooked(t *testing.T, f *payoffertest.Facilitator, besides *func()) []*Facilitator {
	t.Helper()
	made := must(NewFacilitator(FacilitatorConfig{URL: f.URL(), Transport: hook{f.Transport(), besides}}))(t)
	return []*Facilitator{made}
}

type hook struct {
	http.RoundTripper
	besides *func()
}

func (h hook) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasSuffix(r.URL.Path, payoffertest.CallVerify) && *h.besides != nil {
		(*h.besides)()
	}
	return h.RoundTripper.RoundTrip(r)
}

// A transport refuses only what the chain says was not charged, and never what was
// taken before.
func TestAttemptRefuseNeedsChainProof(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(s *shop, chain *payoffertest.Chain, b *buyer)
		want    Status
		asked   bool
	}{
		"unused": {func(*shop, *payoffertest.Chain, *buyer) {}, Refused, true},
		"paid by others": {func(s *shop, chain *payoffertest.Chain, b *buyer) {
			chain.Transfer(b.key(), someTransaction, 42_000_000, false)
			s.observed(chain, b)
		}, Settled, true},
		"unreadable": {func(_ *shop, chain *payoffertest.Chain, _ *buyer) { chain.Down(true) }, Open, true},
		"taken before": {func(s *shop, chain *payoffertest.Chain, b *buyer) {
			require.Equal(s.t, Settled, s.pay(b.v2(s.t)).Status)
		}, Settled, false},
	} {
		bubble(t, name, func(t *testing.T) {
			s, f, chain, b := onChain(t)
			chain.At(7, time.Now().Unix())
			f.OnBroadcast(func(payoffertest.Settlement) (string, error) {
				chain.Transfer(b.key(), someTransaction, 42_000_000, false)
				return someTransaction, nil
			})
			c.prepare(s, chain, b)
			calls, asked := len(f.Calls(settleCall)), false
			got := s.Pay(t.Context(), Attempt{Payload: b.v2(t), Refuse: func() (string, string) {
				asked = true
				return "invalid-challenge", "It answers no challenge."
			}})
			require.Equal(t, c.want, got.Status, got.Detail)
			require.Equal(t, c.asked, asked)
			require.Len(t, f.Calls(settleCall), calls)
			if c.want == Refused {
				require.Equal(t, "invalid-challenge", got.Reason)
				require.Equal(t, "It answers no challenge. Nothing was charged.", got.Detail)
				s.requireState(b, "")
			}
		})
	}
}

// The signature of a wallet may be valid although the chain cannot say so, and its transaction on the way to a block.
func TestUnprovenPaymentIsNotDenied(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		s, f, chain, _ := onChain(t)
		f.Script(payoffertest.CallVerify, payoffertest.FacilitatorReply{Reason: "invalid_exact_evm_payload_undeployed_smart_wallet"})
		chain.Fail("signed", true)
		got := s.pay(walletOf(newBuyer(1), 65).v2(t))
		require.Equal(t, Refused, got.Status, got.Detail)
		require.False(t, saysNothingCharged(got))

		chain.Fail("signed", false)
		b := walletOf(newBuyer(2), 65)
		chain.Sign(b.auth.From, b.signatureBytes())
		got = s.pay(b.v2(t))
		require.Equal(t, Refused, got.Status, got.Detail)
		require.True(t, saysNothingCharged(got), "its signature is proven")
	})
}
