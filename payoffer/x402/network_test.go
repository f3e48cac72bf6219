package x402

import (
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

func kindsOn(networks ...string) payoffertest.FacilitatorReply {
	var kinds []string
	for _, network := range networks {
		kinds = append(kinds, `{"x402Version":2,"scheme":"exact","network":"`+network+`"}`)
	}
	return supportsOnly(strings.Join(kinds, ","))
}

// networks are those of the quote and of a gate's; service TestUnsupportedNetworkIsNotOffered has the others.
func (s *shop) networks(t *testing.T, deferred bool) (networks []string) {
	t.Helper()
	_, quote := headerOf(t, s.Service)
	for _, accepted := range quote.Accepts {
		networks = append(networks, accepted.Network)
	}
	var inDeferred []string
	var gated PaymentRequired
	require.NoError(t, json.Unmarshal(must(DecodeHeader(s.QuoteFor(s.Offer.Resource(), deferred, "").Header()))(t), &gated))
	for _, accepted := range gated.Accepts {
		inDeferred = append(inDeferred, accepted.Network)
		require.Equal(t, deferred, accepted.Extra.PaymentFlow == "")
	}
	require.Equal(t, networks, inDeferred)
	return networks
}

// A quote that was given out stays payable, and a network is offered again when a facilitator lists it again. A
// facilitator that stops answering changes nothing.
func TestQuoteOmitsUnsupportedNetwork(t *testing.T) {
	const base, mainnet = "eip155:84532", "eip155:8453"
	bubble(t, "", func(t *testing.T) {
		f := payoffertest.NewPipedFacilitator(t, "one")
		s := newShop(t, setup{facilitators: one(f), networks: []string{"base-sepolia", "base"}})
		var changes atomic.Int64
		defer s.facilitators[0].Changes.Listen(func() { changes.Add(1); s.Refresh() })()
		require.Equal(t, []string{base, mainnet}, s.networks(t, false))
		quoted := stranger(1)

		for _, c := range []struct {
			reply   payoffertest.FacilitatorReply
			want    []string
			changes int
		}{
			{kindsOn(base, mainnet), []string{base, mainnet}, 1},
			{kindsOn(mainnet), []string{mainnet}, 2},
			{kindsOn(mainnet), []string{mainnet}, 2},
			{fails, []string{mainnet}, 2},
			{payoffertest.FacilitatorReply{Fault: payoffertest.FaultCloseRead}, []string{mainnet}, 2},
			{payoffertest.FacilitatorReply{Status: 404}, []string{mainnet}, 2},
			{kindsOn(), []string{base}, 3},
			{kindsOn(base), []string{base}, 4},
			{kindsOn("eip155:*"), []string{base, mainnet}, 5},
		} {
			f.Script(supportedCall, c.reply)
			if changes.Load() == 0 {
				s.watching()
			}
			time.Sleep(2*probeEvery + verifyTimeout)
			synctest.Wait()
			require.Equal(t, c.want, s.networks(t, true))
			require.EqualValues(t, c.changes, changes.Load())
			if len(c.want) == 1 && c.want[0] == mainnet && c.reply.Fault == 0 && c.reply.Status == 0 && quoted != nil {
				quoted = stranger(1)
				require.Equal(t, Settled, s.pay(quoted.v2(t)).Status, "it was quoted")
				quoted = nil
			}
		}
	})
}

// A rail that another facilitator supports does not use the one that does not, and versions are told apart.
func TestPaySkipsFacilitatorWithoutNetwork(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		one, two, s := twoFacilitators(t)
		one.Script(supportedCall, kindsOn())
		two.Script(supportedCall, kindsOn("eip155:84532"))
		s.watching()
		got := s.pay(stranger(1).v1(t))
		require.Equal(t, Unavailable, got.Status, "version 1 is not supported, and the network is")
		require.Equal(t, Settled, s.pay(stranger(1).v2(t)).Status)
		require.Empty(t, one.Calls(verifyCall))
	})
}
