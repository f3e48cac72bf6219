package x402

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
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

func TestProbeInterval(t *testing.T) {
	withShop(t, "well", func(t *testing.T, s *shop, f *payoffertest.Facilitator) {
		s.watching()
		require.Len(t, f.Calls(supportedCall), 1, "at once")
		time.Sleep(probeEvery*4/5 - time.Second)
		require.Len(t, f.Calls(supportedCall), 1)
		time.Sleep(probeEvery/5 + 2*time.Second)
		require.Len(t, f.Calls(supportedCall), 2)
		require.Empty(t, f.Calls(verifyCall))
	})
	withShop(t, "down", func(t *testing.T, s *shop, f *payoffertest.Facilitator) {
		f.Script(supportedCall, fails)
		s.watching()
		// One after the other, each pause spread by a fifth: 5, 10, 20, 40, 60, 60.
		for n, most := range []time.Duration{5, 15, 35, 75, 135, 195} {
			time.Sleep(most*time.Second - time.Since(bubbleStart))
			synctest.Wait()
			require.GreaterOrEqual(t, len(f.Calls(supportedCall)), n+2, "after %d seconds", most)
		}
		require.LessOrEqual(t, len(f.Calls(supportedCall)), 8, "each pause is four fifths at least")

		f.Script(supportedCall, works)
		time.Sleep(maxPause)
		synctest.Wait()
		s.requireHealth("")
		require.Equal(t, 1, strings.Count(s.logs.String(), "facilitator is down"))
		require.Equal(t, 1, strings.Count(s.logs.String(), "is up again"))
	})
}

// bubbleStart is when the time of every bubble begins.
var bubbleStart = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

func TestFailedPaymentStartsProbe(t *testing.T) {
	for name, reply := range map[string]payoffertest.FacilitatorReply{
		"by status 500": fails, "by a closed connection": {Fault: payoffertest.FaultCloseRead}, "by no answer": hangs, "by no verdict": {Body: `{}`},
	} {
		for _, call := range []string{verifyCall, settleCall} {
			withShop(t, call+" "+name, func(t *testing.T, s *shop, f *payoffertest.Facilitator) {
				s.watching()
				time.Sleep(time.Minute)
				f.Script(call, reply)
				s.pay(stranger(1).v2(t))
				synctest.Wait()
				require.Len(t, f.Calls(supportedCall), 2, "at once")
				s.requireHealth("")
			})
		}
	}
	bubble(t, "but no more than one in a while", func(t *testing.T) {
		f := payoffertest.NewPipedFacilitator(t, "one")
		s := newShop(t, setup{facilitators: one(f), limiter: limited(1_000_000, time.Minute)})
		s.watching()
		f.Script(verifyCall, fails)
		for n := range 61 { // one a second
			require.Equal(t, Unavailable, s.pay(stranger(n).v2(t)).Status)
			s.requireHealth("")
			time.Sleep(time.Second)
		}
		synctest.Wait()
		require.Len(t, f.Calls(supportedCall), 1+int(time.Minute/probeGap))
	})
	withShop(t, "and none by a client that left", func(t *testing.T, s *shop, f *payoffertest.Facilitator) {
		s.watching()
		time.Sleep(time.Minute)
		f.Script(verifyCall, hangs)
		ctx, leave := context.WithTimeout(t.Context(), time.Second)
		defer leave()
		require.Equal(t, Unavailable, s.Pay(ctx, Attempt{Payload: stranger(1).v2(t)}).Status)
		synctest.Wait()
		require.Len(t, f.Calls(supportedCall), 1)
	})
}

// The fake takes whatever it is asked; what the official facilitator says to the same payment is tested in caddy/e2e.
func TestProbeOnceSendsUnfundedPayment(t *testing.T) {
	const old = `{"x402Version":1,"scheme":"exact","network":"base-sepolia"}`
	for name, c := range map[string]struct {
		supported payoffertest.FacilitatorReply
		version   int
	}{
		"version 2":                     {works, 2},
		"of one without a list":         {payoffertest.FacilitatorReply{Status: 404, Body: "?"}, 2},
		"version 1 where it is all":     {supportsOnly(old), 1},
		"version 2 where it is younger": {supportsOnly(old + `,{"x402Version":2,"scheme":"exact","network":"eip155:84532"}`), 2},
	} {
		t.Run(name, func(t *testing.T) {
			f := payoffertest.NewFacilitator(t)
			f.Script(supportedCall, c.supported)
			s := newShop(t, setup{facilitators: one(payoffertest.NewFacilitator(t))})
			payers := map[string]bool{}
			for range 2 {
				reason, err := ProbeOnce(t.Context(), FacilitatorConfig{URL: f.URL(), Transport: f.Transport()}, s.Offer, s.usdc().USDC)
				require.NoError(t, err)
				require.Empty(t, reason)
			}
			for _, call := range f.Calls(payoffertest.CallProbe) {
				var body struct {
					X402Version                         int
					PaymentPayload, PaymentRequirements json.RawMessage
				}
				require.NoError(t, json.Unmarshal(call.Body, &body))
				require.Equal(t, c.version, body.X402Version)
				require.JSONEq(t, string(s.usdc().terms.in(c.version)), string(body.PaymentRequirements))
				p := must(decodePayment(body.PaymentPayload))(t)
				require.Equal(t, c.version, p.version)
				require.Equal(t, "0x"+strings.Repeat("0", 64), p.authorization.Nonce)
				_, refused := s.check(p)
				require.Nil(t, refused, "it would be sent to a facilitator if a buyer had sent it")
				require.Contains(t, []byte{27, 28}, p.signature[64], "as the token contract reads it")
				payers[p.authorization.From] = true
			}
			require.Len(t, payers, 2, "a payer of its own each time")
		})
	}
}

func TestFacilitatorOfOtherNetworkIsSkipped(t *testing.T) {
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
		require.Equal(t, 1, strings.Count(s.logs.String(), "does not support"), "it is said once")
		require.Contains(t, s.logs.String(), "facilitator=one.localhost network=eip155:84532")

		two.Script(supportedCall, supportsOnly(""))
		time.Sleep(2 * probeEvery)
		one.Script(verifyCall, fails)
		require.Equal(t, Settled, s.pay(stranger(2).v2(t)).Status, "it was quoted before: all are asked")
		require.Len(t, one.Calls(verifyCall), 1)

		one.Script(supportedCall, works)
		one.Script(verifyCall, works)
		time.Sleep(2 * probeEvery)
		require.Equal(t, Settled, s.pay(stranger(3).v2(t)).Status, "it may learn")
		require.Len(t, one.Calls(settleCall), 1)
	})
}

// A configuration may be loaded again while the facilitator lives on.
func TestFacilitatorSurvivesReload(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		f := payoffertest.NewPipedFacilitator(t, "one")
		f.Script(supportedCall, supportsOnly(`{"x402Version":2,"scheme":"exact","network":"eip155:84532"}`))
		before := newShop(t, setup{facilitators: one(f)})
		after := newShop(t, setup{made: before.facilitators, ledger: before.book, networks: []string{"base-sepolia", "arbitrum-sepolia"}})
		before.run(time.Minute)
		require.Len(t, f.Calls(supportedCall), 1)
		skipped := func() int { return strings.Count(before.logs.String(), "does not support") }
		require.Equal(t, 1, skipped())
		after.requireHealth("", "network_unsupported")
		after.watching()
		require.Len(t, f.Calls(supportedCall), 2, "it is looked at anew")
		require.Equal(t, 1, skipped(), "it was said before")

		newShop(t, setup{made: before.facilitators, ledger: before.book, networks: []string{"base"}})
		newShop(t, setup{made: before.facilitators, ledger: before.book, networks: []string{"base"}})
		require.Len(t, f.Calls(supportedCall), 2, "what it supports is known")
		require.Equal(t, 2, skipped(), "it is said at once, and once for two services")
		require.Contains(t, before.logs.String(), "network=eip155:8453 ")
	})
}

func TestStopDuringProbeLeavesFacilitatorUp(t *testing.T) {
	withShop(t, "", func(t *testing.T, s *shop, f *payoffertest.Facilitator) {
		f.Script(supportedCall, hangs)
		s.run(time.Second)
		s.requireHealth("")
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
				require.Equal(t, c.base, supports(kinds, 2, "eip155:8453"))
			}
		})
	}
}

func TestProbeOnce(t *testing.T) {
	for name, c := range map[string]struct {
		call  string
		reply payoffertest.FacilitatorReply
		want  string
	}{
		"a good one":            {payoffertest.CallProbe, payoffertest.Unfunded, ""},
		"another network":       {supportedCall, supportsOnly(`{"x402Version":2,"scheme":"exact","network":"eip155:8453"}`), reasonUnsupported},
		"a key that is unknown": {payoffertest.CallProbe, payoffertest.FacilitatorReply{Status: http.StatusUnauthorized, Body: `{"error":"no such key"}`}, "status_401 (verify HTTP 401 unspecified: no such key)"},
		"one that takes all":    {payoffertest.CallProbe, payoffertest.FacilitatorReply{}, "accepts_unfunded"},
		"one that is busy":      {payoffertest.CallProbe, payoffertest.FacilitatorReply{Status: http.StatusTooManyRequests}, ""},
		"one that is down":      {supportedCall, payoffertest.FacilitatorReply{Fault: payoffertest.FaultCloseRead}, "unreachable"},
	} {
		t.Run(name, func(t *testing.T) {
			f := payoffertest.NewFacilitator(t)
			f.Script(c.call, c.reply)
			s := newShop(t, setup{facilitators: one(payoffertest.NewFacilitator(t))})
			reason, err := ProbeOnce(t.Context(), FacilitatorConfig{URL: f.URL(), Transport: f.Transport()}, s.Offer, s.usdc().USDC)
			require.NoError(t, err)
			require.Equal(t, c.want, reason)
			require.Empty(t, f.Calls(verifyCall))
			require.Empty(t, f.Calls(payoffertest.CallSettle))
		})
	}
	s := newShop(t, setup{facilitators: one(payoffertest.NewFacilitator(t))})
	_, err := ProbeOnce(t.Context(), FacilitatorConfig{URL: "https://one.example", KeyID: "id", KeySecret: "no key"}, s.Offer, s.usdc().USDC)
	require.ErrorContains(t, err, "one.example")
	require.NotContains(t, err.Error(), "no key")
}

func extensionsOf(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

const (
	saysListed     = `{"bazaar":{"status":"success"}}`
	saysProcessing = `{"bazaar":{"status":"processing"},"other":7}`
	saysRejected   = `{"bazaar":{"status":"rejected","rejectedReason":"info failed schema validation"}}`
)

func TestParseBazaarListing(t *testing.T) {
	f, err := NewFacilitator(FacilitatorConfig{URL: "https://facilitator.example/" + urlKey})
	require.NoError(t, err)
	rejected := func(reason string) Listing { return Listing{"rejected", reason} }
	awkward := `{"bazaar":{"status":"rejected","rejectedReason":"??>>~~"}}`
	for value, want := range map[string]Listing{
		extensionsOf(saysListed): {Status: "success"}, extensionsOf(saysProcessing): {Status: "processing"},
		extensionsOf(saysRejected):                                                                           rejected("info failed schema validation"),
		base64.RawURLEncoding.EncodeToString([]byte(awkward)):                                                rejected("??>>~~"),
		" " + base64.URLEncoding.EncodeToString([]byte(awkward)):                                             rejected("??>>~~"),
		extensionsOf(`{"bazaar":{"status":"success","rejectedReason":"x"}}`):                                 {Status: "success"},
		extensionsOf(`{"bazaar":{"status":"rejected"}}`):                                                     rejected(""),
		extensionsOf(`{"bazaar":{"status":"rejected","rejectedReason":"a\u001b[31m\u202e \"b\""}}`):          rejected("a[31m 'b'"),
		extensionsOf(`{"bazaar":{"status":"rejected","rejectedReason":"` + urlKey + `"}}`):                   rejected(""),
		extensionsOf(`{"bazaar":{"status":"rejected","rejectedReason":"` + strings.Repeat("x", 500) + `"}}`): rejected(strings.Repeat("x", maxMessage-1) + "…"),
		"": {}, "!": {}, saysListed: {}, extensionsOf(`{`): {}, extensionsOf(`[]`): {}, extensionsOf(`null`): {}, extensionsOf(`{"bazaar":[]}`): {},
		extensionsOf(`{"bazaar":{"status":"listed"}}`): {}, extensionsOf(`{"bazaar":{"status":1}}`): {}, extensionsOf(`{"bazaar":{"status":""}}`): {},
		extensionsOf(`{"bazaar":{"status":"rejected","rejectedReason":{}}}`):                             {},
		extensionsOf(`{"bazaar":{"status":"success"},"x":"` + strings.Repeat("x", maxExtensions) + `"}`): {},
	} {
		require.Equal(t, want, f.listing(http.Header{"Extension-Responses": {value}}), value)
	}
}

func (s *shop) listed() Listing { return s.Facilitators()[0].Listing }

func TestBazaarListingChangeIsReportedOnce(t *testing.T) {
	withShop(t, "", func(t *testing.T, s *shop, f *payoffertest.Facilitator) {
		require.Equal(t, Listing{}, s.listed())
		buyer := 0
		pay := func(settle string, want Listing) {
			t.Helper()
			f.Script(payoffertest.CallSettle, payoffertest.FacilitatorReply{Extensions: settle})
			buyer++
			require.Equal(t, Settled, s.pay(newBuyer(buyer).v2(t)).Status)
			require.Equal(t, want, s.listed())
		}
		lines := func() int { return strings.Count(s.logs.String(), "Bazaar listing") }

		pay(extensionsOf(saysProcessing), Listing{Status: "processing"})
		require.Equal(t, 1, lines())
		for range 3 {
			pay(extensionsOf(saysListed), Listing{Status: "success"})
		}
		require.Equal(t, 2, lines())
		pay("", Listing{Status: "success"})
		pay("garbage", Listing{Status: "success"})
		require.Equal(t, 2, lines(), "who says nothing has taken nothing back")
		pay(extensionsOf(saysRejected), Listing{"rejected", "info failed schema validation"})
		require.Equal(t, 3, lines())
		require.Contains(t, s.logs.String(), `level=WARN msg="facilitator reported its Bazaar listing" facilitator=one.localhost status=rejected reason="info failed schema validation"`)
	})
}
