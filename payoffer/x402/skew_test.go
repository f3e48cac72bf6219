package x402

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// A clock that is wrong and not proven to be wrong must not refuse a payer for good. The newest block shows a clock that
// is behind, and what the chain still accepts.
func TestAuthorizationTimesUseClockAndBlock(t *testing.T) {
	const retry, final, unknown = Unavailable, Refused, Conflict
	const none = int64(-1 << 40) // no bound
	for _, c := range []struct {
		clock string
		// block is the time of the newest block less that of the clock. after and before are the bounds of the
		// authorization less the time of the clock.
		block, after, before int64
		withChain, without   Status
		reason               string // of what is not settled
	}{
		{"right", 0, 0, 300, Settled, Settled, ""},
		{"right", 0, 1, 300, final, final, reasonEarly},
		{"right", -2, 1, 300, final, final, reasonEarly},
		{"right", 0, none, 6, Settled, Settled, ""},
		{"right", 0, none, 5, retry, unknown, reasonLate},
		{"right", 0, none, -1, final, unknown, reasonLate},
		{"right", 0, none, 901, final, final, reasonLate},
		{"ahead", -120, -120, 180, Settled, Settled, ""},
		{"ahead", -120, none, 0, retry, unknown, reasonLate},
		{"ahead", -120, none, -120, retry, unknown, reasonLate},
		{"ahead", -120, none, -121, final, unknown, reasonLate},
		{"ahead", -120, -60, 240, Settled, Settled, ""}, // the facilitator judges it
		{"behind", 120, 120, 420, Settled, final, reasonEarly},
		{"behind", 120, 1, 420, Settled, final, reasonEarly},
		{"behind", 120, 121, 420, final, final, reasonEarly},
		{"behind", 120, none, 126, Settled, Settled, ""},
		{"behind", 120, none, 125, retry, Settled, reasonLate},
		{"behind", 120, none, 119, final, Settled, reasonLate},
		{"behind", 1200, none, 1100, final, final, reasonLate}, // by the block it has expired, by the clock it is too long
		{"behind", 1200, none, 1500, retry, final, reasonLate},
		{"behind", 1200, none, 2100, retry, final, reasonLate},
		{"behind", 1200, none, 2101, final, final, reasonLate},
	} {
		for _, block := range []string{"known", "unread", "without a chain"} {
			bubble(t, fmt.Sprintf("%s, block %+d %s, from %d to %d", c.clock, c.block, block, c.after, c.before), func(t *testing.T) {
				f, now, b := payoffertest.NewPipedFacilitator(t, "one"), time.Now().Unix(), newBuyer(1)
				setup, want := setup{facilitators: one(f)}, c.without
				if block != "without a chain" {
					setup.chain, want = newChain(t), c.withChain
					setup.chain.At(7, now+c.block)
					settlesOn(f, setup.chain, b)
				}
				if block == "unread" {
					setup.chain.Fail("read", true)
					if want = Open; c.without == Settled {
						want = Settled
					}
				}
				b.auth.ValidBefore = fmt.Sprint(now + c.before)
				if c.after != none {
					b.auth.ValidAfter = fmt.Sprint(now + c.after)
				}
				s := newShop(t, setup)
				got := s.pay(b.v2(t))
				require.Equal(t, want, got.Status, "%+v", got)
				switch want {
				case Settled, Open:
				default:
					require.Equal(t, c.reason, got.Reason)
					if want == Refused {
						require.Equal(t, block == "known" && c.block > 0, strings.Contains(got.Detail, "the newest block is at"), got.Detail)
					}
					require.Equal(t, want == Refused && block == "known", saysNothingCharged(got))
					require.Equal(t, want == Unavailable, got.RetryAfter > 0)
					require.Empty(t, f.Calls(verifyCall))
					s.requireState(b, "")
				}
			})
		}
	}
}

// The times are judged again after the verification and the application.
func TestDeferredPaymentWithSlowClock(t *testing.T) {
	for application, want := range map[time.Duration]Status{30 * time.Second: Settled, 55 * time.Second: Unavailable} {
		bubble(t, application.String(), func(t *testing.T) {
			s, f, chain, b := onChain(t)
			settlesOn(f, chain, b)
			now := time.Now().Unix()
			chain.At(7, now+120)
			b.auth.ValidAfter, b.auth.ValidBefore = fmt.Sprint(now+120), fmt.Sprint(now+180)
			v, answer := s.Verify(t.Context(), Attempt{Payload: b.v2(t), Deferred: true})
			require.NotNil(t, v, "%+v", answer)
			time.Sleep(application)
			require.Equal(t, want, v.Charge(t.Context()).Status)
		})
	}
}
