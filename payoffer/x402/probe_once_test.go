package x402

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

func TestAFacilitatorIsLookedAtOnceWithoutAPayment(t *testing.T) {
	for name, c := range map[string]struct {
		call  string
		reply payoffertest.FacilitatorReply
		want  string
	}{
		"a good one":            {probeCall, payoffertest.Unfunded, ""},
		"another network":       {supportedCall, supportsOnly(`{"x402Version":2,"scheme":"exact","network":"eip155:8453"}`), reasonUnsupported},
		"a key that is unknown": {probeCall, payoffertest.FacilitatorReply{Status: http.StatusUnauthorized}, "status_401"},
		"one that takes all":    {probeCall, payoffertest.FacilitatorReply{}, "accepts_unfunded"},
		"one that is busy":      {probeCall, payoffertest.FacilitatorReply{Status: http.StatusTooManyRequests}, ""},
		"one that is down":      {supportedCall, payoffertest.FacilitatorReply{Fault: payoffertest.FaultCloseRead}, "unreachable"},
	} {
		t.Run(name, func(t *testing.T) {
			f := payoffertest.NewFacilitator(t)
			f.Script(c.call, c.reply)
			s := newShop(t, setup{facilitators: one(payoffertest.NewFacilitator(t))})
			reason, err := ProbeOnce(t.Context(), FacilitatorConfig{URL: f.URL(), Transport: f.Transport()}, s.Offer, s.Rails[0].USDC)
			require.NoError(t, err)
			require.Equal(t, c.want, reason)
			require.Empty(t, f.Calls(verifyCall))
			require.Empty(t, f.Calls(payoffertest.CallSettle))
		})
	}
	s := newShop(t, setup{facilitators: one(payoffertest.NewFacilitator(t))})
	_, err := ProbeOnce(t.Context(), FacilitatorConfig{URL: "https://one.example", KeyID: "id", KeySecret: "no key"}, s.Offer, s.Rails[0].USDC)
	require.ErrorContains(t, err, "one.example")
	require.NotContains(t, err.Error(), "no key")
}
