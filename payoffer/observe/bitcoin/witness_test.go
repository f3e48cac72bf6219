package bitcoin

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
)

// A second host can contradict. It holds up no payment while it is dead.
func TestADeadHostIsReportedAndNotWaitedFor(t *testing.T) {
	t.Parallel()
	dead := answer("", 503, "")
	for name, test := range map[string]func(t *testing.T, b *bench, n network, o *Observer){
		"the second is dead from the start": func(_ *testing.T, b *bench, n network, o *Observer) {
			n[1].setFault(dead)
			n.mine(1, pay("p", single, 1000))
			b.partly(o, observe.ErrUnreachable)
			b.requireState("p", ledger.StatusConfirmed)
		},
		"the second dies later": func(_ *testing.T, b *bench, n network, o *Observer) {
			b.wholly(o)
			n[1].setFault(dead)
			b.partly(o, observe.ErrUnreachable)
			n.mine(1, pay("p", single, 1000))
			b.clock.advance(9 * time.Minute)
			b.partly(o, observe.ErrUnreachable)
			b.requireState("p", ledger.StatusSeen)
			b.clock.advance(time.Minute)
			b.partly(o, observe.ErrUnreachable)
			b.requireState("p", ledger.StatusConfirmed)
		},
		"the second answers for blocks alone": func(_ *testing.T, b *bench, n network, o *Observer) {
			b.wholly(o)
			n[1].setFault(answer("/address/", 503, ""))
			b.partly(o, observe.ErrUnreachable)
			n.mine(1, pay("p", single, 1000))
			b.clock.advance(maxPause)
			b.partly(o, observe.ErrUnreachable)
			b.requireState("p", ledger.StatusConfirmed)
		},
		"the second comes back and contradicts": func(t *testing.T, b *bench, n network, o *Observer) {
			n[1].setFault(dead)
			n.mine(1, pay("p", single, 1000))
			b.partly(o, observe.ErrUnreachable)
			b.requireState("p", ledger.StatusConfirmed)
			hidden := pay("hidden", single, 2000)
			n.mine(1, hidden)
			n[1].setFault(nil)
			n[1].inBlock(102)
			b.clock.advance(maxPause)
			b.partly(o, observe.ErrDisagree)
			require.Equal(t, ledger.StatusSeen, b.rows("p", "hidden")["hidden"].Status)
			n[1].inBlock(102, hidden)
			b.wholly(o)
			require.Equal(t, ledger.StatusConfirmed, b.rows("p", "hidden")["hidden"].Status)
		},
		"both are dead": func(t *testing.T, b *bench, n network, o *Observer) {
			b.wholly(o)
			n.mine(1, pay("p", single, 1000))
			for _, s := range n {
				s.setFault(dead)
			}
			for range 3 {
				b.clock.advance(6 * time.Minute)
				require.Error(t, o.Poll(t.Context()))
				require.True(t, o.Health().Blind)
			}
			require.Empty(t, b.rows())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, n := newBench(t, single), newNetwork(t, 2, 100)
			test(t, b, n, b.hosts(n...))
		})
	}
}
