package x402

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

const supportedCall = payoffertest.CallSupported

func supportsOnly(kinds string) payoffertest.FacilitatorReply {
	return payoffertest.FacilitatorReply{Body: `{"kinds":[` + kinds + `],"extensions":[],"signers":{}}`}
}

// watching runs a shop in the background until the test ends.
func (s *shop) watching() {
	s.t.Helper()
	go s.Run(s.t.Context())
	synctest.Wait()
}

func TestHealthIsLookedAtRarelyWhileWellAndSoonerWhileNot(t *testing.T) {
	bubble(t, "well", func(t *testing.T) {
		f := payoffertest.NewPipedFacilitator(t, "one")
		s := newShop(t, setup{facilitators: one(f)})
		s.watching()
		require.Len(t, f.Calls(supportedCall), 1, "at once")
		time.Sleep(probeEvery*4/5 - time.Second)
		require.Len(t, f.Calls(supportedCall), 1)
		time.Sleep(probeEvery*2/5 + time.Second)
		require.Len(t, f.Calls(supportedCall), 2)
	})
	bubble(t, "unwell", func(t *testing.T) {
		f := payoffertest.NewPipedFacilitator(t, "one")
		f.Script(supportedCall, fails, fails, fails, fails, works)
		s := newShop(t, setup{facilitators: one(f)})
		s.watching()
		s.requireHealth("bad_answer_status_500")
		for _, c := range []struct {
			until time.Duration
			calls int
		}{{3, 1}, {7, 2}, {20, 3}, {45, 4}} {
			synctest.Wait()
			time.Sleep(c.until*time.Second - time.Since(bubbleStart))
			require.Len(t, f.Calls(supportedCall), c.calls, "after %d seconds", c.until)
		}
		require.Equal(t, Unavailable, s.pay(stranger(1).v2(t)).Status)
		require.Empty(t, f.Calls(verifyCall))
		time.Sleep(time.Minute)
		s.requireHealth("")
		require.Equal(t, Settled, s.pay(stranger(1).v2(t)).Status)
		require.Equal(t, 1, strings.Count(s.logs.String(), "left alone"))
		require.Equal(t, 1, strings.Count(s.logs.String(), "asked again"))
	})
}

// bubbleStart is when the time of every bubble begins.
var bubbleStart = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

func TestAnUnansweredProbeDelaysNobody(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		f := payoffertest.NewPipedFacilitator(t, "one")
		f.Script(supportedCall, payoffertest.FacilitatorReply{Fault: payoffertest.FaultHang})
		s := newShop(t, setup{facilitators: one(f)})
		s.watching()
		start := time.Now()
		require.Equal(t, Settled, s.pay(stranger(1).v2(t)).Status)
		require.Zero(t, time.Since(start))

		time.Sleep(defaultTimeout)
		synctest.Wait()
		s.requireHealth("")
		require.Equal(t, Settled, s.pay(stranger(2).v2(t)).Status, "payments go well all the same")
		time.Sleep(3 * probeEvery)
		s.requireHealth("timeout")
	})
}

func TestAFacilitatorThatDoesNotTellIsAsked(t *testing.T) {
	for name, status := range map[string]int{"no such path": 404, "no such method": 405, "not built": 501, "too many": 429} {
		bubble(t, name, func(t *testing.T) {
			f := payoffertest.NewPipedFacilitator(t, "one")
			f.Script(supportedCall, payoffertest.FacilitatorReply{Status: status, Body: "?"})
			s := newShop(t, setup{facilitators: one(f)})
			s.watching()
			s.requireHealth("")
			require.Equal(t, Settled, s.pay(stranger(1).v2(t)).Status)
		})
	}
}

func TestAFacilitatorOfAnotherNetworkIsSkipped(t *testing.T) {
	const elsewhere = `{"x402Version":2,"scheme":"exact","network":"eip155:8453"},{"x402Version":2,"scheme":"upto","network":"eip155:84532"}`
	bubble(t, "", func(t *testing.T) {
		one, two, s := twoFacilitators(t)
		one.Script(supportedCall, supportsOnly(elsewhere))
		s.watching()
		require.Equal(t, []FacilitatorHealth{
			{Host: "one.localhost", Network: "eip155:84532", Reason: "network_unsupported"},
			{Host: "two.localhost", Network: "eip155:84532"},
		}, s.Facilitators())
		require.Equal(t, Settled, s.pay(stranger(1).v2(t)).Status)
		require.Empty(t, one.Calls(verifyCall))
		time.Sleep(4 * probeEvery)
		require.Equal(t, 1, strings.Count(s.logs.String(), "skipped"), "it is said once")
		require.Contains(t, s.logs.String(), "facilitator=one.localhost network=eip155:84532")

		two.Script(supportedCall, supportsOnly(""))
		time.Sleep(2 * probeEvery)
		got := s.pay(stranger(2).v2(t))
		require.Equal(t, Unavailable, got.Status)
		require.Equal(t, probeEvery, got.RetryAfter)

		one.Script(supportedCall, works)
		time.Sleep(2 * probeEvery)
		require.Equal(t, Settled, s.pay(stranger(2).v2(t)).Status, "it may learn")
	})
}

func TestAPaymentGoesToAFacilitatorOfItsVersion(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		one, two, s := twoFacilitators(t)
		one.Script(supportedCall, supportsOnly(`{"x402Version":2,"scheme":"exact","network":"eip155:84532"}`))
		two.Script(supportedCall, supportsOnly(`{"x402Version":1,"scheme":"exact","network":"base-sepolia"}`))
		s.watching()
		s.requireHealth("", "")
		require.Equal(t, Settled, s.pay(stranger(1).v2(t)).Status)
		require.Equal(t, Settled, s.pay(stranger(2).v1(t)).Status)
		require.Len(t, one.Calls(settleCall), 1)
		require.Len(t, two.Calls(settleCall), 1)
	})
}

func TestAFacilitatorOfTwoRailsIsLookedAtOnce(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		f := payoffertest.NewPipedFacilitator(t, "one")
		f.Script(supportedCall, fails)
		s := newShop(t, setup{facilitators: one(f), networks: []string{"base-sepolia", "arbitrum-sepolia"}})
		s.watching()
		require.Len(t, f.Calls(supportedCall), 1)
		s.requireHealth("bad_answer_status_500", "bad_answer_status_500")
	})
}

// A configuration may be loaded again while the facilitator lives on.
func TestAFacilitatorOutlivesItsServices(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		f := payoffertest.NewPipedFacilitator(t, "one")
		f.Script(supportedCall, supportsOnly(`{"x402Version":2,"scheme":"exact","network":"eip155:84532"}`))
		before := newShop(t, setup{facilitators: one(f)})
		before.open(f, verifyCall)
		f.Script(verifyCall, works)
		after := newShop(t, setup{made: before.facilitators, ledger: before.book, networks: []string{"base-sepolia", "arbitrum-sepolia"}})
		after.requireHealth("bad_answer_status_500", "bad_answer_status_500")
		require.Equal(t, Unavailable, after.pay(stranger(1).v2(t)).Status, "its circuit is open still")

		before.run(time.Minute)
		require.Len(t, f.Calls(supportedCall), 1)
		skipped := func() int { return strings.Count(before.logs.String(), "skipped") }
		require.Equal(t, 1, skipped())
		after.requireHealth("", "network_unsupported")
		after.watching()
		require.Len(t, f.Calls(supportedCall), 2, "it is looked at anew")
		require.Equal(t, 1, skipped(), "it was said before")

		newShop(t, setup{made: before.facilitators, ledger: before.book, networks: []string{"base"}})
		newShop(t, setup{made: before.facilitators, ledger: before.book, networks: []string{"base"}})
		synctest.Wait()
		require.Len(t, f.Calls(supportedCall), 2)
		require.Equal(t, 2, skipped(), "it is said at once, and once for two services")
		require.Contains(t, before.logs.String(), "network=eip155:8453\n")
	})
}

func TestParseKinds(t *testing.T) {
	for _, c := range []struct {
		name, answer string
		read, base   bool
	}{
		{"version 2", `{"kinds":[{"x402Version":2,"scheme":"exact","network":"eip155:8453","extra":{"a":[1]}}]}`, true, true},
		{"every EVM chain", `{"kinds":[{"x402Version":2,"scheme":"exact","network":"eip155:*"}]}`, true, true},
		{"the chain's name", `{"kinds":[{"x402Version":2,"scheme":"exact","network":"base"}]}`, true, true},
		{"a kind of another shape beside it", `{"kinds":[7,{"x402Version":"2"},{"x402Version":2,"scheme":"exact","network":"eip155:8453"}]}`, true, true},
		{"another chain", `{"kinds":[{"x402Version":2,"scheme":"exact","network":"eip155:84532"}]}`, true, false},
		{"another version", `{"kinds":[{"x402Version":3,"scheme":"exact","network":"eip155:8453"}]}`, true, false},
		{"another scheme", `{"kinds":[{"x402Version":2,"scheme":"upto","network":"eip155:8453"}]}`, true, false},
		{"nothing", `{"kinds":[]}`, true, false},
		{"no kinds", `{"extensions":[]}`, false, false},
		{"kinds that are no list", `{"kinds":{}}`, false, false},
		{"no JSON", `<html>`, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			kinds, ok := parseKinds([]byte(c.answer))
			require.Equal(t, c.read, ok)
			if ok {
				h := newHealth(time.Now)
				h.probed(kinds)
				require.Equal(t, c.base, h.supports(2, "eip155:8453"))
			}
		})
	}
}

func FuzzParseKinds(f *testing.F) {
	f.Add([]byte(`{"kinds":[{"x402Version":2,"scheme":"exact","network":"eip155:8453"},null,[]]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		kinds, ok := parseKinds(data)
		require.Equal(t, ok, kinds != nil, "nil means that nothing is known")
	})
}
